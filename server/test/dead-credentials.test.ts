import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createFeatures, operationsOf } from '../src/app.ts'
import { tokenSigner } from '../src/features/identity/tokens.ts'
import { loadConfig } from '../src/platform/config.ts'
import { transaction } from '../src/platform/db/transaction.ts'
import { createMetrics } from '../src/platform/metrics.ts'
import { installationKey } from '../src/platform/secrets.ts'
import { startTestPlatform, type TestClient, type TestPlatform, testPassword } from './harness.ts'
import { callRoute, faultsOf, refusal } from './route-calls.ts'

// A credential that once was good, or is good elsewhere, opens nothing: asked of every operation that needs a login.

const guarded = operationsOf(
  createFeatures({ config: loadConfig({}), signer: tokenSigner(new Uint8Array(32)), metrics: createMetrics() }),
).filter(({ access }) => access.level !== 'none')

let platform: TestPlatform
beforeAll(async () => {
  platform = await startTestPlatform()
})
afterAll(() => platform?.stop())

const refusedEverywhere = async (headers: Record<string, string>) => {
  const faults = await faultsOf(guarded, async (operation) =>
    refusal(await callRoute(platform.url, operation, { ...headers, 'x-tenant': 'default' }), 401, 'unauthorized'),
  )
  expect(faults).toEqual([])
}
const bearer = (token: string) => ({ authorization: `Bearer ${token}` })

/** Somebody whom nothing is closed to, as long as the login lives. */
async function administrator(): Promise<TestClient> {
  const client = await platform.member('default', 'ADMIN')
  await platform.admin.post(`/api/v1/system/users/${client.userId}/global-admin`)
  expect((await client.get('/api/v1/system/users')).status).toBe(200)
  return client
}

// A limit for what hangs: the number of calls grows with the product.
const timeout = 600_000

describe('every operation that needs a login answers 401', { timeout }, () => {
  test('to a token that is sent again after its logout', async () => {
    const client = await administrator()
    expect((await client.post('/auth/jwt/logout')).status).toBe(204)
    await refusedEverywhere(bearer(client.token))
  })

  test('to a cookie that is sent again after its logout', async () => {
    const { email } = await administrator()
    const body = new URLSearchParams({ username: email, password: testPassword })
    const login = await platform.anonymous('POST', '/auth/cookie/login', { body })
    const cookie = login.headers.get('set-cookie')!.split(';')[0]!
    expect((await platform.anonymous('GET', '/users/me', { headers: { cookie } })).status).toBe(200)
    await platform.anonymous('POST', '/auth/cookie/logout', { headers: { cookie } })
    await refusedEverywhere({ cookie })
  })

  test('to a token whose session has expired', async () => {
    const client = await administrator()
    await transaction(platform.services.db, 'system', (tx) =>
      tx
        .updateTable('sessions')
        .set({ expiresAt: new Date(Date.now() - 1000) })
        .where('userId', '=', client.userId)
        .execute(),
    )
    await refusedEverywhere(bearer(client.token))
  })

  test('to somebody who is switched off, and to somebody who is gone', async () => {
    const [disabled, deleted] = [await administrator(), await administrator()]
    await platform.admin.post(`/api/v1/system/users/${disabled.userId}/disable`)
    await platform.admin.delete(`/api/v1/system/users/${deleted.userId}`)
    await refusedEverywhere(bearer(disabled.token))
    await refusedEverywhere(bearer(deleted.token))
  })

  test('to the other logins of somebody who changed the password', async () => {
    const client = await administrator()
    const body = new URLSearchParams({ username: client.email, password: testPassword })
    const other = (await platform.anonymous('POST', '/auth/jwt/login', { body })).body.access_token
    const change = { current_password: testPassword, new_password: 'another good password' }
    expect((await client.post('/users/me/password', change)).status).toBe(204)
    await refusedEverywhere(bearer(other))
    expect((await client.get('/users/me')).status).toBe(200)
  })

  test('to a token of ours for another use, of another key, or that names the session of somebody else', async () => {
    const [client, victim] = [await administrator(), await administrator()]
    const signer = tokenSigner(await installationKey(platform.dataDir, 'login.key'))
    const { sessionId } = (await signer.verify(client.token))!
    const forged = [
      await signer.seal({ sub: client.userId, jti: sessionId }, 60),
      await tokenSigner(new Uint8Array(32)).sign({ userId: client.userId, sessionId, expiresAt: null }),
      await signer.sign({ userId: victim.userId, sessionId, expiresAt: null }),
      await signer.sign({ userId: client.userId, sessionId: victim.userId, expiresAt: null }),
      await signer.sign({ userId: client.userId, sessionId, expiresAt: new Date(Date.now() - 1000) }),
    ]
    for (const token of forged) await refusedEverywhere(bearer(token))
  })

  test('to tokens of the tracker and of the registry, whoever holds them', async () => {
    const client = await administrator()
    for (const path of ['/api/v1/tracker/tokens', '/api/v1/registry/tokens']) {
      const { token } = (await client.post(path, { name: 'mine' })).body
      expect(token).toEqual(expect.any(String))
      await refusedEverywhere(bearer(token))
      const basic = Buffer.from(`${client.email}:${token}`).toString('base64')
      await refusedEverywhere({ authorization: `Basic ${basic}` })
    }
  })
})
