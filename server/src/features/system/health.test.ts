import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { eventually, startTestPlatform, type TestPlatform, testPassword } from '../../../test/harness.ts'
import { loadConfig } from '../../platform/config.ts'
import { transaction } from '../../platform/db/transaction.ts'
import { newId } from '../../platform/ids.ts'
import { diagnose } from './health.service.ts'
import { hygieneFindings } from './hygiene.ts'

let platform: TestPlatform
beforeAll(async () => {
  platform = await startTestPlatform()
})
afterAll(() => platform?.stop())

interface Component {
  name: string
  status: string
}

describe('GET /api/v1/system/health', () => {
  test('200 looks at every component, measures it, and says what to do where something is wrong', async () => {
    const { body } = await platform.admin.get('/api/v1/system/health')
    const components = new Map(body.components.map((component: Component) => [component.name, component]))
    for (const name of ['database', 'object store', 'disk space', 'runs engine', 'compute', 'mail', 'audit chain'])
      expect([...components.keys()]).toContain(name)
    expect(components.get('database')).toMatchObject({
      status: 'ok',
      version: expect.stringMatching(/^\d+\.\d+/),
      remedy: null,
    })
    expect(components.get('runs engine')).toMatchObject({ status: 'ok', detail: { workers: 1 } })
    expect(components.get('mail')).toMatchObject({ status: 'disabled', remedy: expect.stringContaining('SMTP_URL') })
  })

  test('200 says that a component is down, with the reason, and the whole with it', async () => {
    const broken = {
      name: 'broken',
      essential: true,
      remedy: 'Mend it.',
      check: async () => Promise.reject(new Error('it broke')),
    }
    const weak = { ...broken, name: 'weak', essential: false }
    const ctx = {
      ...platform.services,
      kind: 'system',
      scope: 'system',
      actor: null,
      requestId: 't',
      audit: null,
    } as const
    expect(await diagnose(ctx, [broken, weak])).toMatchObject({
      status: 'down',
      components: [
        { name: 'broken', status: 'down', message: 'it broke', remedy: 'Mend it.' },
        { name: 'weak', status: 'degraded' },
      ],
    })
    expect((await diagnose(ctx, [weak])).status).toBe('degraded')
  })

  test('200 tells what is unsafe in this very configuration, and shows no secret', async () => {
    const { body, text } = await platform.admin.get('/api/v1/system/health')
    const keys = body.hygiene.map((finding: { key: string }) => finding.key)
    expect(keys).toEqual(['endless_sessions', 'admin_password_in_environment', 'single_administrator', 'no_mail'])
    expect(text).not.toContain(testPassword)
  })
})

describe('configuration hygiene', () => {
  const safe = {
    PLATFORM_MLOPS_AUTH_TOKEN_LIFETIME: '3600',
    PLATFORM_MLOPS_PUBLIC_URL: 'https://mlops.example',
    PLATFORM_MLOPS_SMTP_URL: 'smtp://mail.example',
  }
  const keysOf = (env: Record<string, string>, surroundings: object = {}) => {
    const config = loadConfig({ ...safe, ...env })
    const around = {
      publicUrl: config.publicUrl ?? 'http://127.0.0.1:8080',
      dataFolderMode: 0o700,
      administrators: 2,
      ...surroundings,
    }
    return hygieneFindings(config, around).map(({ key }) => key)
  }

  test('finds nothing where all is well', () => {
    expect(keysOf({})).toEqual([])
  })

  test.each([
    ['weak_admin_password', { PLATFORM_MLOPS_ADMIN_PASSWORD: 'changeme123' }, {}],
    ['plain_http', { PLATFORM_MLOPS_HOST: '0.0.0.0', PLATFORM_MLOPS_PUBLIC_URL: 'http://mlops.example' }, {}],
    ['plain_http', { PLATFORM_MLOPS_HOST: '127.0.0.1', PLATFORM_MLOPS_PUBLIC_URL: 'http://mlops.example' }, {}],
    ['open_data_folder', {}, { dataFolderMode: 0o755 }],
    ['embedded_database_shared', { PLATFORM_MLOPS_ROLES: 'web' }, {}],
    ['insecure_cookie', { PLATFORM_MLOPS_COOKIE_SECURE: 'false' }, {}],
    ['endless_sessions', { PLATFORM_MLOPS_AUTH_TOKEN_LIFETIME: '0' }, {}],
    ['admin_password_in_environment', { PLATFORM_MLOPS_ADMIN_PASSWORD: 'a long unguessable one' }, {}],
    ['trusted_proxy_exposed', { PLATFORM_MLOPS_TRUST_PROXY: 'true', PLATFORM_MLOPS_HOST: '0.0.0.0' }, {}],
    ['single_administrator', {}, { administrators: 1 }],
    ['no_mail', { PLATFORM_MLOPS_SMTP_URL: '' }, {}],
  ])('finds %s', (key, env, surroundings) => {
    expect(keysOf(env as unknown as Record<string, string>, surroundings)).toContain(key)
  })

  test('is content with plain http on loopback', () => {
    expect(keysOf({ PLATFORM_MLOPS_PUBLIC_URL: '' })).toEqual([])
  })
})

describe('housekeeping', () => {
  const run = async (values: object, log: string | null, tenantId: string | null) => {
    const id = newId()
    await transaction(platform.services.db, 'system', async (tx) => {
      await tx
        .insertInto('runs')
        .values({ id, tenantId, kind: 'test.made', input: '{}', ...values })
        .execute()
      if (log)
        await tx
          .insertInto('runLogs')
          .values({ runId: id, tenantId, byteOffset: 0, byteLength: log.length, text: log })
          .execute()
    })
    return id
  }
  const left = (table: 'runs' | 'runLogs', ids: string[]) =>
    transaction(platform.services.db, 'system', async (tx) => {
      const column = table === 'runs' ? 'id' : 'runId'
      const rows = await tx
        .selectFrom(table)
        .select(column as 'id')
        .where(column as 'id', 'in', ids)
        .execute()
      return rows.map((row) => (row as Record<string, string>)[column]!)
    })

  test('erases logs as each tenant keeps them, and runs of schedules; what is live, young or kept for ever stays', async () => {
    const made = async (code: string, logs: number) =>
      (await platform.admin.post('/api/v1/settings/tenants', { code, name: code, retention: { logs } })).body
        .id as string
    const [week, ever] = [await made('week', 7), await made('ever', 0)]
    const daysAgo = (days: number) => new Date(Date.now() - days * 86_400_000)
    const ended = (days: number) => ({ state: 'succeeded', endedAt: daysAgo(days) })
    const old = await run(ended(8), 'old', week)
    const young = await run(ended(6), 'young', week)
    const kept = await run(ended(1000), 'kept', ever)
    const live = await run({ state: 'running', owner: 1_000_000, startedAt: daysAgo(50) }, 'live', ever)
    const scheduled = (values: object) => run({ ...values, subject: `schedule:${newId()}` }, null, null)
    const gone = await scheduled(ended(2))
    const recent = await scheduled(ended(0.5))
    const failed = await scheduled({ state: 'failed', endedAt: daysAgo(2) })
    const { userId } = platform.admin
    const expired = { id: newId(), userId, expiresAt: daysAgo(1) }
    const lasting = { id: newId(), userId, expiresAt: daysAgo(-1) }
    await transaction(platform.services.db, 'system', (tx) =>
      tx.insertInto('sessions').values([expired, lasting]).execute(),
    )
    await transaction(platform.services.db, 'system', (tx) =>
      tx
        .updateTable('schedules')
        .set({ nextAt: new Date(0) })
        .where('name', '=', 'system.housekeeping')
        .execute(),
    )
    await eventually(async () => (await left('runs', [gone])).length === 0)
    expect(await left('runLogs', [old, young, kept, live])).toEqual(expect.arrayContaining([young, kept, live]))
    expect(await left('runLogs', [old])).toEqual([])
    expect(await left('runs', [old, recent, failed])).toHaveLength(3)
    const sessions = await transaction(platform.services.db, 'system', (tx) =>
      tx.selectFrom('sessions').select('id').where('id', 'in', [expired.id, lasting.id]).execute(),
    )
    expect(sessions).toEqual([{ id: lasting.id }])
  })
})

describe('/healthz, /readyz and /docs', () => {
  test('200 without a credential', async () => {
    expect((await platform.anonymous('GET', '/healthz')).body).toEqual({ status: 'ok' })
    expect((await platform.anonymous('GET', '/readyz')).body).toEqual({ status: 'ok' })
    expect((await platform.anonymous('GET', '/docs')).headers.get('content-type')).toContain('text/html')
    expect((await platform.anonymous('GET', '/docs/assets/swagger-ui.css')).status).toBe(200)
    expect((await platform.anonymous('GET', '/docs/assets/package.json')).status).toBe(404)
  })
})
