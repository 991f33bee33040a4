import { randomUUID } from 'node:crypto'
import { Readable } from 'node:stream'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startTestPlatform, type TestPlatform } from '../../../../test/harness.ts'
import { transaction } from '../../../platform/db/transaction.ts'
import {
  configType,
  indexType,
  manifestType,
  type OciClient,
  ociClient,
  pushBlob,
  pushImage,
  putManifest,
  sha256,
  sha512,
  signedIn,
} from '../registry.fixture.ts'
import { ociMethods } from './oci-paths.ts'

let platform: TestPlatform
let developer: OciClient
let viewer: OciClient
let stranger: OciClient

beforeAll(async () => {
  platform = await startTestPlatform()
  await platform.tenant('acme')
  await platform.tenant('other')
  developer = await signedIn(platform, await platform.member('acme', 'DEVELOPER'))
  viewer = await signedIn(platform, await platform.member('acme', 'VIEWER'))
  stranger = await signedIn(platform, await platform.member('other', 'ADMIN'))
})
afterAll(() => platform?.stop())

const bytesOf = (text: string) => Buffer.from(text)
const chunk = (text: string, headers: Record<string, string> = {}) => ({
  body: text,
  headers: { 'content-type': 'application/octet-stream', ...headers },
})
const codeOf = (reply: { body: { errors: { code: string }[] } }) => reply.body.errors[0]!.code
const start = async (name: string) => {
  const reply = await developer('POST', `/v2/${name}/blobs/uploads/`)
  expect(reply.status).toBe(202)
  return reply.headers.get('location')!
}

describe('GET /v2/', () => {
  test('200 is empty and names the API version', async () => {
    for (const path of ['/v2/', '/v2']) {
      const reply = await viewer('GET', path)
      expect(reply.status).toBe(200)
      expect(reply.text).toBe('')
      expect(reply.headers.get('docker-distribution-api-version')).toBe('registry/2.0')
    }
  })

  test('401 challenges with Basic whatever is presented', async () => {
    const basic = (text: string) => `Basic ${Buffer.from(text).toString('base64')}`
    const wrong = `mlr_aaaaaaaaaa_${'a'.repeat(43)}`
    const presented = [
      undefined,
      'Basic',
      'Basic !!',
      basic('me'),
      basic(':x'),
      basic('me:'),
      basic(`me:${wrong}`),
      'Bearer x',
    ]
    for (const authorization of presented) {
      const reply = await ociClient(platform, null)('GET', '/v2/', { headers: authorization ? { authorization } : {} })
      expect(reply.status, authorization).toBe(401)
      expect(reply.headers.get('www-authenticate')).toBe('Basic realm="MLOps registry"')
      expect(reply.headers.get('docker-distribution-api-version')).toBe('registry/2.0')
      expect(reply.body).toEqual({
        errors: [{ code: 'UNAUTHORIZED', message: 'Sign in with a registry token.', detail: null }],
      })
    }
  })

  test('405 lists the methods; 404 for an address that is none; no body to HEAD', async () => {
    const reply = await developer('DELETE', '/v2/acme/app/tags/list')
    expect(reply.status).toBe(405)
    expect(reply.headers.get('allow')).toBe('GET')
    expect(codeOf(await developer('GET', '/v2/acme/nothing'))).toBe('NAME_UNKNOWN')
    const head = await developer('HEAD', '/v2/acme/app/manifests/none')
    expect(head.status).toBe(404)
    expect(head.text).toBe('')
  })
})

describe('a pushed image', () => {
  test('is pulled byte for byte, by tag and by digest', async () => {
    const image = await pushImage(developer, 'acme/team/app', 'v1')
    for (const reference of ['v1', image.digest]) {
      const reply = await viewer('GET', `/v2/acme/team/app/manifests/${reference}`, {
        headers: { accept: 'application/json' },
      })
      expect(reply.status).toBe(200)
      expect(reply.text).toBe(image.manifest)
      expect(reply.headers.get('content-type')).toBe(manifestType)
      expect(reply.headers.get('docker-content-digest')).toBe(image.digest)
      const head = await viewer('HEAD', `/v2/acme/team/app/manifests/${reference}`)
      expect(head.headers.get('content-length')).toBe(String(image.manifest.length))
      expect(head.headers.get('docker-content-digest')).toBe(image.digest)
      expect(head.headers.get('content-type')).toBe(manifestType)
    }
    const etag = { 'if-none-match': `"${image.digest}"` }
    expect((await viewer('GET', '/v2/acme/team/app/manifests/v1', { headers: etag })).status).toBe(304)
  })

  test('blobs come whole and by range', async () => {
    const image = await pushImage(developer, 'acme/ranges', 'v1')
    const path = `/v2/acme/ranges/blobs/${image.layer.digest}`
    const whole = await viewer('GET', path)
    expect(whole.bytes).toEqual(image.layer.bytes)
    expect(whole.headers.get('content-type')).toBe('application/octet-stream')
    expect(whole.headers.get('accept-ranges')).toBe('bytes')
    expect(whole.headers.get('content-encoding')).toBeNull()
    const part = await viewer('GET', path, { headers: { range: 'bytes=2-5', 'accept-encoding': 'gzip, zstd' } })
    expect(part.status).toBe(206)
    expect(part.bytes).toEqual(image.layer.bytes.subarray(2, 6))
    expect(part.headers.get('content-range')).toBe(`bytes 2-5/${image.layer.bytes.length}`)
    const beyond = await viewer('GET', path, { headers: { range: 'bytes=5000-' } })
    expect(beyond.status).toBe(416)
    const head = await viewer('HEAD', path)
    expect(head.headers.get('content-length')).toBe(String(image.layer.bytes.length))
  })

  test('404 for what is not there', async () => {
    await pushImage(developer, 'acme/there', 'v1')
    const none = sha256('nothing of the kind')
    expect(codeOf(await viewer('GET', `/v2/acme/there/blobs/${none}`))).toBe('BLOB_UNKNOWN')
    expect(codeOf(await viewer('GET', `/v2/acme/there/manifests/${none}`))).toBe('MANIFEST_UNKNOWN')
    expect(codeOf(await viewer('GET', '/v2/acme/there/manifests/v2'))).toBe('MANIFEST_UNKNOWN')
    expect(codeOf(await viewer('GET', '/v2/acme/nowhere/tags/list'))).toBe('NAME_UNKNOWN')
  })
})

describe('uploads', () => {
  test('in chunks: appended, told, and refused out of order with the place to go on', async () => {
    const location = await start('acme/chunks')
    expect(location).toMatch(/^\/v2\/acme\/chunks\/blobs\/uploads\/[0-9a-f-]{36}\?_state=/)
    const first = await developer('PATCH', location, chunk('hello ', { 'content-range': '0-5' }))
    expect(first.status).toBe(202)
    expect(first.headers.get('range')).toBe('0-5')
    const early = await developer('PATCH', location, chunk('x', { 'content-range': '9-9' }))
    expect(early.status).toBe(416)
    expect(codeOf(early)).toBe('BLOB_UPLOAD_INVALID')
    expect(early.headers.get('range')).toBe('0-5')
    expect(early.headers.get('location')).toContain('/v2/acme/chunks/blobs/uploads/')
    const status = await developer('GET', location)
    expect([status.status, status.headers.get('range')]).toEqual([204, '0-5'])
    const end = await developer('PUT', `${location}&digest=${sha256('hello world')}`, chunk('world'))
    expect(end.status).toBe(201)
    expect(end.headers.get('location')).toBe(`/v2/acme/chunks/blobs/${sha256('hello world')}`)
    expect(codeOf(await developer('GET', location))).toBe('BLOB_UPLOAD_UNKNOWN')
    expect((await developer('GET', end.headers.get('location')!)).text).toBe('hello world')
  })

  test('streamed without length, then ended without body', async () => {
    const location = await start('acme/streamed')
    const body = Readable.toWeb(Readable.from([bytesOf('in '), bytesOf('pieces')])) as RequestInit['body']
    expect((await developer('PATCH', location, { body: body! })).status).toBe(202)
    expect((await developer('PUT', `${location}&digest=${sha256('in pieces')}`)).status).toBe(201)
  })

  test('400 for the wrong digest, and the session goes on with the right one', async () => {
    for (const patched of [true, false]) {
      const location = await start('acme/wrong')
      const text = `content ${patched}`
      if (patched) await developer('PATCH', location, chunk(text))
      const body = patched ? {} : chunk(text)
      const wrong = await developer('PUT', `${location}&digest=${sha256('other')}`, body)
      expect([wrong.status, codeOf(wrong)]).toEqual([400, 'DIGEST_INVALID'])
      expect((await developer('PUT', `${location}&digest=${sha256(text)}`, body)).status).toBe(201)
    }
    const location = await start('acme/wrong')
    for (const query of ['', '&digest=', '&digest=md5:ab']) {
      expect((await developer('PUT', location + query)).status, query).toBe(400)
    }
  })

  test('202 then 404 when canceled', async () => {
    const location = await start('acme/canceled')
    await developer('PATCH', location, chunk('some'))
    expect((await developer('DELETE', location)).status).toBe(204)
    expect((await developer('DELETE', location)).status).toBe(404)
    expect((await developer('PATCH', location, chunk('more'))).status).toBe(404)
  })

  test('201 in one request, also by sha512 and for no bytes at all', async () => {
    for (const digest of [sha256('one'), sha512('one')]) {
      const path = `/v2/acme/single/blobs/uploads/?digest=${digest}`
      expect((await developer('POST', path, chunk('one'))).status).toBe(201)
      const blob = await viewer('GET', `/v2/acme/single/blobs/${digest}`)
      expect([blob.text, blob.headers.get('docker-content-digest')]).toEqual(['one', digest])
      const wrong = await developer('POST', path, chunk('two'))
      expect([wrong.status, codeOf(wrong)]).toEqual([400, 'DIGEST_INVALID'])
    }
    const empty = await developer('POST', `/v2/acme/single/blobs/uploads/?digest=${sha256('')}`)
    expect(empty.status).toBe(201)
    const blob = await viewer('GET', `/v2/acme/single/blobs/${sha256('')}`)
    expect([blob.status, blob.headers.get('content-length')]).toEqual([200, '0'])
    const later = await developer('POST', `/v2/acme/single/blobs/uploads/?digest=${sha256('later')}`)
    expect(later.status).toBe(202)
  })

  test('a mount needs no bytes; what can’t be mounted becomes an upload, and nobody learns why', async () => {
    const digest = await pushBlob(developer, 'acme/from', bytesOf('mount me'))
    const mount = (client: OciClient, to: string, query: string) => client('POST', `/v2/${to}/blobs/uploads/?${query}`)
    expect((await mount(developer, 'acme/to', `mount=${digest}&from=acme/from`)).status).toBe(201)
    expect((await developer('GET', `/v2/acme/to/blobs/${digest}`)).text).toBe('mount me')
    expect((await mount(developer, 'acme/to2', `mount=${digest}`)).status).toBe(201)
    expect((await mount(developer, 'acme/to', `mount=${digest}&from=acme/nowhere`)).status).toBe(202)
    for (const query of [`mount=${digest}&from=acme/from`, `mount=${digest}`]) {
      const reply = await mount(stranger, 'other/to', query)
      expect(reply.status).toBe(202)
    }
    expect((await stranger('GET', `/v2/other/to/blobs/${digest}`)).status).toBe(404)
  })
})

describe('manifests', () => {
  const bare = (value: object) => JSON.stringify({ schemaVersion: 2, ...value })

  test('404 MANIFEST_BLOB_UNKNOWN names what the repository lacks; another repository’s blob does not count', async () => {
    const digest = await pushBlob(developer, 'acme/elsewhere', bytesOf('{}'))
    const manifest = bare({ mediaType: manifestType, config: { mediaType: configType, digest, size: 2 }, layers: [] })
    const reply = await putManifest(developer, 'acme/lacking', 'v1', manifest)
    expect(reply.status).toBe(404)
    expect(reply.body.errors[0]).toMatchObject({ code: 'MANIFEST_BLOB_UNKNOWN', detail: { digests: [digest] } })
    expect((await developer('GET', '/v2/acme/lacking/manifests/v1')).status).toBe(404)
  })

  test('400 for another digest than that of the bytes; 413 above 4 MiB', async () => {
    const manifest = bare({ mediaType: indexType, manifests: [] })
    const wrong = await putManifest(developer, 'acme/strict', sha256('other'), manifest, indexType)
    expect([wrong.status, codeOf(wrong)]).toEqual([400, 'DIGEST_INVALID'])
    const malformed = await putManifest(developer, 'acme/strict', 'sha256:12', manifest, indexType)
    expect([malformed.status, codeOf(malformed)]).toEqual([400, 'DIGEST_INVALID'])
    const long = await putManifest(developer, 'acme/strict', 'v1', manifest + ' '.repeat(5 << 20), indexType)
    expect([long.status, codeOf(long)]).toEqual([413, 'SIZE_INVALID'])
    const broken = await putManifest(developer, 'acme/strict', 'v1', '{', indexType)
    expect([broken.status, codeOf(broken)]).toEqual([400, 'MANIFEST_INVALID'])
  })

  test('201 by sha512, and with several tags at once', async () => {
    const manifest = bare({ mediaType: indexType, manifests: [], annotations: { a: 'b' } })
    const digest = sha512(manifest)
    const reply = await putManifest(developer, 'acme/wide', `${digest}?tag=a&tag=b`, manifest, indexType)
    expect(reply.status).toBe(201)
    expect(reply.headers.get('docker-content-digest')).toBe(digest)
    expect(reply.headers.get('oci-tag')).toBe('a, b')
    const tagged = await developer('GET', '/v2/acme/wide/manifests/b')
    expect(tagged.headers.get('docker-content-digest')).toBe(digest)
  })

  test('202 by tag takes the tag alone, by digest the manifest with all its tags', async () => {
    const image = await pushImage(developer, 'acme/removal', 'v1')
    for (const tag of ['v2', 'v3']) await putManifest(developer, 'acme/removal', tag, image.manifest)
    expect((await developer('DELETE', '/v2/acme/removal/manifests/v1')).status).toBe(202)
    expect((await developer('DELETE', '/v2/acme/removal/manifests/v1')).status).toBe(404)
    expect((await developer('GET', '/v2/acme/removal/tags/list')).body.tags).toEqual(['v2', 'v3'])
    expect((await developer('DELETE', `/v2/acme/removal/manifests/${image.digest}`)).status).toBe(202)
    const list = await developer('GET', '/v2/acme/removal/tags/list')
    expect(list.body).toEqual({ name: 'acme/removal', tags: [] })
    expect((await developer('GET', `/v2/acme/removal/manifests/${image.digest}`)).status).toBe(404)
  })

  test('a blob deleted in one repository stays in the other', async () => {
    const bytes = bytesOf('shared by two')
    const digest = await pushBlob(developer, 'acme/one', bytes)
    await pushBlob(developer, 'acme/two', bytes)
    expect((await developer('DELETE', `/v2/acme/one/blobs/${digest}`)).status).toBe(202)
    expect((await developer('GET', `/v2/acme/one/blobs/${digest}`)).status).toBe(404)
    expect((await developer('DELETE', `/v2/acme/one/blobs/${digest}`)).status).toBe(404)
    expect((await developer('GET', `/v2/acme/two/blobs/${digest}`)).bytes).toEqual(bytes)
  })
})

describe('lists', () => {
  test('tags in the order of bytes, by pages', async () => {
    const { manifest } = await pushImage(developer, 'acme/tags', 'b')
    for (const tag of ['a', 'B', '_', '10', '9']) await putManifest(developer, 'acme/tags', tag, manifest)
    const path = '/v2/acme/tags/tags/list'
    expect((await viewer('GET', path)).body.tags).toEqual(['10', '9', 'B', '_', 'a', 'b'])
    const page = await viewer('GET', `${path}?n=2`)
    expect(page.body.tags).toEqual(['10', '9'])
    expect(page.headers.get('link')).toBe(`<${path}?n=2&last=9>; rel="next"`)
    const next = await viewer('GET', `${path}?n=10&last=Beta`)
    expect([next.body.tags, next.headers.get('link')]).toEqual([['_', 'a', 'b'], null])
    const none = await viewer('GET', `${path}?n=0`)
    expect([none.body.tags, none.headers.get('link')]).toEqual([[], null])
  })

  test('the catalogue is the tenant’s own, without places where nothing was pushed', async () => {
    await start('acme/only-an-upload')
    await pushImage(stranger, 'other/z', 'v1')
    await pushImage(stranger, 'other/a', 'v1')
    expect((await stranger('GET', '/v2/_catalog')).body).toEqual({ repositories: ['other/a', 'other/z'] })
    const page = await stranger('GET', '/v2/_catalog?n=1')
    expect(page.headers.get('link')).toBe('</v2/_catalog?n=1&last=other%2Fa>; rel="next"')
    const { repositories } = (await viewer('GET', '/v2/_catalog')).body
    expect(repositories).not.toContain('acme/only-an-upload')
    expect(repositories.every((name: string) => name.startsWith('acme/'))).toBe(true)
  })

  test('referrers of a subject, filtered by type, exact in their content type', async () => {
    const subject = await pushImage(developer, 'acme/subject', 'v1')
    const signature = JSON.stringify({
      schemaVersion: 2,
      mediaType: manifestType,
      artifactType: 'application/signature',
      config: { mediaType: configType, digest: subject.config.digest, size: 2 },
      layers: [],
      subject: { mediaType: manifestType, digest: subject.digest, size: subject.manifest.length },
      annotations: { by: 'us' },
    })
    const put = await putManifest(developer, 'acme/subject', sha256(signature), signature)
    expect(put.headers.get('oci-subject')).toBe(subject.digest)
    const path = `/v2/acme/subject/referrers/${subject.digest}`
    const all = await viewer('GET', path)
    expect(all.headers.get('content-type')).toBe(indexType)
    expect(all.body).toEqual({
      schemaVersion: 2,
      mediaType: indexType,
      manifests: [
        {
          mediaType: manifestType,
          digest: sha256(signature),
          size: signature.length,
          artifactType: 'application/signature',
          annotations: { by: 'us' },
        },
      ],
    })
    const other = await viewer('GET', `${path}?artifactType=application/sbom`)
    expect([other.body.manifests, other.headers.get('oci-filters-applied')]).toEqual([[], 'artifactType'])
    const unknown = await viewer('GET', `/v2/acme/no/where/referrers/${sha256('x')}`)
    expect([unknown.status, unknown.body.manifests]).toEqual([200, []])
    expect((await viewer('GET', '/v2/acme/subject/referrers/sha256:1')).status).toBe(400)
  })
})

describe('isolation', () => {
  test('403 on every route of another tenant, the same whether it is there or not', async () => {
    const { digest, layer } = await pushImage(developer, 'acme/secret', 'v1')
    const location = await start('acme/secret')
    // Every kind of address that names a repository; a kind that comes has to be added here.
    const places: Record<Exclude<keyof typeof ociMethods, 'ping' | 'catalog'>, string[]> = {
      tags: ['tags/list'],
      referrers: [`referrers/${digest}`],
      manifest: ['manifests/v1', `manifests/${digest}`],
      blob: [`blobs/${layer.digest}`],
      uploads: ['', `?digest=${layer.digest}`, `?mount=${layer.digest}&from=acme/secret`].map(
        (query) => `blobs/uploads/${query}`,
      ),
      upload: [location.slice('/v2/acme/secret/'.length), `blobs/uploads/${randomUUID()}?digest=${layer.digest}`],
    }
    const names = ['acme/secret', 'acme/imagined', 'acme', 'nobody/app', 'otherwise/app']
    for (const [kind, paths] of Object.entries(places)) {
      for (const method of ociMethods[kind as keyof typeof places]) {
        for (const path of paths) {
          const answers = names.map(async (name) => {
            const { status, text } = await stranger(method, `/v2/${name}/${path}`)
            return `${status} ${text}`
          })
          const [first, ...others] = await Promise.all(answers)
          expect(first, `${method} ${path}`).toMatch(method === 'HEAD' ? /^403 $/ : /^403 .*"DENIED"/)
          expect(new Set(others), `${method} ${path}`).toEqual(new Set([first]))
        }
      }
    }
    const mounted = await stranger('POST', `/v2/other/app/blobs/uploads/?mount=${layer.digest}&from=acme/secret`)
    expect(mounted.status, 'an upload begins: the blob is not told to be there').toBe(202)
    expect((await stranger('GET', '/v2/_catalog')).text).not.toContain('acme')
    expect((await viewer('GET', '/v2/acme/secret/manifests/v1')).status).toBe(200)
    expect((await viewer('GET', `/v2/acme/secret/blobs/${layer.digest}`)).bytes).toEqual(layer.bytes)
    expect((await developer('GET', location)).headers.get('range'), 'the upload goes on, empty').toBe('0-0')
  })

  test('an upload is not reached through another repository of the tenant', async () => {
    const location = await start('acme/mine')
    expect((await developer('PATCH', location.replace('acme/mine', 'acme/yours'), chunk('x'))).status).toBe(404)
  })

  test('403 for pushing and deleting with a role that may only look', async () => {
    const { digest } = await pushImage(developer, 'acme/looked-at', 'v1')
    for (const [method, path] of [
      ['POST', '/v2/acme/looked-at/blobs/uploads/'],
      ['PUT', '/v2/acme/looked-at/manifests/v2'],
      ['DELETE', '/v2/acme/looked-at/manifests/v1'],
      ['DELETE', `/v2/acme/looked-at/blobs/${digest}`],
    ] as const) {
      expect((await viewer(method, path)).status, path).toBe(403)
    }
  })

  test('pushes and deletions leave audit rows, refused ones too', async () => {
    await pushImage(developer, 'acme/audited', 'v1')
    await developer('DELETE', '/v2/acme/audited/manifests/v1')
    await viewer('DELETE', '/v2/acme/audited/manifests/v1')
    const rows = await transaction(platform.services.db, 'system', (tx) =>
      tx.selectFrom('auditEvents').select(['action', 'outcome']).orderBy('id', 'desc').limit(3).execute(),
    )
    expect(rows).toEqual([
      { action: 'registry.tag.delete', outcome: 'denied' },
      { action: 'registry.tag.delete', outcome: 'success' },
      { action: 'registry.push', outcome: 'success' },
    ])
  })
})
