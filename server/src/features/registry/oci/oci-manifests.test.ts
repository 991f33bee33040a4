import { createHash } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { toOciError } from './oci-errors.ts'
import { manifestMaxBytes, parseManifest, referrerDescriptor, requireManifestDigest } from './oci-manifests.ts'

const oci = 'application/vnd.oci.image.manifest.v1+json'
const ociIndex = 'application/vnd.oci.image.index.v1+json'
const docker = 'application/vnd.docker.distribution.manifest.v2+json'
const dockerList = 'application/vnd.docker.distribution.manifest.list.v2+json'

const digest = (letter: string) => `sha256:${letter.repeat(64)}`
const descriptor = (letter: string, mediaType = 'application/vnd.oci.image.layer.v1.tar+gzip') => ({
  mediaType,
  digest: digest(letter),
  size: 10,
})
const config = descriptor('c', 'application/vnd.oci.image.config.v1+json')
const image = { schemaVersion: 2, mediaType: oci, config, layers: [descriptor('a'), descriptor('b')] }
const index = { schemaVersion: 2, mediaType: ociIndex, manifests: [descriptor('d', oci)] }
const bytes = (value: unknown) => Buffer.from(JSON.stringify(value))
const parse = (value: unknown, contentType: string | undefined = undefined) => parseManifest(bytes(value), contentType)

function refusal(act: () => unknown) {
  try {
    act()
  } catch (error) {
    return toOciError(error)
  }
  return null
}

describe('what is taken', () => {
  test('an OCI image: configuration, layers and the digest of its bytes', () => {
    const manifest = parse(image, oci)
    expect(manifest).toMatchObject({
      mediaType: oci,
      kind: 'image',
      config,
      layers: image.layers,
      children: [],
      subject: null,
    })
    expect(manifest.digest).toBe(`sha256:${createHash('sha256').update(bytes(image)).digest('hex')}`)
    expect(manifest.size).toBe(bytes(image).length)
    expect(manifest.requiredBlobs).toEqual([digest('c'), digest('a'), digest('b')])
  })

  test('an index and a docker list: children, and no blob required', () => {
    for (const mediaType of [ociIndex, dockerList]) {
      const manifest = parse({ ...index, mediaType }, mediaType)
      expect(manifest).toMatchObject({
        kind: 'index',
        mediaType,
        config: null,
        children: index.manifests,
        requiredBlobs: [],
      })
    }
  })

  test('docker schema 2, Content-Type with parameters and in capitals', () => {
    expect(parse({ ...image, mediaType: docker }, docker).kind).toBe('image')
    expect(parse(image, `${oci.toUpperCase()}; charset=utf-8`).mediaType).toBe(oci)
  })

  test('no mediaType in the body, or no Content-Type', () => {
    const { mediaType, ...bare } = image
    expect(parse(bare, mediaType).mediaType).toBe(oci)
    expect(parse(image).mediaType).toBe(oci)
  })

  test('empty, absent and null layers; unknown fields; foreign text', () => {
    for (const layers of [[], undefined, null]) expect(parse({ ...image, layers }).layers).toEqual([])
    expect(parse({ ...image, later: { x: 1 }, annotations: { 'org.작성자': '김' } }).annotations).toEqual({
      'org.작성자': '김',
    })
    expect(parse({ ...index, manifests: [] }).children).toEqual([])
  })

  test('layers that are never distributed, and blobs named twice, are required once or not at all', () => {
    const layers = [
      descriptor('a'),
      descriptor('a'),
      descriptor('e', 'application/vnd.oci.image.layer.nondistributable.v1.tar+gzip'),
      descriptor('f', 'application/vnd.docker.image.rootfs.foreign.diff.tar.gzip'),
    ]
    expect(parse({ ...image, layers }).requiredBlobs).toEqual([digest('c'), digest('a')])
    expect(parse({ ...image, layers }).layers).toHaveLength(4)
  })

  test('sha512 digests and sizes of 0', () => {
    const wide = { mediaType: 'application/octet-stream', digest: `sha512:${'a'.repeat(128)}`, size: 0 }
    expect(parse({ ...image, layers: [wide] }).layers).toEqual([wide])
  })

  test('exactly the longest manifest', () => {
    const padded = Buffer.concat([bytes(image), Buffer.alloc(manifestMaxBytes - bytes(image).length, ' ')])
    expect(parseManifest(padded, oci).size).toBe(manifestMaxBytes)
  })
})

describe('referrers', () => {
  const subject = descriptor('9', oci)

  test('artifactType is the manifest’s own, else the configuration’s type; an index without has none', () => {
    expect(parse({ ...image, subject, artifactType: 'application/sbom' }).artifactType).toBe('application/sbom')
    expect(parse({ ...image, subject }).artifactType).toBe(config.mediaType)
    expect(parse({ ...image, subject, artifactType: '' }).artifactType).toBe(config.mediaType)
    expect(parse({ ...index, subject }).artifactType).toBeNull()
    expect(parse({ ...index, subject }).subject).toEqual(subject)
  })

  test('a descriptor copies annotations and omits what is absent', () => {
    const manifest = parse({ ...image, subject, annotations: { a: 'b' } })
    const { mediaType, digest, size } = manifest
    expect(referrerDescriptor(manifest)).toEqual({
      mediaType,
      digest,
      size,
      artifactType: config.mediaType,
      annotations: { a: 'b' },
    })
    expect(Object.keys(referrerDescriptor(parse({ ...index, subject })))).toEqual(['mediaType', 'digest', 'size'])
  })
})

describe('400 MANIFEST_INVALID names the place', () => {
  const { config: _config, ...withoutConfig } = image
  test.each<[string, unknown, string | undefined, string]>([
    ['a list', [], oci, ''],
    ['null', null, oci, ''],
    [
      'schema 1',
      { schemaVersion: 1, fsLayers: [] },
      'application/vnd.docker.distribution.manifest.v1+prettyjws',
      'mediaType',
    ],
    ['schema 1 under a new name', { ...image, schemaVersion: 1 }, oci, 'schemaVersion'],
    ['no schemaVersion', { ...image, schemaVersion: undefined }, oci, 'schemaVersion'],
    ['an unknown type', { ...image, mediaType: 'application/json' }, 'application/json', 'mediaType'],
    ['a type from the prototype', { ...image, mediaType: undefined }, 'constructor', 'mediaType'],
    ['no type at all', { ...image, mediaType: undefined }, undefined, 'mediaType'],
    ['two types', image, docker, 'mediaType'],
    ['mediaType a number', { ...image, mediaType: 1 }, oci, 'mediaType'],
    ['an image that is an index as well', { ...image, manifests: [descriptor('d')] }, oci, 'manifests'],
    ['an index that is an image as well', { ...index, layers: [descriptor('d')] }, ociIndex, 'layers'],
    ['no config', withoutConfig, oci, 'config'],
    ['layers no list', { ...image, layers: {} }, oci, 'layers'],
    ['a layer that is text', { ...image, layers: ['x'] }, oci, 'layers.0'],
    [
      'a bad digest',
      { ...image, layers: [descriptor('a'), { ...descriptor('a'), digest: 'sha256:zz' }] },
      oci,
      'layers.1.digest',
    ],
    ['no media type', { ...image, layers: [{ ...descriptor('a'), mediaType: '' }] }, oci, 'layers.0.mediaType'],
    ['a negative size', { ...image, config: { ...config, size: -1 } }, oci, 'config.size'],
    ['a size as text', { ...image, config: { ...config, size: '10' } }, oci, 'config.size'],
    ['half a byte', { ...image, config: { ...config, size: 0.5 } }, oci, 'config.size'],
    ['a bad child', { ...index, manifests: [{}] }, ociIndex, 'manifests.0.mediaType'],
    ['a bad subject', { ...image, subject: 'sha256:1' }, oci, 'subject'],
    ['annotations a list', { ...image, annotations: [] }, oci, 'annotations'],
    ['an annotation that is no text', { ...image, annotations: { a: 1 } }, oci, 'annotations.a'],
    ['artifactType a number', { ...image, artifactType: 7 }, oci, 'artifactType'],
  ])('%s', (_title, value, contentType, place) => {
    const error = refusal(() => parse(value, contentType))
    expect(error).toMatchObject({ code: 'MANIFEST_INVALID', status: 400, detail: { place } })
  })

  test('bytes that are no JSON, or JSON in another encoding', () => {
    for (const body of [Buffer.from('{'), Buffer.alloc(0), Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x7d])]) {
      expect(refusal(() => parseManifest(body, oci))).toMatchObject({ code: 'MANIFEST_INVALID' })
    }
  })
})

test('413 SIZE_INVALID one byte above the longest', () => {
  const body = Buffer.alloc(manifestMaxBytes + 1, ' ')
  expect(refusal(() => parseManifest(body, oci))).toMatchObject({ code: 'SIZE_INVALID', status: 413 })
})

test('a manifest put under a digest must have it, by either algorithm', () => {
  const body = bytes(image)
  const of = (algorithm: string) => `${algorithm}:${createHash(algorithm).update(body).digest('hex')}`
  for (const reference of [{ tag: 'latest' }, { digest: of('sha256') }, { digest: of('sha512') }]) {
    expect(refusal(() => requireManifestDigest(body, reference))).toBeNull()
  }
  for (const reference of [{ digest: digest('0') }, { digest: `sha512:${'0'.repeat(128)}` }]) {
    expect(refusal(() => requireManifestDigest(body, reference))).toMatchObject({ code: 'DIGEST_INVALID', status: 400 })
  }
})
