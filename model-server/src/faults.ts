/** An error that a client may see: its status, text and headers; the wire shape is the protocol's. */
export class Fault extends Error {
  readonly status: number
  readonly headers: Record<string, string>
  constructor(status: number, message: string, headers: Record<string, string> = {}) {
    super(message)
    this.status = status
    this.headers = headers
  }
}

export const badRequest = (message: string): Fault => new Fault(400, message)

/** The server cannot take the work now; `Retry-After` is in seconds. */
export const unavailable = (message: string): Fault => new Fault(503, message, { 'retry-after': '1' })

/** Nobody reads this answer; the status only tells the metrics what happened. */
export const clientClosed = (): Fault => new Fault(499, 'the client closed the connection')
