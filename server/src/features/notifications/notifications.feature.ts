import { defineFeature, type Feature } from '../../platform/feature.ts'
import { notificationRoutes } from './notifications.routes.ts'
import type { NotificationGroup } from './preferences.ts'

/** What people are told, where they want it. The groups come from the manifests of all features. */
export function notificationsFeature(features: () => Feature[]): Feature {
  const groups = (): NotificationGroup[] => {
    const all = features().flatMap((feature) => feature.notificationGroups ?? [])
    return [...new Map(all.map((group) => [group.name, group])).values()]
  }
  return defineFeature({ name: 'notifications', operations: notificationRoutes(groups) })
}
