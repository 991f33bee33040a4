import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { eventually, startTestPlatform, type TestPlatform, testPassword } from '../../../test/harness.ts'
import { loadConfig } from '../../platform/config.ts'
import { recordBackup } from '../../platform/db/backup-record.ts'
import { type Tx, transaction } from '../../platform/db/transaction.ts'
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
    for (const name of [
      'database',
      'object store',
      'disk space',
      'runs engine',
      'compute',
      'mail',
      'registry',
      'audit chain',
    ])
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
    expect(keys).toEqual([
      'no_backup',
      'endless_sessions',
      'admin_password_in_environment',
      'single_administrator',
      'no_mail',
    ])
    expect(text).not.toContain(testPassword)
  })

  test('200 is content about backups for a week after one is noted, which the server itself cannot do', async () => {
    const keys = async () => {
      const { body } = await platform.admin.get('/api/v1/system/health')
      return body.hygiene.map((finding: { key: string }) => finding.key) as string[]
    }
    const note = (daysAgo: number) =>
      recordBackup(platform.database.ownerUrl, {
        takenAt: new Date(Date.now() - daysAgo * 86_400_000),
        kind: 'archive',
        sizeBytes: 1,
      })
    await note(8)
    expect(await keys()).toContain('old_backup')
    expect(await keys()).not.toContain('no_backup')
    await note(6)
    expect(await keys()).not.toContain('old_backup')
    const forged = platform.services.db.pool.query(`insert into backups (taken_at, kind) values (now(), 'other')`)
    await expect(forged).rejects.toMatchObject({ code: '42501' })
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
      lastBackupAt: new Date('2026-01-01'),
      now: new Date('2026-01-05'),
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
    ['no_backup', {}, { lastBackupAt: null }],
    ['old_backup', {}, { lastBackupAt: new Date('2025-12-25') }],
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
  const system = <T>(work: (tx: Tx) => Promise<T>) => transaction(platform.services.db, 'system', work)
  const run = async (values: object) => {
    const id = newId()
    await system((tx) =>
      tx
        .insertInto('runs')
        .values({ id, kind: 'test.made', input: '{}', ...values })
        .execute(),
    )
    return id
  }
  const left = (ids: string[]) =>
    system(async (tx) => {
      const rows = await tx.selectFrom('runs').select('id').where('id', 'in', ids).execute()
      return rows.map((row) => row.id)
    })

  test('forgets runs of schedules and logins that expired; what is live or young stays', async () => {
    const daysAgo = (days: number) => new Date(Date.now() - days * 86_400_000)
    const scheduled = (values: object) => run({ ...values, subject: `schedule:${newId()}` })
    const gone = await scheduled({ state: 'succeeded', endedAt: daysAgo(2) })
    const recent = await scheduled({ state: 'succeeded', endedAt: daysAgo(0.5) })
    const failed = await scheduled({ state: 'failed', endedAt: daysAgo(2) })
    const other = await run({ state: 'succeeded', endedAt: daysAgo(1000) })
    const { userId } = platform.admin
    const expired = { id: newId(), userId, expiresAt: daysAgo(1) }
    const lasting = { id: newId(), userId, expiresAt: daysAgo(-1) }
    await system((tx) => tx.insertInto('sessions').values([expired, lasting]).execute())
    await system((tx) =>
      tx
        .updateTable('schedules')
        .set({ nextAt: new Date(0) })
        .where('name', '=', 'system.housekeeping')
        .execute(),
    )
    await eventually(async () => (await left([gone])).length === 0)
    expect((await left([recent, failed, other])).toSorted()).toEqual([recent, failed, other].toSorted())
    const sessions = await system((tx) =>
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
