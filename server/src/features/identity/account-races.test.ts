import { hash as bcrypt } from '@node-rs/bcrypt'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startTestPlatform, type TestClient, type TestPlatform, testPassword } from '../../../test/harness.ts'
import { type Tx, transaction } from '../../platform/db/transaction.ts'
import { findUser, lockProvenUser, type UserRow } from './identity.store.ts'

// Two at a time: administrators who act on each other, and logins into accounts that change meanwhile.

let platform: TestPlatform
beforeAll(async () => {
  platform = await startTestPlatform()
})
afterAll(() => platform?.stop())

const system = <T>(work: (tx: Tx) => Promise<T>): Promise<T> => transaction(platform.services.db, 'system', work)
const login = (username: string, password: string) =>
  platform.anonymous('POST', '/auth/jwt/login', { body: new URLSearchParams({ username, password }) })
const sessionsOf = ({ userId }: TestClient) =>
  system((tx) => tx.selectFrom('sessions').select('id').where('userId', '=', userId).execute())
const rowOf = ({ userId }: TestClient): Promise<UserRow> => system(async (tx) => (await findUser(tx, userId))!)

async function administrator(): Promise<TestClient> {
  const member = await platform.member('default', 'ADMIN')
  await platform.admin.post(`/api/v1/system/users/${member.userId}/global-admin`)
  return member
}

/** Holds an account as a login does, until `end` is called. */
async function loginUnderWay(user: UserRow): Promise<{ end(): Promise<unknown>; held: boolean }> {
  const ready = Promise.withResolvers<boolean>()
  const go = Promise.withResolvers<void>()
  const done = system(async (tx) => {
    ready.resolve(await lockProvenUser(tx, user))
    await go.promise
    const session = { id: crypto.randomUUID(), userId: user.id, expiresAt: null, ip: '127.0.0.1', userAgent: null }
    await tx.insertInto('sessions').values(session).execute()
  })
  done.catch(ready.reject)
  return {
    held: await ready.promise,
    end: () => {
      go.resolve()
      return done
    },
  }
}

describe('the last global administrator', () => {
  const ways: [string, (actor: TestClient, target: TestClient) => Promise<{ status: number }>][] = [
    ['revoke each other', (a, b) => a.delete(`/api/v1/system/users/${b.userId}/global-admin`)],
    ['disable each other', (a, b) => a.post(`/api/v1/system/users/${b.userId}/disable`)],
    ['delete each other', (a, b) => a.delete(`/api/v1/system/users/${b.userId}`)],
    ['demote each other by PATCH', (a, b) => a.patch(`/users/${b.userId}`, { is_superuser: false })],
    ['revoke themselves', (a) => a.delete(`/api/v1/system/users/${a.userId}/global-admin`)],
  ]
  test.each(ways)('is left when the last two %s at the same time', async (_name, act) => {
    const pair = [await administrator(), await administrator()] as const
    const [one, two] = pair
    await system((tx) =>
      tx.updateTable('users').set({ isSuperuser: false }).where('id', 'not in', [one.userId, two.userId]).execute(),
    )
    const statuses = (await Promise.all([act(one, two), act(two, one)])).map(({ status }) => status)
    const left = await system((tx) =>
      tx.selectFrom('users').select('id').where('isSuperuser', '=', true).where('isActive', '=', true).execute(),
    )
    // The second is refused as it comes: no credential (401), no administrator any more (403), or the last one (409).
    expect(statuses.filter((status) => status < 300).length, statuses.join()).toBe(1)
    expect(left.length).toBe(1)
    await system((tx) =>
      tx.updateTable('users').set({ isSuperuser: true }).where('id', '=', platform.admin.userId).execute(),
    )
    await system((tx) => tx.updateTable('users').set({ isSuperuser: false }).where('id', '=', left[0]!.id).execute())
  })
})

describe('a login while the account changes', () => {
  const changes: [string, (member: TestClient) => Promise<{ status: number }>][] = [
    ['is switched off', (member) => platform.admin.post(`/api/v1/system/users/${member.userId}/disable`)],
    ['is switched off by PATCH', (member) => platform.admin.patch(`/users/${member.userId}`, { is_active: false })],
    [
      'gets another password',
      (member) => platform.admin.patch(`/users/${member.userId}`, { password: 'another secret' }),
    ],
  ]
  test.each(changes)('ends with the others when the account %s', async (_name, change) => {
    const member = await platform.member('default', 'VIEWER')
    const before = await rowOf(member)
    const underWay = await loginUnderWay(before)
    expect(underWay.held).toBe(true)
    const changing = change(member)
    await underWay.end()
    expect((await changing).status).toBe(200)
    expect(await sessionsOf(member)).toEqual([])
    // And one that checked the former password finds that it is not the account it knew.
    expect(await system((tx) => lockProvenUser(tx, before))).toBe(false)
  })

  test('ends when the person changes the password elsewhere', async () => {
    const member = await platform.member('default', 'VIEWER')
    const underWay = await loginUnderWay(await rowOf(member))
    const changing = member.post('/users/me/password', { current_password: testPassword, new_password: 'a new secret' })
    await underWay.end()
    expect((await changing).status).toBe(204)
    expect((await sessionsOf(member)).length).toBe(1)
    expect((await member.get('/users/me')).status).toBe(200)
  })

  test('leaves no session of an account that was deleted', async () => {
    const member = await platform.member('default', 'VIEWER')
    const [deleted, tried] = await Promise.all([
      platform.admin.delete(`/api/v1/system/users/${member.userId}`),
      login(member.email, testPassword),
    ])
    expect(deleted.status).toBe(200)
    expect([200, 400]).toContain(tried.status)
    expect(await sessionsOf(member)).toEqual([])
  })

  test('lets in everybody who comes at once with a hash of another system', async () => {
    const member = await platform.member('default', 'VIEWER')
    const passwordHash = await bcrypt(testPassword, 4)
    await system((tx) => tx.updateTable('users').set({ passwordHash }).where('id', '=', member.userId).execute())
    const replies = await Promise.all(Array.from({ length: 4 }, () => login(member.email, testPassword)))
    expect(replies.map(({ status }) => status)).toEqual([200, 200, 200, 200])
  })
})

describe('two administrators and one account', () => {
  test('404, never 500, to whoever comes after the deletion', async () => {
    for (let round = 0; round < 5; round++) {
      const { userId } = await platform.member('default', 'VIEWER')
      const [deleted, ...others] = await Promise.all([
        platform.admin.delete(`/api/v1/system/users/${userId}`),
        platform.admin.post(`/api/v1/system/users/${userId}/disable`),
        platform.admin.patch(`/users/${userId}`, { full_name: 'X' }),
        platform.admin.patch(`/api/v1/system/users/${userId}/role`, { tenant_code: 'default', role: 'ADMIN' }),
        platform.admin.post(`/api/v1/system/users/${userId}/global-admin`),
      ])
      expect(deleted.status).toBe(200)
      for (const { status } of others) expect([200, 404]).toContain(status)
    }
  })

  test('401, never 500, to who is deleted while asking', async () => {
    for (let round = 0; round < 5; round++) {
      const member = await platform.member('default', 'VIEWER')
      const [, ...others] = await Promise.all([
        platform.admin.delete(`/api/v1/system/users/${member.userId}`),
        member.get('/users/me'),
        member.patch('/users/me', { full_name: 'X' }),
        member.put('/api/v1/notifications/preferences', { prefs: {} }),
      ])
      for (const { status } of others) expect([200, 401]).toContain(status)
    }
  })
})
