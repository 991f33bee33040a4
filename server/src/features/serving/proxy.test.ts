import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { PassThrough, Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startTestPlatform, type TestClient, type TestPlatform } from '../../../test/harness.ts'
import { servedImage } from '../../../test/served-image.ts'
import { colourTensor, endWorks, whenDeployed, whenEndpoint } from './endpoint.fixture.ts'
import { answerHeaders, forward, NotConnected, requestHeaders } from './forward.ts'
import { proxiedPath } from './proxy-paths.ts'

const proxyPath = '/api/v1/serving/endpoints/probe/proxy'

describe('paths that may be asked', () => {
  const get = (rest: string) => proxiedPath('GET', `${proxyPath}/${rest}`)
  const post = (rest: string) => proxiedPath('POST', `${proxyPath}/${rest}`)

  test.each(['ping', 'health', 'version', 'v2', 'v2/health/live', 'v2/health/ready', 'v2/models/m'])(
    'GET %s',
    (rest) => {
      expect(get(rest)).toBe(`/${rest}`)
      expect(post(rest)).toBeNull()
    },
  )

  test.each(['v2/models/m/ready', 'v2/models/m/versions/1', 'v2/models/a%20b/versions/1/ready'])('GET %s', (rest) => {
    expect(get(rest)).toBe(`/${rest}`)
  })

  test.each(['invocations', 'v2/models/m/infer', 'v2/models/m/versions/1/infer'])('POST %s', (rest) => {
    expect(post(rest)).toBe(`/${rest}`)
    expect(get(rest)).toBeNull()
  })

  test.each([
    ...['', 'metrics', 'Ping', 'ping/', '/ping', 'v2/', 'v2/health', 'v2/models', 'v2/models/', 'v2/models/m/x'],
    ...['v2/models/../health/live', 'v2/models/%2e%2e', 'v2/models/a%2fb', 'v2/models/a%5cb', 'v2/models/%00'],
    ...['v2/models/%252f', 'v2/models/.', 'v2/models/%', 'ping%2f', '..%2fping', '../ping'],
  ])('nothing else: %j', (rest) => {
    expect(get(rest)).toBeNull()
    expect(post(rest.replace('models/', 'models/m/infer/'))).toBeNull()
  })

  test('the query goes on without the tenant', () => {
    expect(get('version?tenant=a&x=1&Tenant=b')).toBe('/version?x=1')
    expect(get('ping?tenant=a')).toBe('/ping')
  })
})

describe('headers', () => {
  test('of a request: credentials, tenant and what is about the connection stay here', () => {
    const sent = requestHeaders(
      {
        ...{ cookie: 'platformauth=secret', authorization: 'Bearer secret', 'x-tenant': 'acme', host: 'here' },
        ...{ connection: 'keep-alive, x-hop', 'x-hop': '1', te: 'trailers', 'proxy-authorization': 'x', expect: 'x' },
        ...{ 'transfer-encoding': 'chunked', upgrade: 'h2c', 'sec-fetch-site': 'none', origin: 'https://here' },
        ...{ 'content-type': 'image/png', 'inference-header-content-length': '7', accept: '*/*', 'x-own': 'kept' },
      },
      'request-1',
    )
    expect(sent).toEqual({
      ...{ 'content-type': 'image/png', 'inference-header-content-length': '7', accept: '*/*', 'x-own': 'kept' },
      'x-request-id': 'request-1',
    })
  })

  test('of an answer: no cookie can be set, and nothing runs as a page of ours', () => {
    const given = answerHeaders({
      'set-cookie': ['a=b'],
      'x-prediction-id': 'p',
      'content-type': 'text/html',
      connection: 'close',
    })
    expect(given).toEqual({
      ...{ 'x-prediction-id': 'p', 'content-type': 'text/html', 'cache-control': 'no-store' },
      ...{ 'x-content-type-options': 'nosniff', 'content-security-policy': 'sandbox' },
    })
  })
})

describe('forwarding', () => {
  const servers: Server[] = []
  afterAll(() => {
    for (const server of servers) server.closeAllConnections()
    for (const server of servers) server.close()
  })
  const upstream = async (answer: (request: IncomingMessage, response: ServerResponse) => void): Promise<string> => {
    const server = createServer(answer)
    servers.push(server)
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    return `127.0.0.1:${(server.address() as AddressInfo).port}`
  }
  const post = (address: string, body: Readable, signal = new AbortController().signal) =>
    forward(address, { method: 'POST', path: '/', headers: {}, body, signal })

  test('both bodies stream: the server has the first piece, and answers, before the last is sent', async () => {
    const address = await upstream((request, response) => request.pipe(response))
    const body = new PassThrough()
    body.write('first ')
    const answer = await post(address, body)
    const [piece] = await answer.take(1).toArray()
    expect(String(piece)).toBe('first ')
    body.end('last')
  })

  test('413 as soon as a body without a length goes over 64 MiB, and the server is cut off', async () => {
    let received = 0
    const cut = Promise.withResolvers<void>()
    const address = await upstream((request) => {
      request.on('data', (piece) => {
        received += piece.length
      })
      request.on('error', () => undefined).once('close', () => cut.resolve())
    })
    const endless = new Readable({
      read() {
        this.push(Buffer.alloc(1 << 20))
      },
    })
    await expect(post(address, endless)).rejects.toMatchObject({ code: 'payload_too_large' })
    endless.destroy()
    await cut.promise
    expect(received).toBeLessThanOrEqual(65 * 1024 ** 2)
  })

  test('a request that announces a body and has none is not completed by the one after it', async () => {
    const received: string[] = []
    const address = await upstream((request, response) => {
      received.push(`${request.method} ${request.headers['content-length'] ?? 'no length'}`)
      request.pipe(response)
    })
    const { signal } = new AbortController()
    const headers = requestHeaders({ 'content-length': '9', 'content-type': 'text/plain' }, 'request-1')
    await text(await forward(address, { method: 'GET', path: '/ping', headers, body: null, signal }))
    expect(await text(await post(address, Readable.from(['whole'])))).toBe('whole')
    expect(received).toEqual(['GET no length', 'POST no length'])
  })

  test('502 when the server breaks off before it answers', async () => {
    const address = await upstream((request) => request.socket.destroy())
    await expect(post(address, Readable.from(['x']))).rejects.toMatchObject({ code: 'bad_gateway' })
  })

  test('no connection leaves the body unread, for another replica', async () => {
    const address = await upstream(() => undefined)
    servers.at(-1)!.close()
    const body = Readable.from(['whole'])
    await expect(post(address, body)).rejects.toBeInstanceOf(NotConnected)
    const other = await upstream((request, response) => request.pipe(response))
    expect(await text(await post(other, body))).toBe('whole')
  })

  test('a client that goes takes its request along', async () => {
    const gone = Promise.withResolvers<void>()
    const address = await upstream((request) => request.once('close', () => gone.resolve()))
    const client = new AbortController()
    const body = new PassThrough()
    body.write('the beginning')
    const answer = post(address, body, client.signal)
    setTimeout(() => client.abort(), 50)
    await expect(answer).rejects.toThrow()
    await gone.promise
  })
})

describe('/api/v1/serving/endpoints/{name}/proxy/{path}', () => {
  let platform: TestPlatform
  let client: TestClient
  beforeAll(async () => {
    platform = await startTestPlatform()
    const maintainer = await platform.member('default', 'MAINTAINER')
    client = await platform.member('default', 'VIEWER')
    const image = await servedImage(platform, { name: 'probe' })
    await maintainer.post('/api/v1/serving/endpoints', { name: 'probe', image_id: image.id, replicas: 1, gpu: 0 })
    await whenEndpoint(client, 'probe', 'RUNNING')
    return async () => {
      const { body } = await maintainer.delete('/api/v1/serving/endpoints/probe')
      await whenDeployed(client, body.deployment_id)
      await platform.instance.stop()
      await endWorks(platform)
      await platform.stop()
    }
  })

  test('200 gives what the inference server answers, with its type and prediction id', async () => {
    const ping = await client.get(`${proxyPath}/ping`)
    expect([ping.status, ping.text]).toEqual([200, '\n'])
    expect((await client.get(`${proxyPath}/version`)).headers.get('content-type')).toBe('text/plain; charset=utf-8')
    expect((await client.call('HEAD', `${proxyPath}/ping`)).status).toBe(200)
    expect((await client.get(`${proxyPath}/v2/models/probe`)).body.versions).toEqual(['1'])
    const answer = await client.post(`${proxyPath}/invocations`, { inputs: [colourTensor([0, 0, 9])] })
    expect(answer.body.predictions[0].label).toBe('blue')
    expect(answer.headers.get('x-prediction-id')).toMatch(/^[0-9a-f-]{36}$/)
    expect(answer.headers.get('set-cookie')).toBeNull()
  })

  test('a tensor in binary goes through as it is, both ways', async () => {
    const floats = Buffer.from(new Float32Array(colourTensor([9, 0, 0]).flat(2)).buffer)
    const parameters = { binary_data_size: floats.length }
    const input = { name: 'images', datatype: 'FP32', shape: [1, 3, 6, 8], parameters }
    const outputs = [{ name: 'logits', parameters: { binary_data: true } }]
    const head = Buffer.from(JSON.stringify({ id: 'mine', inputs: [input], outputs }))
    const reply = await fetch(`${platform.url}${proxyPath}/v2/models/probe/infer`, {
      method: 'POST',
      headers: {
        ...{ authorization: `Bearer ${client.token}`, 'x-tenant': 'default' },
        'inference-header-content-length': String(head.length),
      },
      body: Buffer.concat([head, floats]),
    })
    const length = Number(reply.headers.get('inference-header-content-length'))
    const bytes = Buffer.from(await reply.arrayBuffer())
    expect(JSON.parse(bytes.subarray(0, length).toString())).toMatchObject({ id: 'mine', model_name: 'probe' })
    expect(bytes.length - length).toBe(5 * 4)
  })

  test('the own errors of the inference server come through as they are', async () => {
    const bad = await client.post(`${proxyPath}/invocations`, { nothing: 1 })
    expect([bad.status, bad.body.error_code]).toEqual([400, 'BAD_REQUEST'])
    const odd = await client.call('POST', `${proxyPath}/invocations`, {
      body: 'x',
      headers: { 'content-type': 'text/odd' },
    })
    expect([odd.status, odd.headers.get('content-type')]).toEqual([415, 'text/plain; charset=utf-8'])
    const other = await client.get(`${proxyPath}/v2/models/other`)
    expect([other.status, other.body.error]).toEqual([404, "unknown model 'other'"])
  })

  test('404 in our own words for every other address, and for an endpoint there is not', async () => {
    for (const path of ['metrics', 'v2/models/..%2f..%2fmetrics', 'ping/../metrics', 'invocations'])
      expect((await client.get(`${proxyPath}/${path}`)).body, path).toMatchObject({ code: 'not_found' })
    expect((await client.post(`${proxyPath}/ping`)).body.code).toBe('not_found')
    expect((await client.get('/api/v1/serving/endpoints/nothing/proxy/ping')).body.code).toBe('not_found')
  })

  test('413 for more than 64 MiB, before a byte of it is taken', async () => {
    const headers = { 'content-type': 'application/octet-stream', 'content-length': String(64 * 1024 ** 2 + 1) }
    const reply = await new Promise<number | undefined>((resolve, reject) => {
      void import('node:http').then(({ request }) => {
        const own = { ...headers, authorization: `Bearer ${client.token}`, 'x-tenant': 'default' }
        const sent = request(`${platform.url}${proxyPath}/invocations`, { method: 'POST', headers: own }, (answer) => {
          resolve(answer.statusCode)
          sent.destroy()
        })
        sent.once('error', reject)
        sent.flushHeaders()
      })
    })
    expect(reply).toBe(413)
  })

  test('502 when every replica has just died', async () => {
    const [work] = await platform.services.adapters.compute.list()
    process.kill(-(work!.status as { pid: number }).pid, 'SIGKILL')
    const statuses = new Set<number>()
    for (let request = 0; request < 5; request++) statuses.add((await client.get(`${proxyPath}/ping`)).status)
    for (const status of statuses) expect([502, 503]).toContain(status)
    await whenEndpoint(client, 'probe', 'RUNNING')
  })
})
