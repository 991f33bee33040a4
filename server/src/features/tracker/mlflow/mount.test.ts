import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { startTestPlatform, type TestClient, type TestPlatform } from '../../../../test/harness.ts'
import { transaction } from '../../../platform/db/transaction.ts'
import { type TrackingClient, trackingClient } from './tracking-client.testing.ts'

let platform: TestPlatform
let developer: TestClient
let ours: TrackingClient
let reader: TrackingClient
let theirs: TrackingClient
let runId: string
beforeAll(async () => {
  platform = await startTestPlatform()
  await platform.tenant('ours')
  await platform.tenant('theirs')
  developer = await platform.member('ours', 'DEVELOPER')
  ours = await trackingClient(platform, developer)
  theirs = await trackingClient(platform, await platform.member('theirs', 'ADMIN'))
  const demoted = await platform.member('ours', 'DEVELOPER')
  reader = await trackingClient(platform, demoted)
  await setRole(demoted, 'VIEWER')
})
afterAll(() => platform?.stop())
beforeEach(async () => {
  runId = (await ours.post('/mlflow/runs/create', { experiment_id: '0' })).body.run.info.run_id
})

/** Rights follow the role a person has now. */
const setRole = (client: TestClient, role: string) =>
  transaction(platform.services.db, 'system', (tx) =>
    tx.updateTable('memberships').set({ role }).where('userId', '=', client.userId).execute(),
  )

describe('credentials', () => {
  test('200 with the token as bearer or as password of any user; 401 with anything else', async () => {
    const path = `${platform.url}/tracker/api/2.0/mlflow/experiments/get?experiment_id=0`
    const ask = (authorization?: string) => fetch(path, authorization ? { headers: { authorization } } : {})
    const basic = (text: string) => `Basic ${Buffer.from(text).toString('base64')}`
    expect((await ask(`Bearer ${ours.token}`)).status).toBe(200)
    expect((await ask(basic(`anybody:${ours.token}`))).status).toBe(200)
    for (const header of [undefined, `Bearer ${developer.token}`, basic('a:b'), `Bearer ${ours.token.slice(0, -1)}x`]) {
      const reply = await ask(header)
      expect([reply.status, reply.headers.get('www-authenticate')]).toEqual([401, 'Basic realm="MLOps tracker"'])
      expect(await reply.json()).toMatchObject({ error_code: 'UNAUTHENTICATED' })
    }
  })

  test('401 on the REST API: a tracker token is for the tracker alone', async () => {
    const headers = { authorization: `Bearer ${ours.token}`, 'x-tenant': 'ours' }
    expect((await platform.anonymous('GET', '/api/v1/models', { headers })).status).toBe(401)
  })

  test('403 PERMISSION_DENIED for what the role does not allow at this moment', async () => {
    expect((await reader.get('/mlflow/runs/get', { run_id: runId })).status).toBe(200)
    const reply = await reader.post('/mlflow/runs/set-tag', { run_id: runId, key: 'a', value: 'b' })
    expect([reply.status, reply.body.error_code]).toEqual([403, 'PERMISSION_DENIED'])
  })

  test('403 PERMISSION_DENIED for Production without PRODUCTION_PROMOTE, 200 for Staging', async () => {
    await ours.post('/mlflow/registered-models/create', { name: 'staged' })
    await ours.post('/mlflow/model-versions/create', { name: 'staged', source: `runs:/${runId}/model` })
    const to = (stage: string) =>
      ours.post('/mlflow/model-versions/transition-stage', { name: 'staged', version: '1', stage })
    expect((await to('staging')).body.model_version.current_stage).toBe('Staging')
    expect((await to('Production')).body.error_code).toBe('PERMISSION_DENIED')
  })

  test('403 while the tenant has the tracker switched off', async () => {
    const client = await trackingClient(platform, await platform.member('ours', 'DEVELOPER'))
    const { items } = (await platform.admin.get('/api/v1/settings/tenants')).body
    const { id } = items.find(({ code }: { code: string }) => code === 'ours')
    const look = () => client.get('/mlflow/experiments/get', { experiment_id: '0' })
    await platform.admin.patch(`/api/v1/settings/tenants/${id}`, { features: { tracker: false } })
    expect((await look()).body.error_code).toBe('PERMISSION_DENIED')
    await platform.admin.patch(`/api/v1/settings/tenants/${id}`, { features: { tracker: true } })
    expect((await look()).status).toBe(200)
  })

  test('401 at once when the token is revoked or its owner is switched off', async () => {
    const member = await platform.member('ours', 'DEVELOPER')
    const client = await trackingClient(platform, member)
    expect((await client.get('/mlflow/experiments/get', { experiment_id: '0' })).status).toBe(200)
    await platform.admin.patch(`/users/${member.userId}`, { is_active: false })
    expect((await client.get('/mlflow/experiments/get', { experiment_id: '0' })).status).toBe(401)
    await platform.admin.patch(`/users/${member.userId}`, { is_active: true })
    expect((await client.get('/mlflow/experiments/get', { experiment_id: '0' })).status).toBe(200)
    expect(
      (await platform.admin.post(`/api/v1/tracker/tokens/${client.id}:revoke`, {}, { tenant: 'ours' })).status,
    ).toBe(200)
    expect((await client.get('/mlflow/experiments/get', { experiment_id: '0' })).status).toBe(401)
  })
})

describe('tenants with the same names everywhere', () => {
  test('404: runs, experiments, models, artifacts and logged models of one are nowhere for the other', async () => {
    await ours.put(`/0/${runId}/artifacts/secret.txt`, 'ours')
    await ours.post('/mlflow/registered-models/create', { name: 'same' })
    const created = await ours.post('/mlflow/experiments/create', { name: 'same' })
    const model = (await ours.post('/mlflow/logged-models', { experiment_id: '0', name: 'same' })).body.model.info
      .model_id
    for (const [path, query] of [
      ['/mlflow/runs/get', { run_id: runId }],
      ['/mlflow/experiments/get-by-name', { experiment_name: 'same' }],
      ['/mlflow/registered-models/get', { name: 'same' }],
      [`/mlflow/logged-models/${model}`, {}],
      [`/mlflow-artifacts/artifacts/0/${runId}/artifacts/secret.txt`, {}],
      ['/mlflow/artifacts/list', { run_id: runId }],
    ] as const) {
      expect((await theirs.get(path, query)).body.error_code, path).toBe('RESOURCE_DOES_NOT_EXIST')
    }
    const found = await theirs.post('/mlflow/runs/search', { experiment_ids: ['0', created.body.experiment_id] })
    expect(found.body.runs).toEqual([])
    expect((await theirs.post('/mlflow/registered-models/create', { name: 'same' })).status).toBe(200)
    expect((await theirs.post('/mlflow/experiments/create', { name: 'same' })).body.experiment_id).toBe('1')
    const written = await theirs.post('/mlflow/runs/log-metric', { run_id: runId, key: 'a', value: 1, timestamp: 1 })
    expect(written.body.error_code).toBe('RESOURCE_DOES_NOT_EXIST')
  })
})

describe('the protocol', () => {
  test('404 ENDPOINT_NOT_FOUND for what is not there, in the shape of the protocol', async () => {
    const reply = await ours.post('/mlflow/traces/search', {})
    expect([reply.status, reply.body.error_code]).toEqual([404, 'ENDPOINT_NOT_FOUND'])
  })

  test('400 names a missing or wrong parameter as clients expect it', async () => {
    const missing = await ours.post('/mlflow/experiments/create', {})
    expect(missing.body.message).toContain("Missing value for required parameter 'name'")
    const wrong = await ours.post('/mlflow/experiments/create', { name: 5 })
    expect(wrong.body.message).toContain("Invalid value 5 for parameter 'name' supplied")
    const broken = await ours.raw('POST', '/mlflow/experiments/create', '{"name":')
    expect([broken.status, broken.body.error_code]).toEqual([400, 'BAD_REQUEST'])
  })

  test('200 for the alias of the pages of the stock server, health and version', async () => {
    const ask = (path: string) =>
      fetch(`${platform.url}/tracker${path}`, { headers: { authorization: `Bearer ${ours.token}` } })
    expect((await ask('/ajax-api/2.0/mlflow/experiments/get?experiment_id=0')).status).toBe(200)
    expect(await (await ask('/health')).text()).toBe('OK')
    expect(await (await ask('/version')).text()).toMatch(/^\d+\.\d+\.\d+$/)
    expect(await (await ask('/api/3.0/mlflow/server-info')).json()).toEqual({ workspaces_enabled: false })
  })
})
