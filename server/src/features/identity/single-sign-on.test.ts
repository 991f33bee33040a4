import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startTestPlatform, type TestPlatform } from '../../../test/harness.ts'
import { transaction } from '../../platform/db/transaction.ts'
import { entitlementOf, parseGroupRoles } from './group-roles.ts'
import { Browser, client, startIdentityProvider, type TestProvider } from './identity-provider.fixture.ts'

let provider: TestProvider
let platform: TestPlatform
beforeAll(async () => {
  provider = await startIdentityProvider()
  platform = await startTestPlatform({
    PLATFORM_MLOPS_OIDC_ISSUER: provider.issuer,
    PLATFORM_MLOPS_OIDC_CLIENT_SECRET: client.secret,
    PLATFORM_MLOPS_OIDC_SCOPES: 'openid email profile groups',
    PLATFORM_MLOPS_OIDC_GROUP_ROLES: 'vision=acme:DEVELOPER;leads=acme:MAINTAINER;ops=other:OPERATOR;root=*',
  })
  provider.admit(`${platform.url}/auth/oidc/callback`)
  await platform.tenant('acme')
  await platform.tenant('other')
})
afterAll(async () => {
  await platform?.stop()
  await provider?.stop()
})

const start = (returnTo = '/') => `${platform.url}/auth/oidc/login?return_to=${encodeURIComponent(returnTo)}`

async function signIn(person: string, browser = new Browser()) {
  const { response } = await browser.signIn(start(), person)
  const token = browser.cookies(platform.url).get('platformauth')
  const call = (path: string, headers: Record<string, string> = {}) =>
    platform.anonymous('GET', path, { headers: { cookie: `platformauth=${token}`, ...headers } })
  return { response, call, token }
}

const tenantsOf = async (call: Awaited<ReturnType<typeof signIn>>['call']) =>
  Object.fromEntries(
    (await call('/api/v1/tenants')).body.items.map((item: { code: string; role: string }) => [item.code, item.role]),
  )

describe('GET /auth/oidc/login and GET /auth/oidc/callback', () => {
  test('302 back with the login cookie: an account with the highest role of each tenant that the groups name', async () => {
    provider.people.ada = {
      email: 'ada@x.example',
      email_verified: true,
      name: 'Ada',
      groups: ['vision', 'leads', 'x'],
    }
    const { response, call } = await signIn('ada')
    expect([response.status, response.headers.get('location')]).toEqual([302, '/'])
    expect(response.headers.getSetCookie()[0]).toMatch(/^platformauth=[\w.-]+; Path=\/; HttpOnly; SameSite=Lax$/)
    expect((await call('/users/me')).body).toMatchObject({
      email: 'ada@x.example',
      full_name: 'Ada',
      is_verified: true,
    })
    expect(await tenantsOf(call)).toEqual({ acme: 'MAINTAINER' })
    const audit = (await platform.admin.get('/api/v1/system/audit?action=auth.sign_on')).body.items[0]
    expect(audit).toMatchObject({ target: 'ada@x.example', outcome: 'success', detail: { issuer: provider.issuer } })
  })

  test('follows the groups at every login: other roles, none, and a changed address is the same account', async () => {
    provider.people.eve = { email: 'eve@x.example', email_verified: true, groups: ['vision', 'ops'] }
    const first = await signIn('eve')
    expect(await tenantsOf(first.call)).toEqual({ acme: 'DEVELOPER', other: 'OPERATOR' })
    provider.people.eve = { email: 'new@x.example', email_verified: true, groups: ['ops'] }
    const second = await signIn('eve')
    expect(await tenantsOf(second.call)).toEqual({ other: 'OPERATOR' })
    expect((await second.call('/users/me')).body.id).toBe((await first.call('/users/me')).body.id)
  })

  test('makes global administrators of a group, takes it away again, and never from the last one', async () => {
    provider.people.root = { email: 'root@x.example', email_verified: true, groups: ['root'] }
    expect((await (await signIn('root')).call('/api/v1/system/users')).status).toBe(200)
    provider.people.root.groups = ['vision']
    expect((await (await signIn('root')).call('/api/v1/system/users')).status).toBe(403)
  })

  test('takes the account that has the verified address already, and leaves other roles alone', async () => {
    const member = await platform.member('other', 'VIEWER')
    await platform.admin.post('/api/v1/system/users/invite', {
      email: member.email,
      tenant_code: 'default',
      role: 'VIEWER',
    })
    provider.people.bob = { email: member.email.toUpperCase(), email_verified: true, groups: ['ops'] }
    const { call } = await signIn('bob')
    expect((await call('/users/me')).body.id).toBe(member.userId)
    expect(await tenantsOf(call)).toEqual({ default: 'VIEWER', other: 'OPERATOR' })
  })

  test('403 for an address the provider does not vouch for: nobody takes over an account by claiming it', async () => {
    provider.people.mallory = { email: platform.admin.email, email_verified: false, groups: ['vision'] }
    const { response, token } = await signIn('mallory')
    expect([response.status, token]).toEqual([403, undefined])
  })

  test('403 for somebody whose groups give nothing, who gets no account, and for one that is switched off', async () => {
    provider.people.stranger = { email: 'stranger@x.example', email_verified: true, groups: ['x'] }
    expect((await signIn('stranger')).response.status).toBe(403)
    const found = await platform.admin.get('/api/v1/system/users?q=stranger@x.example')
    expect(found.body.total).toBe(0)
    provider.people.off = { email: 'off@x.example', email_verified: true, groups: ['vision'] }
    const { call } = await signIn('off')
    await platform.admin.post(`/api/v1/system/users/${(await call('/users/me')).body.id}/disable`)
    expect((await signIn('off')).response.status).toBe(403)
  })

  test('400 for a way back that this browser did not begin, or that comes twice (login CSRF, replay)', async () => {
    provider.people.carol = { email: 'carol@x.example', email_verified: true, groups: ['vision'] }
    const victim = new Browser()
    const attacker = new Browser()
    const { address } = await attacker.signIn(start(), 'carol')
    expect((await victim.visit(address)).status).toBe(400)
    expect((await attacker.visit(address)).status).toBe(400)
    await victim.visit(start())
    expect((await victim.visit(address)).status).toBe(400)
    expect(victim.cookies(platform.url).has('platformauth')).toBe(false)
    expect((await victim.visit(`${platform.url}/auth/oidc/callback?error=access_denied`)).status).toBe(400)
  })

  test('302 to a page of our own alone, whatever was asked for (open redirect)', async () => {
    provider.people.dan = { email: 'dan@x.example', email_verified: true, groups: ['vision'] }
    const asked = ['/models/1?tab=2', 'https://evil.example/', '//evil.example', '/\\evil.example', '/a b', 'models']
    const given: (string | null)[] = []
    for (const returnTo of asked) {
      const { response } = await new Browser().signIn(start(returnTo), 'dan')
      given.push(response.headers.get('location'))
    }
    expect(given).toEqual(['/models/1?tab=2', '/', '/', '/', '/', '/'])
  })

  test('nobody signs in by password to an account that single sign-on made', async () => {
    const { passwordHash } = await transaction(platform.services.db, 'system', (tx) =>
      tx.selectFrom('users').select('passwordHash').where('email', '=', 'ada@x.example').executeTakeFirstOrThrow(),
    )
    expect(passwordHash).toMatch(/^\$argon2id\$/)
    const body = new URLSearchParams({ username: 'ada@x.example', password: '' })
    expect((await platform.anonymous('POST', '/auth/jwt/login', { body })).status).toBe(400)
  })
})

describe('groups', () => {
  const grants = parseGroupRoles('a=t:VIEWER; b=t:ADMIN;c=u:OPERATOR')

  test('give the highest role, say nothing of tenants they do not name, and are read exactly', () => {
    expect(entitlementOf(grants, ['a', 'b'])).toEqual({
      globalAdministrator: null,
      roles: new Map([
        ['t', 'ADMIN'],
        ['u', null],
      ]),
    })
    expect(entitlementOf(parseGroupRoles('x=*;y=*'), ['y']).globalAdministrator).toBe(true)
    expect(entitlementOf(parseGroupRoles('x=*'), []).globalAdministrator).toBe(false)
    expect(parseGroupRoles('cn=ml,dc=x=t:VIEWER')).toEqual([{ group: 'cn=ml,dc=x', tenantCode: 't', role: 'VIEWER' }])
    expect(() => parseGroupRoles('a=t:OWNER')).toThrow('VIEWER, OPERATOR')
    expect(() => parseGroupRoles('a')).toThrow("'a'")
  })
})
