import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rename, writeFile } from 'node:fs/promises'
import { request as httpRequest } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { setTimeout as delay } from 'node:timers/promises'
import { promisify } from 'node:util'
import { afterEach, beforeAll, describe, expect, test } from 'vitest'
import { solid, solidTensor } from '../test/images.ts'
import { convolutionGraph, probeClasses, probeGraph, writeModelFolder } from '../test/model-folders.ts'
import { listenServer, type ServerProcess, spawnServer, startServer } from '../test/server-process.ts'

let probe: string
let slow: string
let server: ServerProcess | undefined
const one = { instances: [solidTensor([9, 200, 90])] }

beforeAll(async () => {
  probe = await writeModelFolder(probeGraph(), probeClasses)
  slow = await writeModelFolder(convolutionGraph({ size: 48, width: 32, layers: 8, classes: 2 }), ['a', 'b'])
})
afterEach(async () => {
  await server?.stop()
  server = undefined
})

const colorPng = async (red: number) => Uint8Array.from(await solid([red, 9, 90]).png().toBuffer())

/** A POST whose body is sent in two parts, the second when `finish` is called. */
function halfRequest(url: string, body: string) {
  const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }
  const request = httpRequest(`${url}/invocations`, { method: 'POST', headers })
  const status = once(request, 'response').then(([response]) => {
    response.resume()
    return response.statusCode as number
  })
  request.write(body.slice(0, 10))
  return { status, finish: () => request.end(body.slice(10)) }
}

describe('start', () => {
  test('listens before the model is loaded, and is not ready until it is', async () => {
    const file = join(probe, 'model.json')
    await rename(file, `${file}.kept`)
    await promisify(execFile)('mkfifo', [file])
    const portFile = join(await mkdtemp(join(tmpdir(), 'port-')), 'port')
    server = await listenServer(probe, { PORT_FILE: portFile })
    for (const path of ['/ping', '/health', '/v2/health/ready', '/v2/models/model/ready', '/v2/models/model']) {
      expect((await fetch(server.url + path)).status, path).toBe(503)
    }
    expect((await fetch(`${server.url}/v2/health/live`)).status).toBe(200)
    const early = await server.postJson('/invocations', one)
    expect([early.status, early.headers.get('retry-after')]).toEqual([503, '1'])
    await writeFile(file, await readFile(`${file}.kept`))
    await server.untilReady()
    expect((await server.postJson('/invocations', one)).status).toBe(200)
    expect(server.url).toBe(`http://127.0.0.1:${(await readFile(portFile, 'utf8')).trim()}`)
    await rename(`${file}.kept`, file)
  })

  test('exits 1 and says what is wrong with the model or the configuration', async () => {
    const broken = await writeModelFolder(probeGraph(), probeClasses)
    await writeFile(join(broken, 'model.onnx'), 'not a model')
    const wrongOutput = { name: 'scores', datatype: 'FP32', shape: [-1, 5], activation: 'softmax' }
    const cases: [string, Record<string, string>, string][] = [
      [await writeModelFolder(probeGraph(), probeClasses, { format: 2 }), {}, 'format must be 1, got 2'],
      [await writeModelFolder(probeGraph(), probeClasses, { task: 'pose' }), {}, "task must be 'image_classification'"],
      [await writeModelFolder(probeGraph(), probeClasses, { classes: ['a', 'a'] }), {}, 'classes must be a list'],
      [
        await writeModelFolder(probeGraph(), probeClasses, { output: wrongOutput }),
        {},
        "no output 'scores', only logits",
      ],
      [broken, {}, 'model.onnx'],
      [join(probe, 'nowhere'), {}, 'no readable model.json'],
      [probe, { WORKERS: 'many', PORT: '70000' }, 'PORT must be an integer from 0 to 65535'],
    ]
    await Promise.all(
      cases.map(async ([folder, env, message]) => {
        const child = spawnServer(folder, env)
        const [errors, [code]] = await Promise.all([text(child.stderr!), once(child, 'exit')])
        expect([message, code]).toEqual([message, 1])
        expect(errors).toContain(message)
        expect(errors).not.toContain('    at ')
      }),
    )
  })
})

describe('batching', () => {
  const load = async (count: number, env: Record<string, string>) => {
    server = await startServer(slow, env)
    const images = await Promise.all(Array.from({ length: count }, (_, index) => colorPng(index * 10)))
    const ask = async (image: Uint8Array<ArrayBuffer>) => {
      const response = await server!.post('/invocations', 'image/png', image)
      expect(response.status).toBe(200)
      return (await response.json()) as unknown
    }
    const alone: unknown[] = []
    for (const image of images) alone.push(await ask(image))
    const batches = () => server!.metric('model_server_batch_size_count')
    const alreadyRun = await batches()
    const together = await Promise.all(images.map(ask))
    return { alone, together, alreadyRun, batches: (await batches()) - alreadyRun }
  }

  test('concurrent requests share batches and get their own answers', async () => {
    const { alone, together, alreadyRun, batches } = await load(16, { WORKERS: '1' })
    expect(alreadyRun).toBe(16)
    // How many share depends on how fast a machine lets them in; that some do, does not.
    expect(batches).toBeLessThan(16)
    expect(await server!.metric('model_server_batch_size_sum')).toBe(32)
    for (const [index, answer] of together.entries()) {
      const scores = (value: unknown) => (value as { predictions: { scores: { a: number } }[] }).predictions[0]!.scores
      expect(scores(answer).a).toBeCloseTo(scores(alone[index]).a, 4)
    }
  })

  test('MAX_BATCH bounds a batch', async () => {
    const { batches } = await load(8, { MAX_BATCH: '1' })
    expect(batches).toBe(8)
  })

  test('an idle server shares the images of one request among its workers at once', async () => {
    server = await startServer(probe, { WORKERS: '2', BATCH_WAIT_MS: '10000' })
    const startedAt = performance.now()
    const instances = new Array(6).fill(one.instances[0])
    expect((await server.postJson('/invocations', { instances })).status).toBe(200)
    expect(performance.now() - startedAt, 'less than the wait').toBeLessThan(10_000)
    expect(await server.metric('model_server_batch_size_bucket', '{le="4"}')).toBe(2)
  })

  test('an idle server does not wait for company', async () => {
    server = await startServer(probe, { BATCH_WAIT_MS: '10000' })
    const startedAt = performance.now()
    expect((await server.postJson('/invocations', one)).status).toBe(200)
    expect(performance.now() - startedAt, 'less than the wait').toBeLessThan(10_000)
  })

  test('503 with Retry-After when too many images wait', async () => {
    server = await startServer(slow, { MAX_PENDING_IMAGES: '1' })
    const image = await colorPng(50)
    const instances = new Array(200).fill(Buffer.from(image).toString('base64'))
    const long = server.postJson('/invocations', { instances })
    while ((await server.metric('model_server_queue_images')) === 0) await delay(5)
    const refused = await server.post('/invocations', 'image/png', image)
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([503, '1'])
    expect((await long).status).toBe(200)
    expect((await server.post('/invocations', 'image/png', image)).status).toBe(200)
  })
})

describe('SIGTERM', () => {
  test('readiness goes 503, the request in flight finishes, the process exits 0', async () => {
    server = await startServer(probe)
    const { status, finish } = halfRequest(server.url, JSON.stringify(one))
    while ((await server.metric('model_server_requests_in_flight')) < 2) await delay(10)
    server.child.kill('SIGTERM')
    while ((await fetch(`${server.url}/v2/health/ready`)).status !== 503) await delay(10)
    expect((await fetch(`${server.url}/ping`)).status).toBe(503)
    expect((await server.postJson('/invocations', one)).status).toBe(503)
    finish()
    expect(await status).toBe(200)
    expect(await server.exited).toBe(0)
  })

  test('after the grace a request that never ends is cut, exit 1', async () => {
    server = await startServer(probe, { SHUTDOWN_GRACE_MS: '200' })
    const { status } = halfRequest(server.url, JSON.stringify(one))
    const cut = expect(status).rejects.toThrow()
    while ((await server.metric('model_server_requests_in_flight')) < 2) await delay(10)
    server.child.kill('SIGTERM')
    expect(await server.exited).toBe(1)
    await cut
  })
})

describe('a thread that dies', () => {
  test.each([
    ['inference', 500],
    ['image', 503],
  ])('%s: its request gets %i, the next ones are answered by its replacement', async (kind, status) => {
    const killFile = join(await mkdtemp(join(tmpdir(), 'kill-')), 'kind')
    const preload = new URL('../test/kill-thread.ts', import.meta.url)
    server = await startServer(probe, { NODE_OPTIONS: `--import=${preload}`, KILL_THREAD_FILE: killFile })
    const image = await colorPng(50)
    expect((await server.post('/invocations', 'image/png', image)).status).toBe(200)
    await writeFile(killFile, kind)
    expect((await server.post('/invocations', 'image/png', image)).status).toBe(status)
    await server.untilReady()
    expect((await server.post('/invocations', 'image/png', image)).status).toBe(200)
    expect(await server.metric('model_server_threads_lost_total', `{kind="${kind}"}`)).toBe(1)
  })
})

describe('memory', () => {
  test('decoded images do not pile up', async () => {
    server = await startServer(probe)
    const image = Uint8Array.from(await solid([9, 9, 90], { width: 1000, height: 1000 }).jpeg().toBuffer())
    const send = async (count: number): Promise<number> => {
      for (let sent = 0; sent < count; sent += 1) await server!.post('/invocations', 'image/jpeg', image)
      return server!.metric('process_resident_memory_bytes')
    }
    const before = await send(50)
    const decodedBytes = 150 * 1000 * 1000 * 3
    expect((await send(150)) - before).toBeLessThan(decodedBytes / 3)
  })
})
