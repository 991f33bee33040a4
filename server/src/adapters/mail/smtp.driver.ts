import { createTransport } from 'nodemailer'
import { MailRefused, type MailSender } from './mail.ts'

export interface SmtpOptions {
  /** `smtp://user:password@host:587` (STARTTLS where offered) or `smtps://…` (TLS from the first byte). */
  url: string
  /** Address in the `From` header, a name before it allowed. */
  from: string
}

const timeoutMs = 20_000

/** Sends over SMTP, several messages over one connection. @source RFC 5321, RFC 3207 */
export function smtpMail({ url, from }: SmtpOptions): MailSender {
  const timeouts = { connectionTimeout: timeoutMs, greetingTimeout: timeoutMs, socketTimeout: timeoutMs }
  const options = { url, pool: true as const, maxConnections: 1, ...timeouts }
  // Neither files nor addresses of the web are ever read into a message.
  const transport = createTransport({ ...options, disableFileAccess: true, disableUrlAccess: true }, { from })
  const host = new URL(url).hostname
  return {
    async send({ id, to, subject, text }) {
      try {
        // An object, so that no comma in an address makes it two.
        const recipient = { name: '', address: to }
        await transport.sendMail({ messageId: `<${id}@${host}>`, to: recipient, subject, text, headers: automatic })
      } catch (error) {
        const { responseCode = 0, code, message } = error as { responseCode?: number; code?: string; message: string }
        const ofMessage = code === 'EENVELOPE' || code === 'EMESSAGE'
        if (ofMessage && responseCode >= 400) throw new MailRefused(message, responseCode >= 500, error)
        throw error
      }
    },
    async check() {
      await transport.verify()
    },
    close: () => transport.close(),
  }
}

// Keeps out-of-office replies away. @source RFC 3834 §5
const automatic = { 'Auto-Submitted': 'auto-generated' }
