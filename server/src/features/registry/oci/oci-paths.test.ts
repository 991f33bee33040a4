import { describe, expect, test } from 'vitest'
import { type OciErrorCode, toOciError } from './oci-errors.ts'
import {
  isRepositoryName,
  isTag,
  ociMethods,
  parseOciPath,
  parseUploadEnd,
  parseUploadStart,
  rightOf,
} from './oci-paths.ts'

const sha256 = `sha256:${'a1'.repeat(32)}`
const sha512 = `sha512:${'b2'.repeat(64)}`
const uuid = '0b9f4a52-7c1e-4f0a-9d3e-5a6b7c8d9e0f'

function refusal(act: () => unknown) {
  try {
    act()
  } catch (error) {
    return toOciError(error)
  }
  return null
}

describe('parseOciPath', () => {
  test.each([
    ['GET', '', { kind: 'ping' }],
    ['HEAD', '/', { kind: 'ping' }],
    ['GET', '/_catalog', { kind: 'catalog' }],
    ['GET', '/app/tags/list', { kind: 'tags', name: 'app' }],
    ['GET', '/team/app/tags/list', { kind: 'tags', name: 'team/app' }],
    ['PUT', '/team/app/manifests/v1.0_x-y', { kind: 'manifest', name: 'team/app', reference: { tag: 'v1.0_x-y' } }],
    ['HEAD', `/a/manifests/${sha256}`, { kind: 'manifest', name: 'a', reference: { digest: sha256 } }],
    ['GET', `/a/manifests/${sha512}`, { kind: 'manifest', name: 'a', reference: { digest: sha512 } }],
    ['GET', `/a/b/c/d/blobs/${sha256}`, { kind: 'blob', name: 'a/b/c/d', digest: sha256 }],
    ['GET', `/a/blobs/${sha256.replace(':', '%3A')}`, { kind: 'blob', name: 'a', digest: sha256 }],
    ['DELETE', `/a/blobs/${sha512}`, { kind: 'blob', name: 'a', digest: sha512 }],
    ['POST', '/a/blobs/uploads/', { kind: 'uploads', name: 'a' }],
    ['POST', '/a/blobs/uploads', { kind: 'uploads', name: 'a' }],
    ['PATCH', `/a/b/blobs/uploads/${uuid}`, { kind: 'upload', name: 'a/b', uploadId: uuid }],
    ['GET', `/a/referrers/${sha256}`, { kind: 'referrers', name: 'a', digest: sha256 }],
  ])('%s /v2%s', (method, path, expected) => {
    expect(parseOciPath(method, path)).toEqual({ method, ...expected })
  })

  test.each([
    ['GET', '/a/manifests/b/manifests/latest', 'manifest', 'a/manifests/b'],
    ['GET', '/manifests/manifests/manifests', 'manifest', 'manifests'],
    ['GET', '/a/blobs/uploads/tags/list', 'tags', 'a/blobs/uploads'],
    ['GET', '/a/tags/manifests/list', 'manifest', 'a/tags'],
    ['GET', `/a/blobs/uploads/blobs/${sha256}`, 'blob', 'a/blobs/uploads'],
    ['POST', '/blobs/uploads/blobs/uploads/', 'uploads', 'blobs/uploads'],
    ['GET', `/blobs/uploads/blobs/uploads/${uuid}`, 'upload', 'blobs/uploads'],
    ['GET', `/uploads/referrers/${sha256}`, 'referrers', 'uploads'],
  ])('the protocol’s own words inside a name: %s /v2%s is a %s of %s', (method, path, kind, name) => {
    expect(parseOciPath(method, path)).toMatchObject({ kind, name })
  })

  test.each<[string, string, OciErrorCode, number]>([
    ['GET', '/Upper/tags/list', 'NAME_INVALID', 400],
    ['GET', '/a//b/tags/list', 'NAME_INVALID', 400],
    ['GET', '/tags/list', 'NAME_INVALID', 400],
    ['GET', '//tags/list', 'NAME_INVALID', 400],
    ['GET', '/a%2Fb%2F../tags/list', 'NAME_INVALID', 400],
    ['GET', '/../a/tags/list', 'NAME_INVALID', 400],
    ['GET', '/a%zz/tags/list', 'NAME_INVALID', 400],
    ['GET', '/a%00/tags/list', 'NAME_INVALID', 400],
    ['GET', `/${'x'.repeat(256)}/tags/list`, 'NAME_INVALID', 400],
    ['GET', '/a/blobs/latest', 'DIGEST_INVALID', 400],
    ['GET', `/a/blobs/${sha256.toUpperCase()}`, 'DIGEST_INVALID', 400],
    ['GET', `/a/blobs/${sha256}0`, 'DIGEST_INVALID', 400],
    ['GET', `/a/blobs/sha256:${'a'.repeat(128)}`, 'DIGEST_INVALID', 400],
    ['GET', `/a/blobs/md5:${'a'.repeat(32)}`, 'DIGEST_INVALID', 400],
    ['PUT', '/a/manifests/sha256:12', 'DIGEST_INVALID', 400],
    ['GET', '/a/referrers/latest', 'DIGEST_INVALID', 400],
    ['GET', '/a/manifests/.bad', 'MANIFEST_UNKNOWN', 404],
    ['GET', '/a/manifests/', 'MANIFEST_UNKNOWN', 404],
    ['PUT', '/a/manifests/.bad', 'MANIFEST_INVALID', 400],
    ['PUT', `/a/manifests/${'t'.repeat(129)}`, 'MANIFEST_INVALID', 400],
    ['PATCH', '/a/blobs/uploads/not-a-uuid', 'BLOB_UPLOAD_UNKNOWN', 404],
    ['GET', '/a', 'NAME_UNKNOWN', 404],
    ['GET', '/a/b/c', 'NAME_UNKNOWN', 404],
    ['GET', '/a/tags/list/', 'NAME_UNKNOWN', 404],
  ])('%s /v2%s → %s %i', (method, path, code, status) => {
    expect(refusal(() => parseOciPath(method, path))).toMatchObject({ code, status })
  })

  const addresses = {
    ping: '/',
    catalog: '/_catalog',
    tags: '/a/tags/list',
    referrers: `/a/referrers/${sha256}`,
    manifest: '/a/manifests/t',
    blob: `/a/blobs/${sha256}`,
    uploads: '/a/blobs/uploads/',
    upload: `/a/blobs/uploads/${uuid}`,
  }

  test('every address takes its own methods; others are 405 with Allow', () => {
    const all = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']
    for (const [kind, path] of Object.entries(addresses)) {
      const taken: readonly string[] = ociMethods[kind as keyof typeof ociMethods]
      for (const method of all) {
        if (taken.includes(method)) expect(parseOciPath(method, path)).toMatchObject({ kind, method })
        else {
          const headers = { Allow: taken.join(', ') }
          expect(refusal(() => parseOciPath(method, path))).toMatchObject({ code: 'UNSUPPORTED', status: 405, headers })
        }
      }
    }
  })

  test('reading pulls, uploads and PUT push, DELETE deletes', () => {
    const right = (method: string, kind: keyof typeof addresses) => rightOf(parseOciPath(method, addresses[kind]))
    expect(right('GET', 'ping')).toBe('pull')
    expect(right('HEAD', 'manifest')).toBe('pull')
    expect(right('GET', 'blob')).toBe('pull')
    expect(right('GET', 'referrers')).toBe('pull')
    expect(right('PUT', 'manifest')).toBe('push')
    expect(right('POST', 'uploads')).toBe('push')
    expect(right('GET', 'upload'), 'the state of an upload is the pusher’s').toBe('push')
    expect(right('DELETE', 'upload'), 'giving up an upload removes nothing').toBe('push')
    expect(right('DELETE', 'manifest')).toBe('delete')
    expect(right('DELETE', 'blob')).toBe('delete')
  })
})

test('names and tags keep to the grammar', () => {
  for (const name of ['a', 'a0', 'a.b', 'a_b', 'a__b', 'a-b', 'a---b', 'a/b/c', 'x'.repeat(255)]) {
    expect(isRepositoryName(name), name).toBe(true)
  }
  for (const name of [
    '',
    'A',
    '.a',
    'a.',
    'a..b',
    'a___b',
    '-a',
    'a-',
    'a/',
    '/a',
    'a//b',
    'a b',
    'a:b',
    'ä',
    'a\n',
    'x'.repeat(256),
  ]) {
    expect(isRepositoryName(name), name).toBe(false)
  }
  for (const tag of ['latest', '_x', '0', 'V1.2-rc_3', 't'.repeat(128)]) expect(isTag(tag), tag).toBe(true)
  for (const tag of ['', '.x', '-x', 'a/b', 'a:b', 'a b', 'a\n', 't'.repeat(129)]) expect(isTag(tag), tag).toBe(false)
})

test('a hostile name is refused in linear time', () => {
  const started = performance.now()
  expect(isRepositoryName(`${'a-'.repeat(126)}-`)).toBe(false)
  expect(isRepositoryName(`${'_a'.repeat(126)}!`)).toBe(false)
  expect(performance.now() - started).toBeLessThan(20_000)
})

describe('parseUploadStart', () => {
  test.each([
    ['', { kind: 'session', algorithm: 'sha256' }],
    ['digest-algorithm=sha512', { kind: 'session', algorithm: 'sha512' }],
    [`digest=${sha256}`, { kind: 'monolithic', digest: sha256 }],
    [`digest=${encodeURIComponent(sha512)}`, { kind: 'monolithic', digest: sha512 }],
    [`mount=${sha256}&from=team/base`, { kind: 'mount', digest: sha256, from: 'team/base' }],
    [`mount=${sha256}`, { kind: 'mount', digest: sha256, from: null }],
  ])('?%s', (query, expected) => {
    expect(parseUploadStart(new URLSearchParams(query))).toEqual(expected)
  })

  test.each<[string, OciErrorCode]>([
    ['digest=', 'DIGEST_INVALID'],
    ['digest=sha256:1', 'DIGEST_INVALID'],
    ['digest-algorithm=md5', 'DIGEST_INVALID'],
    ['mount=nothing&from=a', 'DIGEST_INVALID'],
    [`mount=${sha256}&from=../a`, 'NAME_INVALID'],
  ])('?%s → %s', (query, code) => {
    expect(refusal(() => parseUploadStart(new URLSearchParams(query)))).toMatchObject({ code, status: 400 })
  })
})

test('parseUploadEnd: a digest is needed, and well-formed', () => {
  const end = (query: string) => parseUploadEnd(new URLSearchParams(query))
  expect(end(`_state=x&digest=${encodeURIComponent(sha512)}`)).toBe(sha512)
  for (const query of ['', 'digest=', 'digest=sha1:ab', '_state=x']) {
    expect(
      refusal(() => end(query)),
      query,
    ).toMatchObject({ code: 'DIGEST_INVALID', status: 400 })
  }
})
