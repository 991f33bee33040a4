import type { NotificationRow } from './notifications.store.ts'

/** A notification is either of the tenant it was asked for in, or of the installation. */
export const notificationView = (row: NotificationRow, tenantCode: string) => ({
  id: row.id,
  group: row.groupName,
  title: row.title,
  body: row.body,
  link: row.link,
  tenant: row.tenantId ? tenantCode : null,
  read: row.readAt !== null,
  created_at: row.createdAt,
  read_at: row.readAt,
})
