/** The mail port: hands a message to whatever carries it on. */
export interface MailSender {
  /** Resolves when the other side has taken it. Throws `MailRefused` when it answered and did not. */
  send(mail: Mail): Promise<void>
  /** Throws with the reason when the other side can't be reached or doesn't let us in. */
  check(): Promise<void>
  close(): void
}

export interface Mail {
  /** Stays the same when it is sent again, so that mailboxes show it once. */
  id: string
  to: string
  subject: string
  /** Plain text. */
  text: string
}

/** The other side answered and did not take this message: an unknown or full mailbox, a policy. */
export class MailRefused extends Error {
  /** It never will. */
  readonly permanent: boolean

  constructor(message: string, permanent: boolean, cause: unknown) {
    super(message, { cause })
    this.permanent = permanent
  }
}
