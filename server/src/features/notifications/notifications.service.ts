import { audited, writeAudit } from '../../platform/audit.ts'
import type { TenantCtx, UserCtx } from '../../platform/context.ts'
import { transaction as scoped, type Tx } from '../../platform/db/transaction.ts'
import { invalid, notFound } from '../../platform/errors.ts'
import { publish } from '../../platform/events/events.ts'
import type { PageQuery } from '../../platform/http/lists.ts'
import { read, transaction } from '../../platform/transaction.ts'
import {
  countUnreadOf,
  countUnreadPerTenant,
  findPreferences,
  listNotifications,
  markAllRead,
  markRead,
  type Preferences,
  replacePreferences,
} from './notifications.store.ts'
import { channelsOf, type NotificationGroup } from './preferences.ts'

/**
 * A person's own rows, those about the installation among them, which no tenant owns: every query names the person,
 * and the tenant was let through by the gate.
 */
const personal = <T>(ctx: TenantCtx, work: (tx: Tx) => Promise<T>): Promise<T> => scoped(ctx.db, 'system', work)

/** The same for a change, which takes its audit row along. */
const personalChange = <T>(ctx: TenantCtx, work: (tx: Tx) => Promise<T>): Promise<T> =>
  personal(ctx, async (tx) => {
    const result = await work(tx)
    // A retried attempt was rolled back with its row, so the mark must not survive it.
    if (ctx.audit) ctx.audit.written = false
    await writeAudit(tx, ctx, 'success')
    return result
  })

export const ownNotifications = (ctx: TenantCtx, query: PageQuery & { unread?: boolean }) =>
  personal(ctx, (tx) =>
    listNotifications(tx, {
      userId: ctx.actor.userId,
      tenantId: ctx.tenant.id,
      ...(query.unread === undefined ? {} : { unread: query.unread }),
      limit: query.page_size,
      offset: (query.page - 1) * query.page_size,
    }),
  )

export const unreadCounts = (ctx: UserCtx) => read(ctx, (tx) => countUnreadPerTenant(tx, ctx.actor.userId))

export async function readEverything(ctx: TenantCtx): Promise<number> {
  const { userId } = ctx.actor
  audited(ctx, ctx.actor.email)
  return personalChange(ctx, async (tx) => {
    const updated = await markAllRead(tx, userId, ctx.tenant.id)
    if (updated) await announce(tx, userId, { id: null, group: null })
    return updated
  })
}

/** Throws `not_found` for what is somebody else's, too. @source contract B12.7 */
export function readOne(ctx: TenantCtx, id: string) {
  const { userId } = ctx.actor
  audited(ctx, id)
  return personalChange(ctx, async (tx) => {
    const row = await markRead(tx, id, userId, ctx.tenant.id)
    if (!row) throw notFound('There is no such notification.')
    await announce(tx, userId, { id, group: row.groupName })
    return row
  })
}

/** Other windows of the same person follow. */
async function announce(tx: Tx, userId: string, what: { id: string | null; group: string | null }): Promise<void> {
  const unread = (await countUnreadOf(tx, [userId])).get(userId) ?? 0
  await publish(tx, `notifications:${userId}`, 'notification', { ...what, unread })
}

export const ownPreferences = (ctx: UserCtx, groups: NotificationGroup[]) =>
  read(ctx, async (tx) => {
    const prefs = (await findPreferences(tx, [ctx.actor.userId])).get(ctx.actor.userId)
    return groups.map((group) => ({ group: group.name, title: group.title, ...channelsOf(prefs, group.name) }))
  })

/** Replaces the whole setting. @source contract B12.7 */
export async function setPreferences(ctx: UserCtx, prefs: Preferences, groups: NotificationGroup[]) {
  const known = new Set(groups.map(({ name }) => name))
  const unknown = Object.keys(prefs).filter((name) => !known.has(name))
  const msg = `is no group; use ${[...known].join(', ')}`
  if (unknown.length) throw invalid(unknown.map((name) => ({ loc: ['body', 'prefs', name], msg, type: 'value_error' })))
  const plain = Object.fromEntries(Object.entries(prefs).map(([name, { in_app, email }]) => [name, { in_app, email }]))
  audited(ctx, ctx.actor.email, { prefs: plain })
  await transaction(ctx, (tx) => replacePreferences(tx, ctx.actor.userId, plain))
  return ownPreferences(ctx, groups)
}
