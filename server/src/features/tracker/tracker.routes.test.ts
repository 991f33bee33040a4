import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startTestPlatform, type TestClient, type TestPlatform } from '../../../test/harness.ts'

let platform: TestPlatform
let viewer: TestClient
let developer: TestClient
let admin: TestClient
let stranger: TestClient
beforeAll(async () => {
  platform = await startTestPlatform()
  await platform.tenant('ours')
  await platform.tenant('theirs')
  viewer = await platform.member('ours', 'VIEWER')
  developer = await platform.member('ours', 'DEVELOPER')
  admin = await platform.member('ours', 'ADMIN')
  stranger = await platform.member('theirs', 'ADMIN')
})
afterAll(() => platform?.stop())

const create = (body: object = {}) => developer.post('/api/v1/tracker/tokens', body)

describe('POST /api/v1/tracker/tokens', () => {
  test('201 shows the token this once, not to be stored', async () => {
    const reply = await create({ name: 'laptop', expires_in_days: 30 })
    expect([reply.status, reply.headers.get('cache-control')]).toEqual([201, 'no-store'])
    expect(reply.body.token).toMatch(/^mlt_[0-9A-Za-z]{10}_[\w-]{43}$/)
    expect(reply.body).toMatchObject({ name: 'laptop', tracking_uri: `${platform.url}/tracker`, revoked_at: null })
    expect(Date.parse(reply.body.expires_at) - Date.parse(reply.body.created_at)).toBe(30 * 86_400_000)
  })

  test('422 for a lifetime that is none', async () => {
    for (const days of [0, 3651, 1.5]) expect((await create({ expires_in_days: days })).status).toBe(422)
  })
})

describe('GET /api/v1/tracker/tokens', () => {
  test('200 lists the own ones without the token itself, newest first', async () => {
    await create({ name: 'older' })
    await create({ name: 'newer' })
    const { body } = await developer.get('/api/v1/tracker/tokens')
    expect(body.items.slice(0, 2).map((item: { name: string }) => item.name)).toEqual(['newer', 'older'])
    expect(JSON.stringify(body)).not.toContain('mlt_')
    expect((await admin.get('/api/v1/tracker/tokens')).body).toEqual({ items: [], total: 0 })
  })
})

describe('POST /api/v1/tracker/tokens/{token_id}:revoke', () => {
  test('200 again and again with the first time; 403 for others without SETTINGS; 404 for another tenant', async () => {
    const { id } = (await create()).body
    const path = `/api/v1/tracker/tokens/${id}:revoke`
    expect((await viewer.post(path)).status).toBe(403)
    expect((await stranger.post(path)).status).toBe(404)
    const first = await developer.post(path)
    expect(first.body.revoked_at).not.toBeNull()
    expect((await admin.post(path)).body.revoked_at).toBe(first.body.revoked_at)
  })
})

describe('GET /api/v1/tracker/info', () => {
  test('200 tells where clients go', async () => {
    const { body } = await viewer.get('/api/v1/tracker/info')
    expect(body).toEqual({ tracking_uri: `${platform.url}/tracker`, version: expect.stringMatching(/^\d+\.\d+\.\d+$/) })
  })
})
