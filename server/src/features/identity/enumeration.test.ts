import { hash as bcrypt } from '@node-rs/bcrypt'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  type Reply,
  startTestPlatform,
  type TestClient,
  type TestPlatform,
  testPassword,
} from '../../../test/harness.ts'
import { transaction } from '../../platform/db/transaction.ts'
import { newId } from '../../platform/ids.ts'
import { hashPassword } from './passwords.ts'

// Nobody learns which accounts exist: neither by what is answered nor by how much work the answer took.

let platform: TestPlatform
let viewer: TestClient
const accounts = new Map<string, string>()
beforeAll(async () => {
  platform = await startTestPlatform()
  viewer = await platform.member('default', 'VIEWER')
  const disabled = await platform.member('default', 'VIEWER')
  await platform.admin.post(`/api/v1/system/users/${disabled.userId}/disable`)
  const signedOn = await platform.member('default', 'VIEWER')
  await setHash(signedOn, await hashPassword(newId()))
  const broken = await platform.member('default', 'VIEWER')
  await setHash(broken, 'no hash of any kind')
  accounts.set('an address that nobody has', 'nobody@x.example')
  accounts.set('a wrong password', viewer.email)
  accounts.set('an account that is switched off', disabled.email)
  accounts.set('an account that single sign-on made', signedOn.email)
  accounts.set('an account without a usable hash', broken.email)
})
afterAll(() => platform?.stop())

const setHash = ({ userId }: TestClient, passwordHash: string) =>
  transaction(platform.services.db, 'system', (tx) =>
    tx.updateTable('users').set({ passwordHash }).where('id', '=', userId).execute(),
  )

const login = (username: string, password: string) =>
  platform.anonymous('POST', '/auth/jwt/login', { body: new URLSearchParams({ username, password }) })

/** Passwords that were held against a hash so far, as operators see it. */
async function checks(): Promise<Record<string, number>> {
  const { text } = await platform.anonymous('GET', '/metrics')
  const lines = text.matchAll(/^platform_mlops_password_checks_total\{algorithm="(\w+)"\} (\d+)$/gm)
  return Object.fromEntries([...lines].map(([, algorithm, count]) => [algorithm!, Number(count)]))
}

/** All that a client sees of an answer, but for what is new in each. */
const seen = ({ status, headers, body }: Reply) => ({
  status,
  names: [...headers.keys()].filter((name) => !/^(date|x-request-id)$/.test(name)).sort(),
  body: { ...body, error_id: null },
})

async function loginsCost(work: Record<string, number>): Promise<void> {
  const answers: unknown[] = []
  for (const [what, email] of accounts) {
    // The right password of an account that is switched off is no better than a wrong one.
    const password = what.includes('switched off') ? testPassword : 'not the password'
    const before = await checks()
    answers.push(seen(await login(email, password)))
    const after = await checks()
    const done = Object.fromEntries(Object.entries(after).map(([name, count]) => [name, count - before[name]!]))
    expect(done, what).toEqual(work)
  }
  expect(answers[0]).toMatchObject({ status: 400, body: { detail: 'LOGIN_BAD_CREDENTIALS' } })
  for (const answer of answers) expect(answer).toEqual(answers[0])
}

describe('POST /auth/jwt/login', () => {
  test('400 takes one Argon2 hash, and is the same answer, whatever is wrong', () =>
    loginsCost({ argon2: 1, bcrypt: 0 }))

  test('400 takes one of each kind while an account from another system is left', async () => {
    const imported = await platform.member('default', 'VIEWER')
    await setHash(imported, await bcrypt(testPassword, 4))
    accounts.set('an account from another system', imported.email)
    await loginsCost({ argon2: 1, bcrypt: 1 })
    accounts.delete('an account from another system')
    expect((await login(imported.email, testPassword)).status).toBe(200)
    await loginsCost({ argon2: 1, bcrypt: 0 })
  })
})

describe('what people without the permission ask about accounts', () => {
  const questions: [string, string, (id: string, email: string) => unknown][] = [
    ['GET', '/users/{id}', () => undefined],
    ['PATCH', '/users/{id}', () => ({ is_active: false })],
    ['DELETE', '/users/{id}', () => undefined],
    ['PATCH', '/api/v1/settings/users/{id}/role', () => ({ role: 'ADMIN' })],
    ['DELETE', '/api/v1/settings/users/{id}/role', () => undefined],
    ['POST', '/api/v1/settings/users/invite', (_id, email) => ({ email, role: 'ADMIN' })],
    ['POST', '/api/v1/settings/users/create', (_id, email) => ({ email, role: 'ADMIN', password: testPassword })],
    ['DELETE', '/api/v1/system/users/{id}', () => undefined],
    ['POST', '/api/v1/system/users/{id}/disable', () => undefined],
    ['POST', '/api/v1/system/users/invite', (_id, email) => ({ email, role: 'ADMIN', tenant_code: 'default' })],
  ]
  test.each(questions)('403 to %s %s, the same whether there is the account or not', async (method, path, body) => {
    const ask = (id: string, email: string) => {
      const json = body(id, email)
      return viewer.call(method, path.replace('{id}', id), json === undefined ? {} : { json })
    }
    const there = await ask(platform.admin.userId, platform.admin.email)
    const absent = await ask(newId(), 'nobody@x.example')
    expect(there.status).toBe(403)
    expect(seen(absent)).toEqual(seen(there))
  })

  test('404 to a tenant administrator ends no membership of others, and tells nothing of whether they exist', async () => {
    const { userId } = await platform.member((await platform.tenant('other')).code, 'VIEWER')
    const administrator = await platform.member('default', 'ADMIN')
    const there = await administrator.delete(`/api/v1/settings/users/${userId}/role`)
    const absent = await administrator.delete(`/api/v1/settings/users/${newId()}/role`)
    expect(there.status).toBe(404)
    expect(seen(absent)).toEqual(seen(there))
  })
})
