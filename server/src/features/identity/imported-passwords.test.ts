import { hash as bcrypt } from '@node-rs/bcrypt'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startTestPlatform, type TestPlatform, testPassword } from '../../../test/harness.ts'
import { transaction } from '../../platform/db/transaction.ts'
import { hashPassword, verifyPassword } from './passwords.ts'

let platform: TestPlatform
beforeAll(async () => {
  platform = await startTestPlatform()
})
afterAll(() => platform?.stop())

const login = (username: string, password: string) =>
  platform.anonymous('POST', '/auth/jwt/login', { body: new URLSearchParams({ username, password }) })

const hashOf = (userId: string) =>
  transaction(platform.services.db, 'system', (tx) =>
    tx.selectFrom('users').select('passwordHash').where('id', '=', userId).executeTakeFirstOrThrow(),
  ).then((row) => row.passwordHash)

/** A member whose hash comes from elsewhere. */
async function imported(passwordHash: string) {
  const member = await platform.member('default', 'VIEWER')
  await transaction(platform.services.db, 'system', (tx) =>
    tx.updateTable('users').set({ passwordHash }).where('id', '=', member.userId).execute(),
  )
  return member
}

describe('POST /auth/jwt/login with a hash of another system', () => {
  test.each(['$2a$', '$2b$', '$2y$'])('200 for a bcrypt hash %s, which is Argon2id from then on', async (prefix) => {
    const member = await imported((await bcrypt(testPassword, 4)).replace('$2b$', prefix))
    expect((await login(member.email, 'not the password')).status).toBe(400)
    expect(await hashOf(member.userId)).toMatch(/^\$2/)
    expect((await login(member.email, testPassword)).status).toBe(200)
    expect(await hashOf(member.userId)).toMatch(/^\$argon2id\$v=19\$m=19456,t=2,p=1\$/)
    expect((await login(member.email, testPassword)).status).toBe(200)
    expect((await login(member.email, 'not the password')).status).toBe(400)
  })

  test('400 for what is no hash, and for a cost that would hold a thread for minutes', async () => {
    for (const stored of ['', 'plain', `$2b$31$${'a'.repeat(53)}`, '$2b$04$short', '$1$md5$x']) {
      const member = await imported(stored)
      expect((await login(member.email, stored || testPassword)).status, stored).toBe(400)
    }
  })

  test('a login that renews the hash does not undo a password that was changed meanwhile', async () => {
    const member = await imported(await bcrypt(testPassword, 12))
    const other = 'another good password'
    const body = { current_password: testPassword, new_password: other }
    const [changed] = await Promise.all([member.post('/users/me/password', body), login(member.email, testPassword)])
    expect(changed.status).toBe(204)
    expect((await login(member.email, other)).status).toBe(200)
    expect((await login(member.email, testPassword)).status).toBe(400)
  })
})

test('the hash that stands in for timing lets nobody in', async () => {
  const standIn = await bcrypt('anything', 4)
  for (const stored of [null, await hashPassword('right')])
    expect(await verifyPassword(stored, 'anything', standIn)).toBe(false)
  expect(await verifyPassword(await hashPassword('right'), 'right', standIn)).toBe(true)
})
