import { afterAll, beforeAll, expect, test } from 'vitest'
import { eventually, startTestPlatform, type TestPlatform } from '../../../test/harness.ts'
import { servedImage } from '../../../test/served-image.ts'
import { transaction } from '../../platform/db/transaction.ts'
import { endServing, whenEndpoint } from './endpoint.fixture.ts'

let platform: TestPlatform
beforeAll(async () => {
  platform = await startTestPlatform()
})
afterAll(() => endServing(platform))

test('deleting a tenant ends its replicas and leaves nothing of its endpoints; another tenant serves on', async () => {
  const { id } = await platform.tenant('leaving')
  const leaving = await platform.member('leaving', 'MAINTAINER')
  const staying = await platform.member('default', 'MAINTAINER')
  for (const [client, tenantCode] of [
    [leaving, 'leaving'],
    [staying, 'default'],
  ] as const) {
    const image = await servedImage(platform, { name: 'probe', tenantCode })
    await client.post('/api/v1/serving/endpoints', { name: 'same-name', image_id: image.id, replicas: 1, gpu: 0 })
    await whenEndpoint(client, 'same-name', 'RUNNING')
  }
  const preview = await platform.admin.get(`/api/v1/settings/tenants/${id}/deletion-preview`)
  expect(preview.text).toContain('"endpoints":1')
  const started = await platform.admin.post(`/api/v1/settings/tenants/${id}/deletion`, { confirm_code: 'leaving' })
  expect(started.status, started.text).toBe(202)
  const done = await eventually(async () => {
    const { body } = await platform.admin.get(`/api/v1/settings/tenants/deletions/${started.body.id}`)
    return body.status === 'DONE' || body.status === 'FAILED' ? body : null
  }, 60)
  expect(done, JSON.stringify(done)).toMatchObject({ status: 'DONE' })
  expect((await platform.services.adapters.compute.list()).length).toBe(1)
  const rows = await transaction(platform.services.db, 'system', (tx) =>
    tx.selectFrom('servingEndpoints').select('tenantId').execute(),
  )
  expect(rows.map(({ tenantId }) => tenantId)).not.toContain(id)
  const ping = await staying.get('/api/v1/serving/endpoints/same-name/proxy/ping')
  expect(ping.status).toBe(200)
}, 600_000)
