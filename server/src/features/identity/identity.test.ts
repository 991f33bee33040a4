import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startTestPlatform, type TestPlatform, testPassword } from '../../../test/harness.ts'

let platform: TestPlatform
beforeAll(async () => {
  platform = await startTestPlatform()
})
afterAll(() => platform?.stop())

const login = (username: string, password: string, transport = 'jwt') =>
  platform.anonymous('POST', `/auth/${transport}/login`, { body: new URLSearchParams({ username, password }) })

describe('POST /auth/jwt/login', () => {
  test('200 gives exactly a bearer token, not to be stored', async () => {
    const reply = await login('admin@example.com', testPassword)
    expect(reply.status).toBe(200)
    expect(Object.keys(reply.body)).toEqual(['access_token', 'token_type'])
    expect(reply.headers.get('cache-control')).toBe('no-store')
  })

  test('200 takes the address in any case and a multipart form too', async () => {
    const body = new FormData()
    body.set('username', 'ADMIN@example.com')
    body.set('password', testPassword)
    expect((await platform.anonymous('POST', '/auth/jwt/login', { body })).status).toBe(200)
  })

  test('400 is the same for a wrong password and an unknown account', async () => {
    const wrong = await login('admin@example.com', 'not the password')
    const unknown = await login('nobody@example.com', 'not the password')
    for (const reply of [wrong, unknown]) {
      expect(reply.status).toBe(400)
      expect(reply.body).toMatchObject({ code: 'bad_request', detail: 'LOGIN_BAD_CREDENTIALS' })
    }
    expect({ ...wrong.body, error_id: 0 }).toEqual({ ...unknown.body, error_id: 0 })
  })

  test('422 names a missing field, also when the body is JSON', async () => {
    const json = await platform.anonymous('POST', '/auth/jwt/login', { json: { username: 'a', password: 'b' } })
    expect(json.status).toBe(422)
    const missing = await platform.anonymous('POST', '/auth/jwt/login', {
      body: new URLSearchParams({ username: 'a@b.c' }),
    })
    expect(missing.body.detail).toEqual([{ loc: ['body', 'password'], msg: 'is required', type: 'missing' }])
  })

  test('422 for another grant than that of a password; what OAuth clients send besides is ignored', async () => {
    const form = { username: 'admin@example.com', password: testPassword, scope: 'x', client_id: 'y' }
    const withGrant = (grant_type: string) =>
      platform.anonymous('POST', '/auth/jwt/login', { body: new URLSearchParams({ ...form, grant_type }) })
    expect((await withGrant('password')).status).toBe(200)
    expect((await withGrant('refresh_token')).body.detail[0].loc).toEqual(['body', 'grant_type'])
  })

  test('429 after ten failures in a minute, for that account alone', async () => {
    for (let i = 0; i < 10; i++) await login('victim@example.com', 'guess')
    const reply = await login('victim@example.com', 'guess')
    expect(reply.status).toBe(429)
    expect(Number(reply.headers.get('retry-after'))).toBeGreaterThan(0)
    expect((await login('admin@example.com', testPassword)).status).toBe(200)
  })
})

describe('POST /auth/cookie/login', () => {
  test('204 sets the cookie, which signs in and is ended by logout', async () => {
    const reply = await login('admin@example.com', testPassword, 'cookie')
    expect(reply.status).toBe(204)
    expect(reply.text).toBe('')
    const header = reply.headers.get('set-cookie')!
    expect(header).toMatch(/^platformauth=[\w.-]+; Path=\/; HttpOnly; SameSite=Lax$/)
    const cookie = header.split(';')[0]!
    expect((await platform.anonymous('GET', '/users/me', { headers: { cookie } })).status).toBe(200)
    const logout = await platform.anonymous('POST', '/auth/cookie/logout', { headers: { cookie } })
    expect(logout.status).toBe(204)
    expect(logout.headers.get('set-cookie')).toContain('platformauth=""; Path=/; HttpOnly; SameSite=Lax; Max-Age=0')
    expect((await platform.anonymous('GET', '/users/me', { headers: { cookie } })).status).toBe(401)
  })

  test('403 keeps out writes that a page of another origin sends with the cookie', async () => {
    const cookie = (await login('admin@example.com', testPassword, 'cookie')).headers.get('set-cookie')!.split(';')[0]!
    const from = (headers: Record<string, string>) =>
      platform.anonymous('PATCH', '/users/me', { json: {}, headers: { cookie, ...headers } })
    expect((await from({ origin: 'https://evil.example' })).status).toBe(403)
    expect((await from({ 'sec-fetch-site': 'cross-site' })).status).toBe(403)
    expect((await from({ origin: platform.url })).status).toBe(200)
    expect((await from({})).status).toBe(200)
  })

  test('200 with a stale bearer token beside a good cookie', async () => {
    const cookie = (await login('admin@example.com', testPassword, 'cookie')).headers.get('set-cookie')!.split(';')[0]!
    const reply = await platform.anonymous('GET', '/users/me', { headers: { cookie, authorization: 'Bearer stale' } })
    expect(reply.status).toBe(200)
  })
})

describe('POST /auth/jwt/logout', () => {
  test('204 ends this login at once, and no other; 401 without one', async () => {
    const token = (await login('admin@example.com', testPassword)).body.access_token
    const headers = { authorization: `Bearer ${token}` }
    expect((await platform.anonymous('POST', '/auth/jwt/logout', { headers })).status).toBe(204)
    expect((await platform.anonymous('GET', '/users/me', { headers })).status).toBe(401)
    expect((await platform.anonymous('POST', '/auth/jwt/logout', { headers })).status).toBe(401)
    expect((await platform.admin.get('/users/me')).status).toBe(200)
  })
})

describe('/users/me', () => {
  test('401 without a credential, with the challenge', async () => {
    const reply = await platform.anonymous('GET', '/users/me')
    expect(reply.status).toBe(401)
    expect(reply.headers.get('www-authenticate')).toBe('Bearer')
    expect(Object.keys(reply.body)).toEqual(['error_id', 'code', 'message', 'detail'])
  })

  test('PATCH changes only what is present and drops what nobody may set (mass assignment)', async () => {
    const member = await platform.member('default', 'VIEWER')
    await member.patch('/users/me', { full_name: 'Ada', phone: '1' })
    const reply = await member.patch('/users/me', { phone: null, is_superuser: true, email: 'x@y.z' })
    expect(reply.body).toMatchObject({ full_name: 'Ada', phone: null, is_superuser: false, email: member.email })
  })

  test('412 when it was changed since it was read', async () => {
    const member = await platform.member('default', 'VIEWER')
    const etag = (await member.get('/users/me')).headers.get('etag')!
    expect((await member.get('/users/me', { headers: { 'if-none-match': etag } })).status).toBe(304)
    expect((await member.patch('/users/me', { phone: '2' }, { headers: { 'if-match': etag } })).status).toBe(200)
    expect((await member.patch('/users/me', { phone: '3' }, { headers: { 'if-match': etag } })).status).toBe(412)
  })

  test('POST password ends the other logins and keeps this one', async () => {
    const member = await platform.member('default', 'VIEWER')
    const other = (await login(member.email, testPassword)).body.access_token
    const wrong = await member.post('/users/me/password', {
      current_password: 'nope nope',
      new_password: 'a new secret',
    })
    expect(wrong.body).toMatchObject({ code: 'bad_request', detail: 'PASSWORD_BAD_CURRENT' })
    const weak = await member.post('/users/me/password', { current_password: testPassword, new_password: member.email })
    expect(weak.body.detail.code).toBe('UPDATE_USER_INVALID_PASSWORD')
    const done = await member.post('/users/me/password', {
      current_password: testPassword,
      new_password: 'a new secret',
    })
    expect(done.status).toBe(204)
    expect((await member.get('/users/me')).status).toBe(200)
    const stale = await platform.anonymous('GET', '/users/me', { headers: { authorization: `Bearer ${other}` } })
    expect(stale.status).toBe(401)
  })
})

describe('/users/{id}', () => {
  test('403 beats 404 for everybody but global administrators', async () => {
    const member = await platform.member('default', 'ADMIN')
    expect((await member.get('/users/no-such-id')).status).toBe(403)
    expect((await platform.admin.get('/users/no-such-id')).status).toBe(404)
  })

  test('PATCH and DELETE: address clash, own account, last administrator', async () => {
    const member = await platform.member('default', 'VIEWER')
    const clash = await platform.admin.patch(`/users/${member.userId}`, { email: 'admin@example.com' })
    expect(clash.body).toMatchObject({ code: 'bad_request', detail: 'UPDATE_USER_EMAIL_ALREADY_EXISTS' })
    const last = await platform.admin.patch(`/users/${platform.admin.userId}`, { is_superuser: false })
    expect(last.status).toBe(409)
    expect((await platform.admin.delete(`/users/${platform.admin.userId}`)).status).toBe(400)
    const off = await platform.admin.patch(`/users/${member.userId}`, { is_active: false })
    expect(off.body.is_active).toBe(false)
    expect((await member.get('/users/me')).status).toBe(401)
    expect((await platform.admin.delete(`/users/${member.userId}`)).status).toBe(204)
    expect((await platform.admin.get(`/users/${member.userId}`)).status).toBe(404)
  })
})

describe('every address', () => {
  test('404 where there is nothing, 405 with Allow where another method is', async () => {
    expect((await platform.anonymous('GET', '/nowhere')).body.code).toBe('not_found')
    const reply = await platform.anonymous('DELETE', '/auth/jwt/login')
    expect([reply.status, reply.headers.get('allow'), reply.body.code]).toEqual([405, 'POST', 'method_not_allowed'])
  })

  test('422 for a body that is not JSON, 415 for another type, and 401 before either', async () => {
    const broken = { body: '{"a":', headers: { 'content-type': 'application/json' } }
    expect((await platform.anonymous('PATCH', '/users/me', broken)).status).toBe(401)
    const reply = await platform.admin.call('PATCH', '/users/me', broken)
    expect(reply.body.detail[0].type).toBe('json_invalid')
    const xml = await platform.admin.call('PATCH', '/users/me', {
      body: '<a/>',
      headers: { 'content-type': 'text/xml' },
    })
    expect(xml.status).toBe(415)
  })
})
