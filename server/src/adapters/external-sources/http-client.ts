import { type IncomingMessage, type OutgoingHttpHeaders, request as requestHttp } from 'node:http'
import { request as requestHttps } from 'node:https'
import { SourceError } from './external-sources.ts'
import type { GuardedAgents } from './guarded-agents.ts'

const redirectsMax = 5

export interface HttpRequest {
  url: URL
  headers: OutgoingHttpHeaders
  /** Goes to this origin alone, wherever redirects lead. */
  authorization: { origin: string; value: string } | null
  signal: AbortSignal
}

export interface HttpReply {
  /** Where the answer came from in the end. */
  url: URL
  status: number
  /** Header names in lower case. */
  headers: IncomingMessage['headers']
  body: IncomingMessage
}

/** GET, redirects followed by rules of ours; answers 200 and 304, everything else is a `SourceError`. */
export async function getHttp(agents: GuardedAgents, { url, ...rest }: HttpRequest): Promise<HttpReply> {
  let at = url
  for (let redirects = 0; ; redirects++) {
    const response = await send(agents, at, rest)
    const { statusCode: status = 0, headers } = response
    if (status === 200 || status === 304) return { url: at, status, headers, body: response }
    response.destroy()
    const isRedirect = [301, 302, 303, 307, 308].includes(status) && headers.location !== undefined
    if (!isRedirect) throw refusal(status)
    if (redirects === redirectsMax) throw new SourceError('invalid', `It redirects more than ${redirectsMax} times.`)
    at = redirected(at, headers.location!)
  }
}

function redirected(from: URL, location: string): URL {
  const to = URL.parse(location, from.href)
  if (!to || !isWebAddress(to)) throw new SourceError('invalid', 'It redirects to what is no web address.')
  if (from.protocol === 'https:' && to.protocol === 'http:')
    throw new SourceError('denied', 'It redirects from https to plain http.')
  return to
}

export const isWebAddress = (url: URL): boolean =>
  ['http:', 'https:'].includes(url.protocol) && url.username === '' && url.password === ''

/** Throws `invalid` for what is no address, or one with a password in it, which would be shown to everybody. */
export function webAddress(text: string): URL {
  const url = URL.parse(text)
  if (url && isWebAddress(url)) return url
  throw new SourceError('invalid', 'It must be an http:// or https:// address without user and password in it.')
}

function send(
  agents: GuardedAgents,
  url: URL,
  { headers, authorization, signal }: Omit<HttpRequest, 'url'>,
): Promise<IncomingMessage> {
  const secure = url.protocol === 'https:'
  const own = authorization?.origin === url.origin ? { authorization: authorization.value } : {}
  // Compressed content has another length than it says, and unpacks to anything.
  const options = {
    agent: secure ? agents.https : agents.http,
    headers: { 'user-agent': 'platform-mlops', 'accept-encoding': 'identity', ...headers, ...own },
    signal,
  }
  return new Promise((resolve, reject) => {
    const request = secure ? requestHttps(url, options) : requestHttp(url, options)
    request.on('response', (response) => {
      if ((response.headers['content-encoding'] ?? 'identity') === 'identity') return resolve(response)
      response.destroy()
      reject(new SourceError('invalid', 'It sends compressed content although it was asked not to.'))
    })
    request.on('error', (error) => reject(networkFault(error, signal)))
    request.end()
  })
}

/** The fault behind an error of a connection; an abort stays what it is. */
export function networkFault(error: unknown, signal: AbortSignal): unknown {
  if (signal.aborted) return signal.reason
  if (error instanceof SourceError) return error
  const { code, message } = error as NodeJS.ErrnoException
  return new SourceError('unreachable', `The source can not be reached (${code ?? message}).`, error)
}

function refusal(status: number): SourceError {
  if (status === 401 || status === 403) return new SourceError('denied', `The source refuses access (${status}).`)
  if (status === 404 || status === 410) return new SourceError('missing', `It is not there (${status}).`)
  if (status >= 500 || status === 408 || status === 429)
    return new SourceError('unreachable', `The source fails (${status}).`)
  return new SourceError('invalid', `The source answers with status ${status}.`)
}
