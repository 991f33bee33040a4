import { afterEach, describe, expect, test } from 'vitest'
import { MailRefused, type MailSender } from './mail.ts'
import { type MailServer, startMailServer } from './mail-server.fixture.ts'
import { smtpMail } from './smtp.driver.ts'

let server: MailServer
let mail: MailSender
afterEach(async () => {
  mail?.close()
  await server?.stop()
})

async function start(options: Parameters<typeof startMailServer>[0] = {}) {
  server = await startMailServer(options)
  mail = smtpMail({ url: server.url, from: 'Platform <platform@x.example>' })
}

const message = { id: '0190-1', to: 'ada@x.example', subject: 'Überwacht: Modell', text: 'Zeile 1\n.\nZeile 3 ü' }

describe('SMTP', () => {
  test('hands a message over whole, whatever letters and lone dots it holds', async () => {
    await start()
    await mail.send(message)
    const [taken] = server.messages
    expect(taken).toMatchObject({ from: 'platform@x.example', to: ['ada@x.example'] })
    expect(taken!.data).toMatch(/^Message-ID: <0190-1@127\.0\.0\.1>$/m)
    expect(taken!.data).toMatch(/^Auto-Submitted: auto-generated$/m)
    const [head, body] = taken!.data.split('\n\n') as [string, string]
    expect(head).toContain('=?UTF-8?Q?=C3=9Cberwacht')
    const text = /quoted-printable/.test(head)
      ? Buffer.from(
          body
            .replace(/=\n/g, '')
            .replace(/=([0-9A-F]{2})/g, (_, hex) => String.fromCharCode(Number.parseInt(hex, 16))),
          'latin1',
        ).toString()
      : Buffer.from(body, 'base64').toString()
    expect(text.trimEnd()).toBe(message.text)
  })

  test('lets no line break in a subject or an address become a header or a recipient (header injection)', async () => {
    await start()
    await mail.send({ ...message, subject: 'a\r\nBcc: evil@x.example', to: 'ada@x.example' })
    expect(server.messages[0]!.to).toEqual(['ada@x.example'])
    expect(server.messages[0]!.data).not.toMatch(/^Bcc:/m)
    await mail.send({ ...message, to: 'bob@x.example,evil@x.example' }).catch(() => undefined)
    expect(server.messages.flatMap(({ to }) => to)).not.toContain('evil@x.example')
  })

  test('signs in with the name and password of the address', async () => {
    await start({ user: 'ada', password: 'p@ss' })
    await mail.send(message)
    expect(server.messages).toHaveLength(1)
    const wrong = smtpMail({ url: server.url.replace('p%40ss', 'wrong'), from: 'p@x.example' })
    await expect(wrong.check()).rejects.toThrow(/535/)
    wrong.close()
  })

  test('tells what will never be taken from what may be taken later', async () => {
    await start({ refuse: { 'gone@x.example': '550 no such mailbox', 'full@x.example': '452 mailbox full' } })
    const never = await mail.send({ ...message, to: 'gone@x.example' }).catch((error) => error)
    const later = await mail.send({ ...message, to: 'full@x.example' }).catch((error) => error)
    for (const error of [never, later]) expect(error).toBeInstanceOf(MailRefused)
    expect([never.permanent, later.permanent]).toEqual([true, false])
  })

  test('says what is wrong when nobody answers', async () => {
    await start()
    await server.stop()
    await expect(mail.check()).rejects.toThrow(/ECONNREFUSED/)
  })
})
