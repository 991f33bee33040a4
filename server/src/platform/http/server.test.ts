import type { FastifyInstance } from 'fastify'
import { Type } from 'typebox'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { eventually, startTestPlatform, type TestPlatform } from '../../../test/harness.ts'
import { sessionAuthenticator } from '../../features/identity/authenticator.ts'
import { tokenSigner } from '../../features/identity/tokens.ts'
import { transaction } from '../db/transaction.ts'
import { conflict } from '../errors.ts'
import { publish } from '../events/events.ts'
import { createMetrics } from '../metrics.ts'
import { named } from '../schema.ts'
import { installationKey } from '../secrets.ts'
import { anybody, session, tenant } from './access.ts'
import { bodyStream, uploadedFile } from './bodies.ts'
import { EventStream } from './event-stream.ts'
import { listQuery, ordering } from './lists.ts'
import { operation } from './operation.ts'
import { buildServer } from './server.ts'

const sorts = { created_at: 'time', name: 'text' } as const
const Echo = named('Echo', { value: Type.Unsafe<unknown>({}) })
const common = { summary: 'test', responses: { 200: Echo } }

const operations = [
  operation({
    ...common,
    id: 't.verb',
    method: 'POST',
    path: '/t/{a}/uploads/{b}:complete',
    access: anybody,
    handler: async (_ctx, { params }) => ({ value: params }),
  }),
  operation({
    ...common,
    id: 't.plain',
    method: 'GET',
    path: '/t/{a}/uploads/{b}',
    access: anybody,
    handler: async (_ctx, { params }) => ({ value: params }),
  }),
  operation({
    ...common,
    id: 't.greedy',
    method: 'GET',
    path: '/proxy/{path}',
    access: anybody,
    handler: async (_ctx, { params }) => ({ value: params }),
  }),
  operation({
    ...common,
    id: 't.list',
    method: 'GET',
    path: '/list',
    access: tenant('VIEW'),
    query: listQuery(sorts, { active: Type.Optional(Type.Boolean()) }),
    handler: async (_ctx, { query }) => ({ value: { ...query, by: ordering(sorts, query) } }),
  }),
  operation({
    ...common,
    id: 't.undeclaredStatus',
    method: 'GET',
    path: '/undeclared/status',
    access: anybody,
    handler: async () => Promise.reject(conflict()),
  }),
  operation({
    ...common,
    id: 't.undeclaredField',
    method: 'GET',
    path: '/undeclared/field',
    access: anybody,
    handler: async () => ({ value: 1, more: 2 }),
  }),
  operation({
    ...common,
    id: 't.secret',
    method: 'GET',
    path: '/fails',
    access: anybody,
    handler: async () => Promise.reject(new Error('password=hunter2')),
  }),
  operation({
    ...common,
    id: 't.stream',
    method: 'PUT',
    path: '/stream',
    access: anybody,
    bodyKind: 'stream',
    handler: async (_ctx, { request }) => {
      let size = 0
      for await (const piece of bodyStream(request)) size += (piece as Buffer).length
      return { value: size }
    },
  }),
  operation({
    ...common,
    id: 't.file',
    method: 'POST',
    path: '/file',
    access: anybody,
    bodyKind: 'multipart',
    handler: async (_ctx, { request }) => {
      const file = await uploadedFile(request)
      let size = 0
      for await (const piece of file.content) size += piece.length
      return { value: [file.filename, size] }
    },
  }),
  operation({
    ...common,
    id: 't.events',
    method: 'GET',
    path: '/events',
    access: session,
    handler: async () => new EventStream('test:1', ['tick']),
  }),
]

let platform: TestPlatform
let app: FastifyInstance
let url: string

beforeAll(async () => {
  platform = await startTestPlatform({ PLATFORM_MLOPS_ROLES: 'web', PLATFORM_MLOPS_MAX_UPLOAD_BYTES: '1000' })
  const { services } = platform
  const signer = tokenSigner(await installationKey(platform.dataDir, 'login.key'))
  app = await buildServer({
    services,
    operations,
    authenticator: sessionAuthenticator(services.db, signer),
    metrics: createMetrics(),
    strict: true,
  })
  url = await app.listen({ port: 0, host: '127.0.0.1' })
})
afterAll(async () => {
  await app?.close()
  await platform?.stop()
})

const fetchJson = async (path: string, init?: RequestInit) => {
  const response = await fetch(url + path, init)
  // biome-ignore lint/suspicious/noExplicitAny: answers of every shape
  return { status: response.status, headers: response.headers, body: (await response.json()) as any }
}
const asAdmin = (headers = {}) => ({
  headers: { authorization: `Bearer ${platform.admin.token}`, 'x-tenant': 'default', ...headers },
})

describe('paths', () => {
  test('a verb behind a parameter is literal text; the id never takes it', async () => {
    expect((await fetchJson('/t/x/uploads/y:complete', { method: 'POST' })).body.value).toEqual({ a: 'x', b: 'y' })
    expect((await fetchJson('/t/x/uploads/y')).body.value).toEqual({ a: 'x', b: 'y' })
    expect((await fetchJson('/t/x/uploads/y:other', { method: 'POST' })).status).toBe(404)
  })

  test('an encoded colon is the verb too, and a greedy path keeps its slashes', async () => {
    expect((await fetchJson('/t/x/uploads/y%3Acomplete', { method: 'POST' })).body.value).toEqual({ a: 'x', b: 'y' })
    expect((await fetchJson('/proxy/v2/models/m/infer')).body.value).toEqual({ path: 'v2/models/m/infer' })
  })

  test('405 for the other method of a path with a verb', async () => {
    const reply = await fetchJson('/t/x/uploads/y:complete', { method: 'DELETE' })
    expect([reply.status, reply.headers.get('allow')]).toEqual([405, 'POST'])
  })
})

describe('queries', () => {
  test('defaults, booleans as 1 and 0, and empty values that count as absent', async () => {
    const { body } = await fetchJson('/list?active=1&q=&sort=', asAdmin())
    expect(body.value).toEqual({ page: 1, page_size: 20, active: true, by: { key: 'created_at', direction: 'desc' } })
    expect((await fetchJson('/list?sort=name', asAdmin())).body.value.by).toEqual({ key: 'name', direction: 'asc' })
  })

  test('400 with the allowed keys for an unknown sort, 422 for anything else, by name', async () => {
    const sort = await fetchJson('/list?sort=size', asAdmin())
    expect([sort.status, sort.body.detail]).toEqual([400, { allowed: ['created_at', 'name'] }])
    const page = await fetchJson('/list?page_size=201&order=up', asAdmin())
    expect(page.status).toBe(422)
    expect(page.body.detail.map((fault: { loc: string[] }) => fault.loc.join('.')).sort()).toEqual([
      'query.order',
      'query.page_size',
    ])
  })

  test('the tenant: 400 without, by query, the header wins, in any case', async () => {
    expect((await fetchJson('/list', asAdmin({ 'x-tenant': ' ' }))).body).toMatchObject({
      code: 'bad_request',
      detail: null,
    })
    expect((await fetchJson('/list?tenant=DEFAULT', asAdmin({ 'x-tenant': '' }))).status).toBe(200)
    expect((await fetchJson('/list?tenant=nowhere', asAdmin({ 'x-tenant': 'Default' }))).status).toBe(200)
    expect((await fetchJson('/list', asAdmin({ 'x-tenant': 'nowhere' }))).status).toBe(404)
  })
})

describe('answers', () => {
  test('500 says nothing of what went wrong, and its id leads to the log', async () => {
    const { status, body } = await fetchJson('/fails')
    expect(status).toBe(500)
    expect(JSON.stringify(body)).not.toContain('hunter2')
    expect(body.error_id).toMatch(/^[0-9a-f]{32}$/)
  })

  test('an undeclared status or field is a failure here', async () => {
    expect((await fetchJson('/undeclared/status')).body.message).toContain('t.undeclaredStatus answers 409')
    expect((await fetchJson('/undeclared/field')).status).toBe(500)
  })

  test('a given request id comes back, a malformed one does not', async () => {
    expect((await fetchJson('/fails', { headers: { 'x-request-id': 'abc-1' } })).headers.get('x-request-id')).toBe(
      'abc-1',
    )
    expect((await fetchJson('/fails', { headers: { 'x-request-id': 'a b' } })).headers.get('x-request-id')).not.toBe(
      'a b',
    )
  })
})

describe('bodies', () => {
  test('a stream of any type is handed over as it comes', async () => {
    const body = Buffer.alloc(5 << 20)
    expect((await fetchJson('/stream', { method: 'PUT', body })).body.value).toBe(5 << 20)
  })

  test('a multipart file is streamed; over the limit 413, without the part 422', async () => {
    const form = (size: number, name = 'file') => {
      const data = new FormData()
      data.set(name, new Blob([new Uint8Array(size)]), 'ünï.png')
      return { method: 'POST', body: data }
    }
    expect((await fetchJson('/file', form(1000))).body.value).toEqual(['ünï.png', 1000])
    expect((await fetchJson('/file', form(10, 'other'))).status).toBe(422)
    const large = await fetchJson('/file', form(1001))
    expect(large.status).toBe(500)
    expect(large.body.message).toContain('413')
  })
})

describe('event streams', () => {
  const listen = async (token: string) => {
    const response = await fetch(`${url}/events`, { headers: { authorization: `Bearer ${token}` } })
    const heard = { response, text: '', ended: Promise.resolve() }
    heard.ended = (async () => {
      for await (const piece of response.body!.pipeThrough(new TextDecoderStream())) heard.text += piece
    })()
    await eventually(async () => heard.text.includes('event: connected'))
    return heard
  }

  test('connect, then what is published on the channel and named, in order; the end of the login ends the stream', async () => {
    const member = await platform.member('default', 'VIEWER')
    const heard = await listen(member.token)
    expect(heard.response.headers.get('content-type')).toBe('text/event-stream')
    expect(heard.response.headers.get('cache-control')).toBe('no-cache, no-transform')
    const quiet = await listen(platform.admin.token)
    await transaction(platform.services.db, 'system', async (tx) => {
      await publish(tx, 'test:1', 'tick', { n: 1 })
      await publish(tx, 'test:1', 'unnamed', { n: 2 })
      await publish(tx, 'test:2', 'tick', { n: 3 })
      await publish(tx, 'test:1', 'tick', { n: 4 })
    })
    await transaction(platform.services.db, 'system', async (tx) => {
      await publish(tx, 'test:1', 'tick', { n: 5 })
      throw new Error('rolled back')
    }).catch(() => undefined)
    await eventually(async () => heard.text.includes('{"n":4}'))
    const told =
      'retry: 3000\n\nid: 1\nevent: connected\ndata: {"channel":"test:1"}\n\nid: 2\nevent: tick\ndata: {"n":1}\n\nid: 3\nevent: tick\ndata: {"n":4}\n\n'
    expect(heard.text).toBe(told)
    await platform.admin.delete(`/users/${member.userId}`)
    // Rights are looked at again every 15 seconds; where nothing is told for as long, a ping shows that all is well.
    await heard.ended
    expect(heard.text).toContain(told)
    await eventually(async () => quiet.text === `${told}: ping\n\n`)
  })

  test('HEAD is answered at once, and holds nothing open', async () => {
    const response = await fetch(`${url}/events`, {
      method: 'HEAD',
      headers: { authorization: `Bearer ${platform.admin.token}` },
    })
    expect([response.status, response.headers.get('content-type')]).toEqual([200, 'text/event-stream'])
    expect(await response.text()).toBe('')
  })
})
