import type { MailSender } from '../../adapters/mail/mail.ts'
import { defineFeature, type Feature } from '../../platform/feature.ts'
import { notificationRoutes } from './notifications.routes.ts'
import { mailKind, mailSchedule, notificationRetention } from './notifications.runs.ts'
import type { NotificationGroup } from './preferences.ts'

/** What people are told, where they want it. The groups come from the manifests of all features. */
export function notificationsFeature(features: () => Feature[], mail: MailSender | null): Feature {
  const groups = (): NotificationGroup[] => {
    const all = features().flatMap((feature) => feature.notificationGroups ?? [])
    return [...new Map(all.map((group) => [group.name, group])).values()]
  }
  return defineFeature({
    name: 'notifications',
    operations: notificationRoutes(groups),
    runs: mail ? [mailKind(mail)] : [],
    schedules: mail ? [mailSchedule] : [],
    retention: [notificationRetention],
    healthChecks: [
      {
        name: 'mail',
        remedy: 'Set PLATFORM_MLOPS_SMTP_URL to a mail server that takes messages from here.',
        check: async () => {
          if (!mail) return { status: 'disabled', message: 'No mail server is configured; nothing is sent by e-mail.' }
          await mail.check()
          return {}
        },
      },
    ],
  })
}
