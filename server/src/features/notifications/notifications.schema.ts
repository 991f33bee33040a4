import { Type } from 'typebox'
import { pageQuery } from '../../platform/http/lists.ts'
import { named, nullable, timestamp, uuid } from '../../platform/schema.ts'

export const Notification = named('Notification', {
  id: uuid('Identifier of the notification.'),
  group: Type.String({ description: 'Group of the preferences it belongs to.' }),
  title: Type.String({ description: 'What happened, in a line.' }),
  body: nullable(Type.String({ description: 'More about it.' })),
  link: nullable(Type.String({ description: 'Path within the console.' })),
  tenant: nullable(Type.String({ description: 'Code of the tenant; null when it is about the installation.' })),
  read: Type.Boolean({ description: 'Whether it was read.' }),
  created_at: timestamp('When it happened.'),
  read_at: nullable(timestamp('When it was read first.')),
})

export const NotificationQuery = Type.Object({
  unread: Type.Optional(Type.Boolean({ description: 'true: only unread ones; false: only read ones.' })),
  ...pageQuery,
})

export const NotificationPath = Type.Object({ notification_id: uuid('Identifier of the notification.') })

export const UnreadCount = named('UnreadCount', {
  total: Type.Integer({ minimum: 0, description: 'Unread notifications everywhere.' }),
  tenants: Type.Array(
    Type.Object({
      tenant_code: Type.String({ description: 'Code of the tenant.' }),
      tenant_name: Type.String({ description: 'Name of the tenant.' }),
      unread: Type.Integer({ minimum: 0, description: 'Unread notifications there.' }),
    }),
    { description: 'Tenants with unread notifications, by code.' },
  ),
  system: Type.Integer({ minimum: 0, description: 'Unread notifications about the installation.' }),
})

export const ReadAll = named('ReadAll', {
  updated: Type.Integer({ minimum: 0, description: 'Notifications that were unread before.' }),
})

const channels = {
  in_app: Type.Boolean({ description: 'Whether it is shown in the console.' }),
  email: Type.Boolean({ description: 'Whether it is sent by e-mail, when a mail server is configured.' }),
}

export const Preference = named('Preference', {
  group: Type.String({ description: 'Name of the group.' }),
  title: Type.String({ description: 'Name for display.' }),
  ...channels,
})

export const PreferencesBody = named('PreferencesBody', {
  prefs: Type.Record(Type.String({ maxLength: 100 }), Type.Object(channels), {
    maxProperties: 100,
    description: 'Settings per group. It replaces the whole: groups that are absent go back to their defaults.',
  }),
})
