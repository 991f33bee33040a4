import Fastify from 'fastify'
import { describe, expect, test } from 'vitest'
import { greedyParameter, pathPattern, routerPath, slashEncoder } from './paths.ts'

const paths = [
  '/repositories',
  '/repositories/{name+}',
  '/repositories/{name+}/tags',
  '/repositories/{name+}/tags/{tag}',
  '/repositories/{name+}/manifests/{reference+}',
  '/things/{id}:start',
]

describe('a parameter that takes slashes before the end of a path', () => {
  const app = Fastify({ rewriteUrl: (raw) => slashEncoder(paths)(raw.url!) })
  for (const path of paths) {
    app.get(routerPath(path), async (request) => {
      const params = request.params as Record<string, string>
      const { '*': rest, ...named } = params
      return { path, ...named, ...(rest === undefined ? {} : { [greedyParameter(path)!]: rest }) }
    })
  }

  test.each([
    ['/repositories/app/tags', { path: paths[2], name: 'app' }],
    ['/repositories/team/app/tags', { path: paths[2], name: 'team/app' }],
    ['/repositories/team%2Fapp/tags?page=2', { path: paths[2], name: 'team/app' }],
    ['/repositories/a/tags/b/tags', { path: paths[2], name: 'a/tags/b' }],
    ['/repositories/team/app/tags/v1', { path: paths[3], name: 'team/app', tag: 'v1' }],
    ['/repositories/a/b/manifests/sha256%3Aab', { path: paths[4], name: 'a/b', reference: 'sha256:ab' }],
    ['/repositories/a/manifests/b/manifests/v1', { path: paths[4], name: 'a/manifests/b', reference: 'v1' }],
    ['/repositories/team/app', { path: paths[1], name: 'team/app' }],
    ['/repositories/team%2Ftags%2Fv1', { path: paths[1], name: 'team/tags/v1' }],
    ['/things/x:start', { path: paths[5], id: 'x' }],
  ])('%s', async (url, expected) => {
    expect((await app.inject(url)).json()).toEqual(expected)
  })
})

test('digests keep their colon in such paths', () => {
  const encode = slashEncoder(paths)
  expect(encode('/repositories/a/b/manifests/sha256:ab')).toBe('/repositories/a%2Fb/manifests/sha256:ab')
})

test('URLs of other paths, and queries that look like paths, come back as they are', () => {
  const encode = slashEncoder(paths)
  for (const url of ['/', '/things/a/b', '/repositories', '/repositories/a?next=/repositories/b/tags-of']) {
    expect(encode(url)).toBe(url)
  }
})

test('the pattern of a path takes slashes where its parameter does', () => {
  expect(pathPattern('/repositories/{name+}/tags').test('/repositories/team/app/tags')).toBe(true)
  expect(pathPattern('/things/{id}').test('/things/a/b')).toBe(false)
})
