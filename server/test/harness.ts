import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pino } from 'pino'
import { hashPassword } from '../src/features/identity/passwords.ts'
import { type Instance, startInstance } from '../src/instance.ts'
import { loadConfig } from '../src/platform/config.ts'
import type { Services } from '../src/platform/context.ts'
import { transaction } from '../src/platform/db/transaction.ts'
import type { Role } from '../src/platform/http/permissions.ts'
import { newId } from '../src/platform/ids.ts'
import { createTestDatabase, type TestDatabase } from './database.ts'

export const testPassword = 'correct horse battery'
let passwordHash: Promise<string> | null = null

export interface CallOptions {
  /** JSON body. */
  json?: unknown
  /** Any other body, with its content type among the headers. */
  body?: RequestInit['body']
  headers?: Record<string, string>
  /** Code of the tenant; null sends none. The client's own when absent. */
  tenant?: string | null
}

export interface Reply {
  status: number
  headers: Headers
  text: string
  // biome-ignore lint/suspicious/noExplicitAny: tests look into answers of every shape
  body: any
}

export interface TestClient {
  email: string
  userId: string
  token: string
  call(method: string, path: string, options?: CallOptions): Promise<Reply>
  get(path: string, options?: CallOptions): Promise<Reply>
  post(path: string, json?: unknown, options?: CallOptions): Promise<Reply>
  patch(path: string, json?: unknown, options?: CallOptions): Promise<Reply>
  put(path: string, json?: unknown, options?: CallOptions): Promise<Reply>
  delete(path: string, options?: CallOptions): Promise<Reply>
}

export interface TestPlatform {
  url: string
  services: Services
  instance: Instance
  database: TestDatabase
  dataDir: string
  /** Global administrator; chooses the tenant `default`. */
  admin: TestClient
  /** Makes a tenant. */
  tenant(code: string): Promise<{ id: string; code: string }>
  /** Makes a user with that role in the tenant and signs in. */
  member(tenantCode: string, role: Role): Promise<TestClient>
  /** A request without any credential. */
  anonymous(method: string, path: string, options?: CallOptions): Promise<Reply>
  stop(): Promise<void>
}

/** A whole platform on a port and a database of its own, strict about undeclared answers. */
export async function startTestPlatform(env: Record<string, string> = {}): Promise<TestPlatform> {
  const database = await createTestDatabase()
  const dataDir = await mkdtemp(join(tmpdir(), 'platform-mlops-'))
  const config = loadConfig({
    PLATFORM_MLOPS_PORT: '0',
    PLATFORM_MLOPS_DATA_DIR: dataDir,
    PLATFORM_MLOPS_ADMIN_PASSWORD: testPassword,
    ...env,
  })
  const log = pino({ level: process.env.TEST_LOG ?? 'silent' })
  const instance = await startInstance(config, { database, log, strict: true })
  const url = instance.url!
  const { services } = instance

  return {
    url,
    services,
    instance,
    database,
    dataDir,
    admin: await signIn(url, config.adminEmail, 'default'),
    anonymous: (method, path, options) => call(url, method, path, options ?? {}, {}),
    async tenant(code) {
      const id = newId()
      await transaction(services.db, 'system', (tx) =>
        tx.insertInto('tenants').values({ id, code, name: code }).execute(),
      )
      return { id, code }
    },
    async member(tenantCode, role) {
      passwordHash ??= hashPassword(testPassword)
      const hash = await passwordHash
      const userId = newId()
      const email = `${role.toLowerCase()}-${userId.slice(-6)}@${tenantCode}.example`
      await transaction(services.db, 'system', async (tx) => {
        await tx.insertInto('users').values({ id: userId, email, passwordHash: hash }).execute()
        const tenant = await tx
          .selectFrom('tenants')
          .select('id')
          .where('code', '=', tenantCode)
          .executeTakeFirstOrThrow()
        await tx.insertInto('memberships').values({ tenantId: tenant.id, userId, role }).execute()
      })
      return signIn(url, email, tenantCode)
    },
    async stop() {
      await instance.stop()
      // Works go on without the server; those of a test would do so without their folder.
      for (const { handle } of await services.adapters.compute.list()) await services.adapters.compute.remove(handle)
      await database.drop()
      await rm(dataDir, { recursive: true, force: true })
    },
  }
}

/** Signs in over the wire. */
export async function signIn(url: string, email: string, tenantCode: string | null): Promise<TestClient> {
  const form = new URLSearchParams({ username: email, password: testPassword })
  const login = await call(url, 'POST', '/auth/jwt/login', { body: form, tenant: null }, {})
  if (login.status !== 200) throw new Error(`login of ${email} gave ${login.status}: ${login.text}`)
  const token = login.body.access_token as string
  const own = { authorization: `Bearer ${token}`, ...(tenantCode ? { 'x-tenant': tenantCode } : {}) }
  const me = await call(url, 'GET', '/users/me', {}, own)
  const send = (method: string, path: string, options: CallOptions = {}) => call(url, method, path, options, own)
  return {
    email,
    token,
    userId: me.body.id,
    call: send,
    get: (path, options) => send('GET', path, options),
    post: (path, json, options) => send('POST', path, { json, ...options }),
    patch: (path, json, options) => send('PATCH', path, { json, ...options }),
    put: (path, json, options) => send('PUT', path, { json, ...options }),
    delete: (path, options) => send('DELETE', path, options),
  }
}

async function call(
  url: string,
  method: string,
  path: string,
  options: CallOptions,
  own: Record<string, string>,
): Promise<Reply> {
  const headers = new Headers({ ...own, ...options.headers })
  if (options.tenant === null) headers.delete('x-tenant')
  else if (options.tenant) headers.set('x-tenant', options.tenant)
  if (options.json !== undefined) headers.set('content-type', 'application/json')
  const body = options.json !== undefined ? JSON.stringify(options.json) : options.body
  const init: RequestInit & { duplex?: 'half' } = { method, headers, redirect: 'manual' }
  if (body !== undefined) Object.assign(init, { body, duplex: 'half' })
  const response = await fetch(url + path, init)
  const text = await response.text()
  return { status: response.status, headers: response.headers, text, body: parsed(text) }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** Asks again and again until the answer is something, at most `seconds`. */
export async function eventually<T>(look: () => Promise<T | null | undefined | false>, seconds = 60): Promise<T> {
  const end = Date.now() + seconds * 1000
  for (;;) {
    const found = await look()
    if (found) return found
    if (Date.now() > end) throw new Error(`nothing came of it within ${seconds} s`)
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}
