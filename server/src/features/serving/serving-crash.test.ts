import { existsSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pino } from 'pino'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createTestDatabase, type TestDatabase } from '../../../test/database.ts'
import { eventually } from '../../../test/harness.ts'
import { registerModel } from '../../../test/model-version.ts'
import { openCompute, type ServerProcess, startServerProcess } from '../../../test/server-process.ts'
import { fileBlobStore } from '../../platform/blobs/file-blob-store.ts'
import { systemClock } from '../../platform/clock.ts'
import { transaction } from '../../platform/db/transaction.ts'
import { colourTensor, whenDeployed, whenEndpoint } from './endpoint.fixture.ts'

const path = '/api/v1/serving/endpoints/survivor'

let database: TestDatabase
let dataDir: string
let server: ServerProcess
beforeAll(async () => {
  database = await createTestDatabase()
  dataDir = await mkdtemp(join(tmpdir(), 'platform-mlops-'))
})
afterAll(async () => {
  await server?.end('SIGTERM')
  const compute = await openCompute(dataDir)
  for (const { handle } of await compute.list()) await compute.remove(handle)
  await database?.drop()
  await rm(dataDir, { recursive: true, force: true })
})

const log = pino({ level: 'silent' })
const start = async () => {
  server = await startServerProcess(database, dataDir)
}

const predict = () => server.admin.post(`${path}/proxy/invocations`, { instances: [colourTensor([9, 0, 0])] })

async function registerProbe(): Promise<void> {
  const blobs = await fileBlobStore({ folder: join(dataDir, 'blobs'), log })
  await registerModel({ services: { db: database, blobs, clock: systemClock } } as never, { name: 'probe' })
}

test('a build, its publication and a deployment survive kill -9 at any moment, and happen once', async () => {
  await start()
  await registerProbe()
  const { body: build } = await server.admin.post('/api/v1/images', { model_name: 'probe', version: '1' })
  let kills = 0
  // The first build writes every layer, which takes seconds: time to be killed in each of its steps.
  for (let done = false; !done && kills < 4; kills++) {
    await new Promise((resolve) => setTimeout(resolve, 300 + 900 * kills))
    await server.end('SIGKILL')
    await start()
    done = (await server.admin.get(`/api/v1/images/${build.id}`)).body.state === 'READY'
  }
  const image = await eventually(async () => {
    const { body } = await server.admin.get(`/api/v1/images/${build.id}`)
    expect(body.state, JSON.stringify(body.error)).not.toBe('FAILED')
    return body.state === 'READY' ? body : null
  }, 240)
  const runs = await server.admin.get(`/api/v1/images/${build.id}/runs`)
  expect(runs.body).toMatchObject({ total: 1, items: [{ state: 'succeeded' }] })
  const manifests = await transaction(database, 'system', (tx) =>
    tx.selectFrom('registryManifests').select('digest').execute(),
  )
  expect(manifests).toEqual([{ digest: image.digest }])

  const created = await server.admin.post('/api/v1/serving/endpoints', {
    ...{ name: 'survivor', image_id: image.id, replicas: 1, gpu: 0 },
  })
  await server.end('SIGKILL')
  await start()
  expect(await whenDeployed(server.admin, created.body.deployment_id)).toMatchObject({ state: 'READY' })
  expect((await (await openCompute(dataDir)).list()).length).toBe(1)
}, 600_000)

test('replicas run on while the server is dead, and are taken over: the same process, nothing twice', async () => {
  const before = await whenEndpoint(server.admin, 'survivor', 'RUNNING')
  const compute = await openCompute(dataDir)
  const [work] = await compute.list()
  const { pid } = work!.status as { pid: number }
  await server.end('SIGKILL')
  expect(existsSync(`/proc/${pid}`)).toBe(true)
  await start()
  expect((await predict()).status, 'at once').toBe(200)
  const { body: checked } = await server.admin.post(`${path}/heartbeat`)
  expect(checked).toMatchObject({ state: 'RUNNING', instances: [{ id: before.instances[0].id, restarts: 0 }] })
  expect(await compute.list()).toMatchObject([{ handle: work!.handle, status: { pid } }])
}, 600_000)

test('a replica that dies while the server is dead is started again; a stray is removed', async () => {
  const compute = await openCompute(dataDir)
  const [work] = await compute.list()
  await server.end('SIGKILL')
  await compute.kill(work!.handle)
  const stray = { name: `serve-${'0'.repeat(32)}-1`, command: ['/bin/sleep', '600'], env: {}, folder: '/' }
  await compute.start(stray)
  await start()
  const recovered = await eventually(async () => {
    const { body } = await server.admin.get(path)
    return body.state === 'RUNNING' && body.instances[0].restarts === 1 ? body : null
  }, 240)
  expect(recovered).toMatchObject({ ready_replicas: 1, error: null })
  expect((await predict()).status).toBe(200)
  await eventually(async () => (await compute.list()).every(({ handle }) => handle.name !== stray.name), 60)
  expect((await compute.list()).length).toBe(1)
  await whenDeployed(server.admin, (await server.admin.delete(path)).body.deployment_id)
  expect(await compute.list()).toEqual([])
}, 600_000)
