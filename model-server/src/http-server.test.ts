import { once } from 'node:events'
import { request as httpRequest } from 'node:http'
import { connect } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { solidTensor } from '../test/images.ts'
import { probeClasses, probeGraph, writeModelFolder } from '../test/model-folders.ts'
import { type ServerProcess, startServer } from '../test/server-process.ts'

let server: ServerProcess
const maxBodyBytes = 20_000
const body = JSON.stringify({ instances: [solidTensor([9, 200, 90])] })

beforeAll(async () => {
  const modelDir = await writeModelFolder(probeGraph(), probeClasses)
  server = await startServer(modelDir, { MAX_BODY_BYTES: String(maxBodyBytes) })
})
afterAll(() => server?.stop())

/** Sends the path as it is; fetch would tidy `..` away. */
function rawStatus(path: string): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    const sent = httpRequest(server.url, { path }, (response) => {
      response.resume()
      resolve(response.statusCode)
    })
    sent.on('error', reject)
    sent.end()
  })
}

describe('model server over HTTP', () => {
  test('200 /ping and /health answer a newline', async () => {
    for (const path of ['/ping', '/health']) {
      const response = await fetch(server.url + path)
      expect([response.status, await response.text()]).toEqual([200, '\n'])
    }
  })

  test('200 /version is plain text', async () => {
    const response = await fetch(`${server.url}/version`)
    expect(response.headers.get('content-type')).toContain('text/plain')
    expect(await response.text()).toMatch(/^\d+\.\d+\.\d+$/)
  })

  test('200 HEAD is GET without a body', async () => {
    const response = await fetch(`${server.url}/ping`, { method: 'HEAD' })
    expect([response.status, response.headers.get('content-length'), await response.text()]).toEqual([200, '1', ''])
  })

  test('404 unknown paths and path tricks', async () => {
    for (const path of [
      '/',
      '/nothing',
      '/ping/',
      '//ping',
      '/v2/../ping',
      '/%70ing',
      '/v2/models/model%2fready',
      '/v2/models/%zz',
    ]) {
      expect(await rawStatus(path), path).toBe(404)
    }
  })

  test('405 names the allowed methods', async () => {
    const cases = [
      ['POST', '/ping', 'GET, HEAD'],
      ['GET', '/invocations', 'POST'],
      ['DELETE', '/v2/models/model', 'GET, HEAD'],
      ['GET', '/v2/models/model/infer', 'POST'],
    ] as const
    for (const [method, path, allow] of cases) {
      const response = await fetch(server.url + path, { method })
      expect([path, response.status, response.headers.get('allow')]).toEqual([path, 405, allow])
    }
  })

  test('413 for a declared and for a streamed body, and the connection goes on', async () => {
    const large = new Uint8Array(maxBodyBytes + 1)
    expect((await server.post('/invocations', 'image/png', large)).status).toBe(413)
    const streamed = await fetch(`${server.url}/invocations`, {
      method: 'POST',
      headers: { 'content-type': 'image/png' },
      body: new Blob([large]).stream(),
      duplex: 'half',
    } as RequestInit)
    expect(streamed.status).toBe(413)
    expect(await streamed.json()).toMatchObject({ error_code: 'REQUEST_TOO_LARGE' })
    expect((await server.post('/v2/models/model/infer', 'application/json', large)).status).toBe(413)
    expect((await server.post('/invocations', 'application/json', body)).status).toBe(200)
  })

  test('503 when the bodies being received together are too large: many slow clients must not fill the memory', async () => {
    const part = Buffer.alloc(maxBodyBytes - 1_000)
    const headers = { 'content-type': 'image/png', 'content-length': maxBodyBytes }
    const sending = Array.from({ length: 5 }, () => {
      const sent = httpRequest(`${server.url}/invocations`, { method: 'POST', headers })
      const status = once(sent, 'response').then(([response]) => {
        response.resume()
        return response.statusCode as number
      })
      sent.write(part)
      return { sent, status }
    })
    expect(await Promise.race(sending.map(({ status }) => status))).toBe(503)
    for (const { sent } of sending) sent.end(Buffer.alloc(1_000))
    const statuses = await Promise.all(sending.map(({ status }) => status))
    expect(statuses.sort()).toEqual([400, 400, 400, 400, 503])
  })

  test('metrics count requests by route template and status, and name the model', async () => {
    const labels = '{route="/v2/models/{model}",status="404"}'
    const before = await server.metric('model_server_requests_total', labels)
    await fetch(`${server.url}/v2/models/other-a`)
    await fetch(`${server.url}/v2/models/other-b`)
    expect(await server.metric('model_server_requests_total', labels)).toBe(before + 2)
    const info = '{name="model",version="1",framework="handwritten",architecture="probe"}'
    expect(await server.metric('model_server_model_info', info)).toBe(1)
    expect(await server.metric('model_server_queue_images')).toBe(0)
    expect(await server.metric('model_server_requests_in_flight')).toBe(1)
  })

  test('a client that goes away in the middle leaves nothing behind', async () => {
    const socket = connect(Number(new URL(server.url).port), '127.0.0.1')
    socket.write('POST /invocations HTTP/1.1\r\nhost: x\r\ncontent-type: image/png\r\ncontent-length: 900\r\n\r\nabc')
    while ((await server.metric('model_server_requests_in_flight')) < 2) await delay(10)
    socket.destroy()
    while ((await server.metric('model_server_requests_in_flight')) > 1) await delay(10)
    expect(await server.metric('model_server_requests_total', '{route="/invocations",status="499"}')).toBe(1)
    expect(server.output()).toBe('')
  })
})
