import type { Channels, Preferences } from './notifications.store.ts'

/** Where a group is told to somebody who has chosen nothing. */
export const defaultChannels: Channels = { in_app: true, email: true }

export const channelsOf = (prefs: Preferences | undefined, group: string): Channels => prefs?.[group] ?? defaultChannels

export interface NotificationGroup {
  name: string
  title: string
}
