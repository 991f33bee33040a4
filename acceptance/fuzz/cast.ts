import { send } from './wire.ts'

/** Somebody who sends requests; nobody in particular when there is no token. */
export interface Actor {
  name: string
  email: string
  token: string | null
  /** Code of the tenant the actor chooses. */
  tenant: string
}

/** Who plays in one lane: a tenant with a member of several roles, a global administrator, a stranger, nobody. */
export interface Cast {
  actors: Actor[]
  admin: Actor
  global: Actor
  stranger: Actor
  /** Id of the administrator who made them all. */
  rootId: string
  /** Whether everybody still is who they were: operations under test end logins, roles and tenants too. */
  intact(): Promise<boolean>
  signIn(actor: Actor): Promise<boolean>
}

export interface Root {
  url: URL
  email: string
  password: string
}

const password = 'correct horse battery'

/** Makes the tenants and users of a lane, through the interface as an administrator would. Throws when it can not. */
export async function createCast(root: Root, name: string): Promise<Cast> {
  const rootToken = await login(root.url, root.email, root.password)
  if (!rootToken) throw new Error('the administrator can not sign in')
  const ask = (method: string, path: string, json?: unknown) => call(root.url, rootToken, method, path, json)
  const [home, elsewhere] = [name, `${name}-other`]
  for (const code of [home, elsewhere]) await ask('POST', '/api/v1/settings/tenants', { code, name: code })
  const join = async (role: string, tenant: string): Promise<Actor> => {
    const email = `${role.toLowerCase()}@${tenant}.example`
    await ask('POST', '/api/v1/system/users/create', { email, password, tenant_code: tenant, role })
    return { name: role, email, token: await login(root.url, email, password), tenant }
  }
  const [admin, developer, viewer, global] = [
    await join('ADMIN', home),
    await join('DEVELOPER', home),
    await join('VIEWER', home),
    { ...(await join('MAINTAINER', home)), name: 'global' },
  ]
  const stranger = { ...(await join('ADMIN', elsewhere)), name: 'stranger' }
  const { id } = await call(root.url, global.token, 'GET', '/users/me')
  await ask('POST', `/api/v1/system/users/${id}/global-admin`)
  const people = [admin, developer, viewer, global, stranger]
  return {
    actors: [...people, { name: 'nobody', email: '', token: null, tenant: home }],
    admin,
    global,
    stranger,
    rootId: (await ask('GET', '/users/me')).id,
    async intact() {
      for (const { token, tenant } of people) {
        const { items = [] } = await call(root.url, token, 'GET', '/api/v1/tenants')
        if (!items.some(({ code }: { code: string }) => code === tenant)) return false
      }
      return (await call(root.url, global.token, 'GET', '/users/me')).is_superuser === true
    },
    async signIn(actor) {
      actor.token = await login(root.url, actor.email, password)
      return actor.token !== null
    },
  }
}

async function login(url: URL, username: string, secret: string): Promise<string | null> {
  const body = Buffer.from(new URLSearchParams({ username, password: secret }).toString())
  const headers = { 'content-type': 'application/x-www-form-urlencoded' }
  const { status, text } = await send(url, { method: 'POST', target: '/auth/jwt/login', headers, body })
  return status === 200 ? JSON.parse(text).access_token : null
}

// biome-ignore lint/suspicious/noExplicitAny: a few fields of a few answers
async function call(url: URL, token: string | null, method: string, target: string, json?: unknown): Promise<any> {
  const headers: Record<string, string> = token ? { authorization: `Bearer ${token}` } : {}
  const body = json === undefined ? null : Buffer.from(JSON.stringify(json))
  if (body) headers['content-type'] = 'application/json'
  const { text } = await send(url, { method, target, headers, body })
  return text.startsWith('{') ? JSON.parse(text) : {}
}
