import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Writable } from 'node:stream'
import pg from 'pg'
import { pino } from 'pino'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Instance, startInstance } from '../src/instance.ts'
import { loadConfig } from '../src/platform/config.ts'
import { createTestDatabase, type TestDatabase } from './database.ts'
import { listen } from './event-client.ts'
import { signIn, type TestClient, testPassword } from './harness.ts'

// What a person gives or is given in confidence stands nowhere afterwards: not in the log, not in any row of the
// database, not in an answer or an event. And nobody writes lines into the log that are not the server's own.

let database: TestDatabase
let dataDir: string
let instance: Instance
let admin: TestClient
const lines: string[] = []
beforeAll(async () => {
  database = await createTestDatabase()
  dataDir = await mkdtemp(join(tmpdir(), 'platform-mlops-'))
  const sink = new Writable({
    write(chunk, _encoding, done) {
      lines.push(...String(chunk).split('\n').filter(Boolean))
      done()
    },
  })
  const config = loadConfig({
    PLATFORM_MLOPS_PORT: '0',
    PLATFORM_MLOPS_DATA_DIR: dataDir,
    PLATFORM_MLOPS_ADMIN_PASSWORD: testPassword,
  })
  instance = await startInstance(config, { database, log: pino({ level: 'trace' }, sink), strict: true })
  admin = await signIn(instance.url!, config.adminEmail, 'default')
})
afterAll(async () => {
  await instance?.stop()
  await database?.drop()
  await rm(dataDir, { recursive: true, force: true })
})

/** Tables in which any column of any row holds the text. */
async function tablesWith(text: string): Promise<string[]> {
  const client = new pg.Client({ connectionString: database.ownerUrl })
  await client.connect()
  try {
    await client.query("set app.system = 'on'")
    const { rows: tables } = await client.query<{ name: string }>(
      `select tablename as name from pg_tables where schemaname = 'public'`,
    )
    const found: string[] = []
    for (const { name } of tables) {
      const { rows } = await client.query(`select 1 from ${name} t where t::text like '%' || $1 || '%' limit 1`, [text])
      if (rows.length > 0) found.push(name)
    }
    return found
  } finally {
    await client.end()
  }
}

describe('secrets', () => {
  test('given at login, with accounts and passwords, and those that tokens are, stand nowhere afterwards', async () => {
    const first = 'the First passphrase 7319'
    const second = 'the Second passphrase 8426'
    const email = 'keeper@example.com'
    const stream = await listen(instance.url!, admin, '/api/v1/stream/notifications')
    const answers: string[] = []
    const send = async (client: TestClient, method: string, path: string, json: object) => {
      const reply = await client.call(method, path, { json })
      answers.push(reply.text)
      return reply
    }
    const account = { email, password: first, tenant_code: 'default', role: 'ADMIN' }
    expect((await send(admin, 'POST', '/api/v1/system/users/create', account)).status).toBe(200)
    // Refused ones leave a row in the audit, or a line in the log, too.
    await send(admin, 'POST', '/api/v1/system/users/create', account)
    await send(admin, 'POST', '/api/v1/settings/users/create', { ...account, email: 'no address' })
    const keeper = await logIn(email, first)
    await send(keeper, 'POST', '/users/me/password', { current_password: second, new_password: second })
    await send(keeper, 'POST', '/users/me/password', { current_password: first, new_password: second })
    await send(admin, 'PATCH', `/users/${keeper.userId}`, { password: first })
    const again = await logIn(email, first)
    const tokens: string[] = []
    for (const path of ['/api/v1/tracker/tokens', '/api/v1/registry/tokens']) {
      tokens.push((await again.post(path, { name: 'mine' })).body.token)
      answers.push((await again.get(path)).text)
    }
    for (const path of ['/api/v1/settings/audit?page_size=200', '/api/v1/system/audit?page_size=200', '/users/me'])
      answers.push((await admin.get(path)).text)
    answers.push((await admin.get('/api/v1/system/health')).text)

    const secrets = [first, second, testPassword, keeper.token, again.token, admin.token, ...tokens]
    expect(secrets.every((secret) => typeof secret === 'string' && secret.length > 10)).toBe(true)
    expect(lines.length).toBeGreaterThan(10)
    for (const secret of secrets) {
      expect(
        lines.filter((line) => line.includes(secret)),
        'in the log',
      ).toEqual([])
      expect(await tablesWith(secret), 'in the database').toEqual([])
      expect(
        answers.filter((answer) => answer.includes(secret)),
        'in an answer',
      ).toEqual([])
      expect(stream.text()).not.toContain(secret)
    }
    // The look itself sees what is there.
    expect(await tablesWith(email)).toEqual(expect.arrayContaining(['users', 'audit_events']))
    stream.close()
  })

  async function logIn(email: string, password: string): Promise<TestClient> {
    const body = new URLSearchParams({ username: email, password })
    const reply = await fetch(`${instance.url}/auth/jwt/login`, { method: 'POST', body })
    const { access_token: token } = (await reply.json()) as { access_token: string }
    const headers = { authorization: `Bearer ${token}`, 'x-tenant': 'default' }
    const me = (await (await fetch(`${instance.url}/users/me`, { headers })).json()) as { id: string }
    const call: TestClient['call'] = (method, path, options = {}) =>
      admin.call(method, path, { ...options, headers: { ...options.headers, ...headers } })
    return {
      ...admin,
      ...{ email, token, userId: me.id, call },
      get: (path, options) => call('GET', path, options),
      post: (path, json, options) => call('POST', path, { json, ...options }),
    }
  }
})

describe('the log', () => {
  test('takes no line from outside: whatever is in addresses, headers and bodies stays inside its own', async () => {
    const forged = '{"level":"error","msg":"forged 5150"}'
    const text = `x\r\n${forged}\n\u2028${forged}\u001b[2K`
    const encoded = encodeURIComponent(text)
    await admin.get(`/api/v1/datasets/${encoded}?q=${encoded}&sort=${encoded}`)
    await admin.get(`/api/v1/${encoded}`, { headers: { 'user-agent': forged, 'x-request-id': forged } })
    await admin.post('/api/v1/datasets/drafts', { name: text })
    await admin.post('/api/v1/system/users/invite', { email: text, tenant_code: text, role: text })
    await fetch(`${instance.url}/auth/jwt/login`, {
      method: 'POST',
      body: new URLSearchParams({ username: text, password: text }),
    })
    for (const line of lines) {
      const entry = JSON.parse(line) as { msg?: string }
      expect(entry.msg).not.toBe('forged 5150')
      // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
      expect(line).not.toMatch(/[\u0000-\u001f]/)
    }
  })
})
