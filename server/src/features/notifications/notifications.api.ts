import type { Tx } from '../../platform/db/transaction.ts'
import { publish } from '../../platform/events/events.ts'
import type { Permission } from '../../platform/http/permissions.ts'
import { listAdministrators } from '../identity/identity.api.ts'
import { listHolders, listInsiders } from '../members/members.api.ts'
import { countUnreadOf, findPreferences, insertNotifications } from './notifications.store.ts'
import { channelsOf } from './preferences.ts'

export interface Message {
  /** One of the `notificationGroups` of the manifests. */
  group: string
  /** One line, at most 300 characters are kept. */
  title: string
  body?: string | null
  /** Path within the console, such as `/experiments/<id>`. */
  link?: string | null
  /** The same person is told once per key, however often the work is done again. */
  dedupeKey?: string
}

export interface Notice extends Message {
  tenantId: string
  to: { userIds: readonly string[] } | { permission: Permission }
}

/**
 * Tells people something, when (and only if) the transaction commits: a row each, where their preferences want it, and
 * an event on their stream. E-mail follows by a run. Who has left the tenant is not told. @source service §4.12, contract B7.5
 */
export async function notify(tx: Tx, { tenantId, to, ...message }: Notice): Promise<void> {
  const userIds =
    'permission' in to ? await listHolders(tx, tenantId, to.permission) : await listInsiders(tx, tenantId, to.userIds)
  await tell(tx, tenantId, userIds, message)
}

/** Tells every global administrator something about the installation; needs a transaction of the system. */
export async function notifyAdministrators(tx: Tx, message: Message): Promise<void> {
  await tell(tx, null, await listAdministrators(tx), message)
}

async function tell(tx: Tx, tenantId: string | null, userIds: readonly string[], message: Message): Promise<void> {
  const recipients = [...new Set(userIds)]
  const preferences = await findPreferences(tx, recipients)
  const rows = recipients.flatMap((userId) => {
    const { in_app, email } = channelsOf(preferences.get(userId), message.group)
    if (!in_app && !email) return []
    return {
      tenantId,
      userId,
      groupName: message.group,
      title: message.title.slice(0, 300),
      body: message.body?.slice(0, 4000) ?? null,
      link: message.link ?? null,
      dedupeKey: message.dedupeKey ?? null,
      inApp: in_app,
      emailState: email ? ('pending' as const) : ('none' as const),
    }
  })
  const shown = new Set(rows.filter((row) => row.inApp).map((row) => row.userId))
  const told = (await insertNotifications(tx, rows)).filter(({ userId }) => shown.has(userId))
  if (told.length === 0) return
  const unread = await countUnreadOf(
    tx,
    told.map(({ userId }) => userId),
  )
  for (const { id, userId } of told) {
    const event = { id, group: message.group, unread: unread.get(userId) ?? 0 }
    await publish(tx, `notifications:${userId}`, 'notification', event)
  }
}
