import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startTestPlatform, type TestPlatform } from '../../../test/harness.ts'

// What arrives from clients that follow no rules; over plain sockets, because no client library would send it.

let platform: TestPlatform
beforeAll(async () => {
  platform = await startTestPlatform()
})
afterAll(() => platform?.stop())

/** Everything the server says on one connection until it ends it. */
async function say(bytes: string): Promise<{ status: number; head: string; body: Record<string, unknown> }> {
  const { hostname, port } = new URL(platform.url)
  const socket = connect(Number(port), hostname)
  socket.write(bytes)
  const said = await text(socket)
  const [head = '', body = ''] = said.split('\r\n\r\n')
  return { status: Number(head.split(' ')[1]), head: head.toLowerCase(), body: JSON.parse(body) }
}

const get = (target: string, header = '') => `GET ${target} HTTP/1.1\r\nhost: a\r\n${header}connection: close\r\n\r\n`
const envelope = ['error_id', 'code', 'message', 'detail']

describe('what is no HTTP', () => {
  const broken: [string, string, number, string][] = [
    ['a broken request line', 'nonsense\r\n\r\n', 400, 'bad_request'],
    ['an address without a slash', get('openapi.json'), 400, 'bad_request'],
    ['headers of 40 kB', get('/healthz', `x-long: ${'x'.repeat(40_000)}\r\n`), 431, 'request_header_fields_too_large'],
    [
      'two lengths (request smuggling)',
      get('/healthz', 'content-length: 1\r\ncontent-length: 2\r\n'),
      400,
      'bad_request',
    ],
    [
      'a length beside pieces (request smuggling)',
      get('/healthz', 'content-length: 5\r\ntransfer-encoding: chunked\r\n'),
      400,
      'bad_request',
    ],
  ]
  for (const [what, bytes, status, code] of broken) {
    test(`${status} with the envelope and an id for ${what}, and the connection ends`, async () => {
      const said = await say(bytes)
      expect([said.status, said.body.code]).toEqual([status, code])
      expect(Object.keys(said.body)).toEqual(envelope)
      expect(said.head).toMatch(/\r\nx-request-id: [0-9a-f-]{36}/)
      expect(said.head).toContain('connection: close')
    })
  }
})

describe('addresses that nothing can have', () => {
  const addresses: [string, number, string][] = [
    ['/healthz%', 400, 'bad_request'],
    ['/healthz%ff', 400, 'bad_request'],
    [`/api/v1/datasets/${'x'.repeat(600)}`, 414, 'uri_too_long'],
    ['/api/v1/datasets/a%2Fb', 404, 'not_found'],
    ['/api/v1/datasets/a%3Ab', 404, 'not_found'],
    ['//healthz', 404, 'not_found'],
  ]
  for (const [target, status, code] of addresses) {
    test(`${status} with the envelope for ${target.slice(0, 40)}`, async () => {
      const said = await say(get(target))
      expect([said.status, said.body.code]).toEqual([status, code])
      expect(Object.keys(said.body)).toEqual(envelope)
      expect(said.head).toContain('x-request-id: ')
    })
  }

  test('405 with Allow only for a method that the address does not take', async () => {
    const { status, headers } = await platform.anonymous('DELETE', '/healthz')
    expect([status, headers.get('allow')]).toEqual([405, 'GET, HEAD'])
  })
})

describe('bodies', () => {
  test('what a schema does not name never reaches the database (mass assignment)', async () => {
    const made = await platform.admin.post('/api/v1/datasets/drafts', {
      name: 'assigned',
      ...{ state: 'FROZEN', created_by: 'somebody@else.example', no_such_column: 1 },
    })
    expect([made.status, made.body.status, made.body.created_by]).toEqual([201, 'DRAFT', platform.admin.email])
    const changed = await platform.admin.patch(`/api/v1/datasets/${made.body.id}`, {
      name: 'b',
      file_count: 9,
      digest: 'x',
    })
    expect([changed.status, changed.body.name, changed.body.file_count]).toEqual([200, 'b', 0])
  })

  test('422 for a JSON body nested 20,000 levels deep', async () => {
    const body = `${'{"name":'.repeat(20_000)}1${'}'.repeat(20_000)}`
    const headers = { 'content-type': 'application/json' }
    const reply = await platform.admin.call('POST', '/api/v1/datasets/drafts', { body, headers })
    expect([reply.status, reply.body.code]).toEqual([422, 'unprocessable_entity'])
  })

  test('422 for a file that ends in the middle or has no boundary', async () => {
    const { body: draft } = await platform.admin.post('/api/v1/datasets/drafts', { name: 'broken files' })
    const path = `/api/v1/datasets/${draft.id}/files`
    const body = '--b\r\ncontent-disposition: form-data; name="file"; filename="a.csv"\r\n\r\na,b\n1,2'
    for (const type of ['multipart/form-data; boundary=b', 'multipart/form-data']) {
      const reply = await platform.admin.call('POST', path, { body, headers: { 'content-type': type } })
      expect([reply.status, reply.body.detail[0].type]).toEqual([422, 'multipart_invalid'])
    }
  })
})
