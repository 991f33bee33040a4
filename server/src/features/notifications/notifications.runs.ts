import { MailRefused, type MailSender } from '../../adapters/mail/mail.ts'
import type { RetentionRule } from '../../platform/retention.ts'
import { defineRun, type RunKind, type Schedule, type StepRun, step } from '../../platform/runs/define-run.ts'
import { read, transaction } from '../../platform/transaction.ts'
import { type DueEmail, dropStaleEmails, listDueEmails, markEmail, postponeEmail } from './emails.store.ts'
import { deleteOld } from './notifications.store.ts'

const batch = 50
const erasedAtOnce = 5000
const staleHours = 24
const attemptsMax = 10
const longestWaitSeconds = 4 * 3600

type Run = StepRun<Record<string, never>>

/** Sends what people want by e-mail; whatever the mail server does not take now is tried again, ever more slowly. */
export function mailKind(mail: MailSender): RunKind {
  return defineRun<Record<string, never>>({
    kind: 'notifications.mail',
    steps: [step('send', 'Send e-mails', (s) => sendDue(s, mail))],
  })
}

async function sendDue(s: Run, mail: MailSender): Promise<void> {
  await transaction(s.ctx, (tx) => dropStaleEmails(tx, staleHours))
  for (;;) {
    const due = await read(s.ctx, (tx) => listDueEmails(tx, batch))
    for (const email of due) {
      s.signal.throwIfAborted()
      if (!(await sendOne(s, mail, email))) return
    }
    if (due.length < batch) return
  }
}

/** False when the mail server is out of reach, so that the others needn't find out one by one. */
async function sendOne(s: Run, mail: MailSender, email: DueEmail): Promise<boolean> {
  try {
    await mail.send({ id: email.id, to: email.email, ...messageOf(email, s.ctx.publicUrl) })
  } catch (error) {
    const reason = (error as Error).message.slice(0, 500)
    const refused = error instanceof MailRefused
    const hopeless = (refused && error.permanent) || email.emailAttempts + 1 >= attemptsMax
    const wait = Math.min(60 * 2 ** email.emailAttempts, longestWaitSeconds)
    await transaction(s.ctx, (tx) =>
      hopeless ? markEmail(tx, email.id, 'failed', reason) : postponeEmail(tx, email.id, wait, reason),
    )
    s.log(`${email.id}: ${hopeless ? 'given up' : `again in ${wait} s`}: ${reason}`)
    return refused
  }
  await transaction(s.ctx, (tx) => markEmail(tx, email.id, 'sent', null))
  return true
}

function messageOf({ title, body, link, tenantName }: DueEmail, publicUrl: string): { subject: string; text: string } {
  const parts = [
    title,
    body,
    link ? publicUrl + link : null,
    `-- \nModel Operations Platform${tenantName ? `, ${tenantName}` : ''}\nWhat you are told, and where: ${publicUrl}/profile`,
  ]
  return { subject: title, text: parts.filter(Boolean).join('\n\n') }
}

export const notificationRetention: RetentionRule = {
  kind: 'notifications',
  what: 'notifications',
  ofSystem: true,
  erase: (ctx, { tenantId, before }) => transaction(ctx, (tx) => deleteOld(tx, tenantId, before, erasedAtOnce)),
}

export const mailSchedule: Schedule = {
  name: 'notifications.mail',
  every: 20_000,
  kind: 'notifications.mail',
  input: {},
}
