import { once } from 'node:events'
import { request } from 'node:http'
import { connect } from 'node:net'
import { Readable } from 'node:stream'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { eventually, startTestPlatform, type TestClient, type TestPlatform } from '../../../../test/harness.ts'
import { transaction } from '../../../platform/db/transaction.ts'
import { registerModelVersion } from '../../models/models.api.ts'
import { type TrackingClient, trackingClient } from './tracking-client.testing.ts'

let platform: TestPlatform
let developer: TestClient
let viewer: TestClient
let ours: TrackingClient
let runId: string
let tenant: { id: string; code: string }
beforeAll(async () => {
  platform = await startTestPlatform()
  tenant = await platform.tenant('ours')
  await platform.tenant('theirs')
  developer = await platform.member('ours', 'DEVELOPER')
  viewer = await platform.member('ours', 'VIEWER')
  ours = await trackingClient(platform, developer)
})
afterAll(() => platform?.stop())
beforeEach(async () => {
  runId = (await ours.post('/mlflow/runs/create', { experiment_id: '0' })).body.run.info.run_id
})

/** As an experiment of the platform does it. */
async function register(files: { path: string; digest: string; size: number }[]): Promise<void> {
  const { services } = platform
  const actor = {
    userId: developer.userId,
    email: developer.email,
    fullName: null,
    isSuperuser: false,
    sessionId: null,
  }
  const trained = { task: 'image_classification', framework: 'torchvision', architecture: 'resnet18', classes: ['a'] }
  const origin = { runId, experimentId: '0', dataset: { id: 'd', name: 'flowers', digest: 'sha256:1' } }
  const rest = { signature: null, metrics: {}, environment: {} }
  await transaction(services.db, { tenantId: tenant.id }, (tx) =>
    registerModelVersion(
      tx,
      { tenant, actor, clock: services.clock },
      { name: 'made', files, ...trained, ...origin, ...rest },
    ),
  )
}

describe('/tracker/api/2.0/mlflow-artifacts/artifacts', () => {
  const folder = () => `/0/${runId}/artifacts`

  test.each(['../x', 'a/../../x', '%2e%2e/x', 'a/%252e%252e/x', 'a//b', 'a/./b', 'a%5Cb', 'a%00b'])(
    '400 for the path %s',
    async (odd) => {
      // fetch() would tidy the path up before it sends it.
      const { hostname, port } = new URL(platform.url)
      const path = `/tracker/api/2.0/mlflow-artifacts/artifacts${folder()}/${odd}`
      const headers = { authorization: `Bearer ${ours.token}` }
      const call = request({ hostname, port, method: 'PUT', path, headers })
      call.end('x')
      const [answer] = await once(call, 'response')
      answer.resume()
      expect(answer.statusCode).toBe(400)
      expect((await ours.get('/mlflow/artifacts/list', { run_id: runId })).body.files).toEqual([])
    },
  )

  test('200 by range; deletion of a folder takes what is below', async () => {
    await ours.put(`${folder()}/d/a.txt`, 'hello')
    await ours.put(`${folder()}/d/e/b.txt`, 'deep')
    const path = `/mlflow-artifacts/artifacts${folder()}`
    const part = await ours.get(`${path}/d/a.txt`, {}, { range: 'bytes=1-2' })
    expect([part.status, part.text]).toEqual([206, 'el'])
    expect((await ours.delete(`${path}/d`)).status).toBe(200)
    expect((await ours.get(`${path}/d/e/b.txt`)).body.error_code).toBe('RESOURCE_DOES_NOT_EXIST')
  })

  test('a half-sent file is never visible', async () => {
    const { hostname, port } = new URL(platform.url)
    const socket = connect(Number(port), hostname)
    socket.write(
      `PUT /tracker/api/2.0/mlflow-artifacts/artifacts${folder()}/half.bin HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000\r\nauthorization: Bearer ${ours.token}\r\n\r\n${'x'.repeat(500_000)}`,
    )
    await new Promise((resolve) => setTimeout(resolve, 200))
    socket.destroy()
    await eventually(async () => {
      const { body } = await ours.get('/mlflow/artifacts/list', { run_id: runId })
      expect(body.files).toEqual([])
      return true
    })
  })

  test('501 for multipart, in the words that make clients send it whole', async () => {
    const reply = await ours.post(`/mlflow-artifacts/mpu/create${folder()}/a`, { path: 'a', num_parts: 2 })
    expect([reply.status, reply.body]).toEqual([
      501,
      {
        error_code: 'NOT_IMPLEMENTED',
        message: 'Multipart upload is not supported for the current artifact repository',
      },
    ])
  })
})

describe('the registry and /api/v1/models are two faces of one thing', () => {
  test('versions of either side are on both, with their files; those of the registry cannot be changed', async () => {
    await ours.put(`/0/${runId}/artifacts/model/MLmodel`, 'flavors: {}')
    const { artifact_uri } = (await ours.get('/mlflow/runs/get', { run_id: runId })).body.run.info
    await ours.post('/mlflow/registered-models/create', { name: 'Shared' })
    const made = await ours.post('/mlflow/model-versions/create', {
      name: 'Shared',
      source: `${artifact_uri}/model`,
      run_id: runId,
    })
    expect(made.body.model_version).toMatchObject({ version: '1', status: 'READY' })
    const version = (await viewer.get('/api/v1/models/shared/versions/1')).body
    expect(version).toMatchObject({ name: 'Shared', run_id: runId, file_list: [{ path: 'MLmodel', size: 11 }] })
    expect((await viewer.get('/api/v1/models/shared/1/download')).text).toBe('flavors: {}')
    await developer.post('/api/v1/models/shared/1/stage', { stage: 'Staging' })
    const seen = await ours.get('/mlflow/model-versions/get', { name: 'Shared', version: '1' })
    expect(seen.body.model_version.current_stage).toBe('Staging')
    // What was registered stays, whatever becomes of the run.
    await ours.delete(`/mlflow-artifacts/artifacts/0/${runId}/artifacts`)
    expect((await viewer.get('/api/v1/models/shared/1/download')).text).toBe('flavors: {}')
  })

  test('what the platform registered is found, listed and downloaded by clients, by their own tenant alone', async () => {
    const { services } = platform
    const blob = await services.blobs.put(Readable.from([Buffer.from('flavors: {}')]))
    const files = ['MLmodel', 'data/model.onnx'].map((path) => ({ path, ...blob }))
    await register(files)
    const { artifact_uri } = (await ours.get('/mlflow/model-versions/get-download-uri', { name: 'made', version: '1' }))
      .body
    const folder = artifact_uri.split('/mlflow-artifacts/artifacts/')[1]
    const list = async (path: string) => (await ours.get('/mlflow-artifacts/artifacts', { path })).body.files
    expect(await list(folder)).toEqual([
      { path: 'MLmodel', is_dir: false, file_size: 11 },
      { path: 'data', is_dir: true },
    ])
    expect(await list(`${folder}/data`)).toEqual([{ path: 'model.onnx', is_dir: false, file_size: 11 }])
    expect((await ours.get(`/mlflow-artifacts/artifacts/${folder}/MLmodel`)).text).toBe('flavors: {}')
    expect((await ours.put(`/${folder}/MLmodel`, 'other')).body.error_code).toBe('PERMISSION_DENIED')
    expect((await ours.delete(`/mlflow-artifacts/artifacts/${folder}`)).body.error_code).toBe('PERMISSION_DENIED')
    const theirs = await trackingClient(platform, await platform.member('theirs', 'ADMIN'))
    expect((await theirs.get(`/mlflow-artifacts/artifacts/${folder}/MLmodel`)).status).toBe(404)
    expect((await theirs.get('/mlflow-artifacts/artifacts', { path: folder })).body.files).toEqual([])
  })

  test('400 for a source on somebody’s machine; many registrations at once have each their own number', async () => {
    await ours.post('/mlflow/registered-models/create', { name: 'many' })
    const create = (source: string) => ours.post('/mlflow/model-versions/create', { name: 'many', source })
    for (const source of ['/etc/passwd', 'file:///etc/passwd', '../x', `${platform.url}/tracker/../x`])
      expect((await create(source)).body.error_code, source).toBe('INVALID_PARAMETER_VALUE')
    const made = await Promise.all(Array.from({ length: 10 }, () => create(`runs:/${runId}/model`)))
    const numbers = made.map((reply) => Number(reply.body.model_version.version))
    expect(numbers.sort((a, b) => a - b)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
  })
})
