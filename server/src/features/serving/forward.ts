import { Agent, type IncomingHttpHeaders, type IncomingMessage, type OutgoingHttpHeaders, request } from 'node:http'
import type { Readable } from 'node:stream'
import { badGateway, gatewayTimeout, payloadTooLarge } from '../../platform/errors.ts'

/** @source contract B11.2 */
export const bodyMaxBytes = 64 * 1024 ** 2
const timeoutMs = 60_000

// The model server keeps idle connections for 75 s; ours are gone before, so none is used that is just being closed.
const agent = new Agent({ keepAlive: true, maxSockets: 512, maxFreeSockets: 64, timeout: 65_000 })

export interface Forwarded {
  method: string
  /** On the inference server, query included. */
  path: string
  headers: OutgoingHttpHeaders
  /** Null when there is none. */
  body: Readable | null
  /** Fires when the client is gone. */
  signal: AbortSignal
}

/** No connection came about, so nothing of the request has been read: another replica may get it. */
export class NotConnected extends Error {}

/**
 * Sends a request to an inference server and resolves with its answer, whose body is still to be read. Neither body is
 * held in memory. Throws `NotConnected`, `bad_gateway`, `gateway_timeout` or `payload_too_large`.
 */
export function forward(address: string, { method, path, headers, body, signal }: Forwarded): Promise<IncomingMessage> {
  const { hostname, port } = new URL(`http://${address}`)
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>()
  const upstream = request({ agent, hostname, port, method, path, headers, setHost: true })
  // Nothing may announce a body that is not sent: the server would take the next request on the connection for it.
  if (!body) upstream.removeHeader('content-length')
  const fail = (error: Error) => {
    reject(error)
    upstream.destroy(error)
  }
  const timer = setTimeout(() => fail(gatewayTimeout('The inference server took longer than 60 s.')), timeoutMs)
  const leave = () => fail(new Error('the client is gone'))
  let connected = false
  const send = () => {
    connected = true
    if (body) sendBody(body, upstream, fail)
    else upstream.end()
  }
  signal.addEventListener('abort', leave, { once: true })
  upstream.once('close', () => {
    clearTimeout(timer)
    signal.removeEventListener('abort', leave)
  })
  // The connection is made before the first byte of the body is read; headers and first piece then travel together.
  upstream.once('socket', (socket) => (socket.connecting ? socket.once('connect', send) : send()))
  upstream.once('response', resolve)
  upstream.once('error', (error) =>
    reject(
      connected ? badGateway('The inference server broke off.', { cause: error }) : new NotConnected(error.message),
    ),
  )
  if (signal.aborted) leave()
  return promise
}

function sendBody(body: Readable, upstream: ReturnType<typeof request>, fail: (error: Error) => void): void {
  let bytes = 0
  const count = (piece: Buffer) => {
    bytes += piece.length
    if (bytes <= bodyMaxBytes) return
    leave()
    fail(tooLarge())
  }
  // What nobody takes any more is not read any more either.
  const leave = () => {
    body.off('data', count)
    body.unpipe(upstream)
    body.pause()
  }
  body.on('data', count)
  body.once('error', fail)
  body.pipe(upstream)
  upstream.once('close', leave)
}

/** The connection ends with the answer: the rest of the body is not worth reading. */
export const tooLarge = () =>
  payloadTooLarge('A request to an inference server may have 64 MiB.', {
    detail: { max_bytes: bodyMaxBytes },
    headers: { connection: 'close' },
  })

const hopByHop = ['connection', 'keep-alive', 'proxy-authenticate', 'proxy-authorization', 'proxy-connection']
const never = new Set([...hopByHop, 'te', 'trailer', 'transfer-encoding', 'upgrade'])
const ours = new Set(['host', 'cookie', 'authorization', 'x-tenant', 'expect', 'origin', 'referer'])

/** What of the client's headers goes on: nothing of ours, nothing about its connection. @source RFC 9110 §7.6.1 */
export function requestHeaders(headers: IncomingHttpHeaders, requestId: string): OutgoingHttpHeaders {
  return { ...endToEnd(headers, (name) => ours.has(name) || name.startsWith('sec-fetch-')), 'x-request-id': requestId }
}

/** What of the answer goes back: it cannot set cookies here, nor run as a page of ours. */
export function answerHeaders(headers: IncomingHttpHeaders): Record<string, string> {
  const kept = endToEnd(headers, (name) => name === 'set-cookie' || name === 'date')
  return {
    ...(kept as Record<string, string>),
    'x-content-type-options': 'nosniff',
    'content-security-policy': 'sandbox',
    'cache-control': headers['cache-control'] ?? 'no-store',
  }
}

function endToEnd(headers: IncomingHttpHeaders, dropped: (name: string) => boolean): IncomingHttpHeaders {
  const named = new Set(headers.connection?.split(',').map((name) => name.trim().toLowerCase()))
  return Object.fromEntries(
    Object.entries(headers).filter(([name]) => !never.has(name) && !named.has(name) && !dropped(name)),
  )
}
