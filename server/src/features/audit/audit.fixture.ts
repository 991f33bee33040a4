import type { TestPlatform } from '../../../test/harness.ts'
import { transaction } from '../../platform/db/transaction.ts'
import { newId } from '../../platform/ids.ts'

export interface Entry {
  at?: string
  action?: string
  actorEmail?: string
  target?: string
  detail?: unknown
}

/** Entries as the platform would have written them, at chosen times; null is the system. */
export const writeEntries = (platform: TestPlatform, tenant: { id: string; code: string } | null, entries: Entry[]) =>
  transaction(platform.services.db, 'system', (tx) =>
    tx
      .insertInto('auditEvents')
      .values(
        entries.map(({ at = '2026-01-01T00:00:00Z', action = 'test.made', detail = null, ...entry }) => ({
          id: newId(),
          at: new Date(at),
          tenantId: tenant?.id ?? null,
          tenantCode: tenant?.code ?? null,
          action,
          outcome: 'success',
          detail: JSON.stringify(detail),
          ...entry,
        })),
      )
      .execute(),
  )
