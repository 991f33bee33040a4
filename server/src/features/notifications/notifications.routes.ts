import { session, tenant } from '../../platform/http/access.ts'
import { EventStream } from '../../platform/http/event-stream.ts'
import { listView, pageView } from '../../platform/http/lists.ts'
import { type Operation, operation, raw } from '../../platform/http/operation.ts'
import { listOf, pageOf } from '../../platform/schema.ts'
import { notificationView } from './notifications.present.ts'
import {
  Notification,
  NotificationPath,
  NotificationQuery,
  Preference,
  PreferencesBody,
  ReadAll,
  UnreadCount,
} from './notifications.schema.ts'
import {
  ownNotifications,
  ownPreferences,
  readEverything,
  readOne,
  setPreferences,
  unreadCounts,
} from './notifications.service.ts'
import type { NotificationGroup } from './preferences.ts'

/** @source service §4.12, §6, contract NT-01–NT-06, ST-02 */
export const notificationRoutes = (groups: () => NotificationGroup[]): Operation[] => [
  operation({
    id: 'notifications.list',
    method: 'GET',
    path: '/api/v1/notifications',
    summary: "The caller's notifications in the current tenant and about the installation, newest first.",
    access: tenant('VIEW'),
    query: NotificationQuery,
    responses: { 200: pageOf(Notification) },
    handler: async (ctx, { query }) => {
      const { items, total } = await ownNotifications(ctx, query)
      return pageView(query, { items: items.map((row) => notificationView(row, ctx.tenant.code)), total })
    },
  }),
  operation({
    id: 'notifications.countUnread',
    method: 'GET',
    path: '/api/v1/notifications/unread-count',
    summary: "The caller's unread notifications, in total and per tenant.",
    access: session,
    responses: { 200: UnreadCount },
    handler: async (ctx) => {
      const rows = await unreadCounts(ctx)
      const tenants = rows.filter((row) => row.tenantCode !== null)
      return {
        total: rows.reduce((sum, row) => sum + row.unread, 0),
        tenants: tenants.map((row) => ({
          tenant_code: row.tenantCode!,
          tenant_name: row.tenantName!,
          unread: row.unread,
        })),
        system: rows.find((row) => row.tenantCode === null)?.unread ?? 0,
      }
    },
  }),
  operation({
    id: 'notifications.readAll',
    method: 'POST',
    path: '/api/v1/notifications/read-all',
    summary: 'Mark everything that the list of the current tenant shows as read.',
    access: tenant('VIEW'),
    audit: 'notification.read_all',
    responses: { 200: ReadAll },
    handler: async (ctx) => ({ updated: await readEverything(ctx) }),
  }),
  operation({
    id: 'notifications.read',
    method: 'POST',
    path: '/api/v1/notifications/{notification_id}/read',
    summary: 'Mark a notification as read; again is no error.',
    access: tenant('VIEW'),
    audit: 'notification.read',
    params: NotificationPath,
    responses: { 200: Notification },
    handler: async (ctx, { params }) => notificationView(await readOne(ctx, params.notification_id), ctx.tenant.code),
  }),
  operation({
    id: 'notifications.getPreferences',
    method: 'GET',
    path: '/api/v1/notifications/preferences',
    summary: 'Where the caller is told what, per group in the order of the catalogue.',
    access: session,
    responses: { 200: listOf(Preference) },
    handler: async (ctx) => listView(await ownPreferences(ctx, groups())),
  }),
  operation({
    id: 'notifications.setPreferences',
    method: 'PUT',
    path: '/api/v1/notifications/preferences',
    summary: 'Replace the whole setting.',
    access: session,
    audit: 'notification.set_preferences',
    body: PreferencesBody,
    responses: { 200: listOf(Preference) },
    handler: async (ctx, { body }) => listView(await setPreferences(ctx, body.prefs, groups())),
  }),
  operation({
    id: 'notifications.stream',
    method: 'GET',
    path: '/api/v1/stream/notifications',
    summary: "The caller's notifications as events `notification` {id, group, unread}.",
    access: session,
    responses: { 200: raw('text/event-stream', 'Server-Sent Events.') },
    handler: async (ctx) => new EventStream(`notifications:${ctx.actor.userId}`, ['notification']),
  }),
]
