import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { eventually, startTestPlatform, type TestPlatform } from '../../../test/harness.ts'
import { type Tx, transaction } from '../../platform/db/transaction.ts'
import { newId } from '../../platform/ids.ts'

// What each tenant keeps is its own; one run erases for all features.

let platform: TestPlatform
beforeAll(async () => {
  platform = await startTestPlatform()
})
afterAll(() => platform?.stop())

const system = <T>(work: (tx: Tx) => Promise<T>) => transaction(platform.services.db, 'system', work)
const daysAgo = (days: number) => new Date(Date.now() - days * 86_400_000)

async function tenantKeeping(code: string, days: number): Promise<string> {
  const retention = { logs: days, notifications: days, imports: days, audit: days }
  return (await platform.admin.post('/api/v1/settings/tenants', { code, name: code, retention })).body.id
}

const kinds = ['logs', 'notifications', 'imports', 'audit'] as const

/** A record of every kind that came to its end so long ago; ids by kind. */
async function recordsOf(tenantId: string, days: number): Promise<Record<(typeof kinds)[number], string>> {
  const ids = { logs: newId(), notifications: newId(), imports: newId(), audit: newId() }
  const at = daysAgo(days)
  await system(async (tx) => {
    const run = { id: ids.logs, tenantId, kind: 'test.made', input: '{}', state: 'succeeded', endedAt: at }
    await tx.insertInto('runs').values(run).execute()
    const line = { runId: ids.logs, tenantId, byteOffset: 0, byteLength: 4, text: 'line' }
    await tx.insertInto('runLogs').values(line).execute()
    const about = { id: ids.notifications, tenantId, userId: platform.admin.userId, createdAt: at }
    const notice = { ...about, groupName: 'admin', title: 't', inApp: true, emailState: 'none' }
    await tx.insertInto('notifications').values(notice).execute()
    const session = { id: ids.imports, tenantId, sizeBytes: 1, chunkSize: 1, createdBy: 'x', status: 'CANCELED' }
    await tx
      .insertInto('registryImports')
      .values({ ...session, createdAt: at, endedAt: at })
      .execute()
    await tx
      .insertInto('auditEvents')
      .values({ id: ids.audit, at, tenantId, action: 'test.made', outcome: 'success' })
      .execute()
  })
  return ids
}

const left = (ids: Record<(typeof kinds)[number], string>) =>
  system(async (tx) => {
    const found = [
      await tx.selectFrom('runLogs').select('runId as id').where('runId', '=', ids.logs).executeTakeFirst(),
      await tx.selectFrom('notifications').select('id').where('id', '=', ids.notifications).executeTakeFirst(),
      await tx.selectFrom('registryImports').select('id').where('id', '=', ids.imports).executeTakeFirst(),
      await tx.selectFrom('auditEvents').select('id').where('id', '=', ids.audit).executeTakeFirst(),
    ]
    return kinds.filter((_kind, index) => found[index])
  })

const due = (name: string) =>
  system((tx) =>
    tx
      .updateTable('schedules')
      .set({ nextAt: new Date(0) })
      .where('name', '=', name)
      .execute(),
  )

describe('records that grow old', () => {
  test('go when their tenant says so, whatever their kind; younger ones and those kept for ever stay', async () => {
    const [week, ever] = [await tenantKeeping('week', 7), await tenantKeeping('ever', 0)]
    const old = await recordsOf(week, 8)
    const young = await recordsOf(week, 6)
    const kept = await recordsOf(ever, 3000)
    // Entries of the audit go only after they have their place in the chain.
    await due('audit.seal')
    await eventually(() =>
      system(async (tx) => {
        const row = await tx.selectFrom('auditEvents').select('seq').where('id', '=', old.audit).executeTakeFirst()
        return row?.seq
      }),
    )
    await due('tenants.erase')
    const entry = await eventually(
      async () => (await platform.admin.get('/api/v1/system/audit?action=retention.erased')).body.items[0],
      60,
    )
    expect(entry).toMatchObject({ target: 'records', tenant: null, outcome: 'success' })
    const counts = { 'audit entries': 1, notifications: 1, 'finished imports': 1, 'lines of run logs': 1 }
    expect(entry.detail.erased).toEqual(counts)
    expect(await left(old)).toEqual([])
    expect(await left(young)).toEqual([...kinds])
    expect(await left(kept)).toEqual([...kinds])
  })
})
