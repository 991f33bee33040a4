import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { eventually, startTestPlatform, type TestPlatform } from '../../../test/harness.ts'
import { type MailServer, startMailServer } from '../../adapters/mail/mail-server.fixture.ts'
import { transaction } from '../../platform/db/transaction.ts'
import { notify } from './notifications.api.ts'

let mail: MailServer
let platform: TestPlatform
let acme: { id: string }
const refuse: Record<string, string> = {}
beforeAll(async () => {
  mail = await startMailServer({ refuse })
  platform = await startTestPlatform({ PLATFORM_MLOPS_SMTP_URL: mail.url, PLATFORM_MLOPS_MAIL_FROM: 'mlops@x.example' })
  acme = await platform.tenant('acme')
})
afterAll(async () => {
  await platform?.stop()
  await mail?.stop()
})

const tell = (userId: string, title: string, more: { body?: string; link?: string } = {}) =>
  transaction(platform.services.db, { tenantId: acme.id }, (tx) =>
    notify(tx, { tenantId: acme.id, group: 'admin', title, ...more, to: { userIds: [userId] } }),
  )
const stateOf = (title: string) =>
  transaction(platform.services.db, 'system', (tx) =>
    tx
      .selectFrom('notifications')
      .select(['emailState', 'emailAttempts', 'emailError', 'emailAfter'])
      .where('title', '=', title)
      .executeTakeFirst(),
  )
/** The time for the next look comes at once. */
const due = () =>
  transaction(platform.services.db, 'system', async (tx) => {
    await tx
      .updateTable('schedules')
      .set({ nextAt: new Date(0) })
      .where('name', '=', 'notifications.mail')
      .execute()
    await tx
      .updateTable('notifications')
      .set({ emailAfter: new Date(0) })
      .where('emailState', '=', 'pending')
      .execute()
  })
const sent = (title: string) => mail.messages.filter(({ data }) => data.includes(`Subject: ${title}`))

describe('e-mail', () => {
  test('brings title, text and link to who wants it, once, and not to who does not', async () => {
    const member = await platform.member('acme', 'VIEWER')
    const silent = await platform.member('acme', 'VIEWER')
    await silent.put('/api/v1/notifications/preferences', { prefs: { admin: { in_app: true, email: false } } })
    await tell(member.userId, 'Training ended', { body: 'Accuracy 0.9', link: '/experiments/1' })
    await tell(silent.userId, 'Training ended')
    await due()
    const [message] = await eventually(async () => (sent('Training ended').length ? sent('Training ended') : null))
    expect(message).toMatchObject({ from: 'mlops@x.example', to: [member.email] })
    expect(message!.data).toContain('Accuracy 0.9')
    expect(message!.data).toContain(`${platform.url}/experiments/1`)
    await due()
    await tell(member.userId, 'Something else')
    await due()
    await eventually(async () => sent('Something else').length)
    expect(sent('Training ended')).toHaveLength(1)
  })

  test('that the mail server does not take now is tried again, later each time, until it does', async () => {
    const member = await platform.member('acme', 'VIEWER')
    refuse[member.email] = '451 try again'
    await tell(member.userId, 'Drift found')
    await due()
    const waiting = await eventually(async () => {
      const state = await stateOf('Drift found')
      return state?.emailAttempts ? state : null
    })
    expect(waiting).toMatchObject({
      emailState: 'pending',
      emailAttempts: 1,
      emailError: expect.stringContaining('451'),
    })
    delete refuse[member.email]
    await due()
    await eventually(async () => (await stateOf('Drift found'))?.emailState === 'sent')
    expect(sent('Drift found')).toHaveLength(1)
  })

  test('that it never takes is given up, and the others still go', async () => {
    const gone = await platform.member('acme', 'VIEWER')
    const member = await platform.member('acme', 'VIEWER')
    refuse[gone.email] = '550 no such mailbox'
    await tell(gone.userId, 'To nobody')
    await tell(member.userId, 'To somebody')
    await due()
    await eventually(async () => (await stateOf('To nobody'))?.emailState === 'failed')
    await eventually(async () => (await stateOf('To somebody'))?.emailState === 'sent')
  })

  test('is not sent for what was read meanwhile', async () => {
    const member = await platform.member('acme', 'VIEWER')
    await tell(member.userId, 'Read before')
    const { id } = (await member.get('/api/v1/notifications')).body.items[0]
    await member.post(`/api/v1/notifications/${id}/read`)
    await due()
    await eventually(async () => (await stateOf('Read before'))?.emailState === 'none')
    expect(sent('Read before')).toEqual([])
  })

  test('reaches nobody who has left the tenant meanwhile', async () => {
    const stayed = await platform.member('acme', 'VIEWER')
    const left = await platform.member('acme', 'VIEWER')
    await transaction(platform.services.db, { tenantId: acme.id }, async (tx) => {
      const to = { userIds: [left.userId, stayed.userId] }
      await notify(tx, { tenantId: acme.id, group: 'admin', title: 'Among ourselves', to })
      await tx.deleteFrom('memberships').where('userId', '=', left.userId).execute()
    })
    await due()
    await eventually(async () => sent('Among ourselves').length > 0)
    await due()
    const states = await transaction(platform.services.db, 'system', (tx) =>
      tx.selectFrom('notifications').select(['userId', 'emailState']).where('title', '=', 'Among ourselves').execute(),
    )
    expect(Object.fromEntries(states.map(({ userId, emailState }) => [userId, emailState]))).toMatchObject({
      [left.userId]: 'pending',
    })
    expect(sent('Among ourselves').map(({ data }) => data.includes(left.email))).toEqual([false])
  })
})
