import type { FastifyRequest } from 'fastify'
import type { Actor } from '../context.ts'

export const cookieName = 'platformauth'

/** A tenant as the caller of one request meets it. */
export interface TenantAccess {
  id: string
  code: string
  isActive: boolean
  /** What the tenant has switched on or off. */
  features: Record<string, boolean>
  /** Role of the caller there; null for a global administrator who is no member. */
  role: string | null
}

/** A presented token that proved to be a live login. */
export interface Login {
  actor: Actor
  /** The tenant asked for; null when there is none of that code or the caller may not know of it. */
  tenant: TenantAccess | null
  /** The token came in the cookie, so cross-site writes must be kept out. */
  byCookie: boolean
}

export interface PresentedToken {
  token: string
  byCookie: boolean
}

/** Proves credentials; the identity feature implements it. One round trip to the database. */
export interface Authenticator {
  /** The first presented token that yields an active user wins. @source contract B2.6 */
  authenticate(tokens: PresentedToken[], tenantCode: string | null): Promise<Login | null>
}

/** Bearer first, then the cookie. */
export function presentedTokens(request: FastifyRequest): PresentedToken[] {
  const tokens: PresentedToken[] = []
  const bearer = /^Bearer\s+(\S+)$/i.exec(request.headers.authorization ?? '')
  if (bearer) tokens.push({ token: bearer[1]!, byCookie: false })
  const cookie = cookieValue(request.headers.cookie, cookieName)
  if (cookie) tokens.push({ token: cookie, byCookie: true })
  return tokens
}

function cookieValue(header: string | undefined, name: string): string | null {
  for (const pair of header?.split(';') ?? []) {
    const at = pair.indexOf('=')
    if (at > 0 && pair.slice(0, at).trim() === name) return pair.slice(at + 1).trim() || null
  }
  return null
}

/** `X-Tenant` wins over `?tenant`; blank is absent; codes are lower case. @source contract B3.1 */
export function tenantSelector(request: FastifyRequest): string | null {
  const header = request.headers['x-tenant']
  const query = (request.query as Record<string, unknown>).tenant
  for (const value of [header, query]) {
    const text = (Array.isArray(value) ? String(value[0]) : typeof value === 'string' ? value : '').trim().toLowerCase()
    if (text) return text
  }
  return null
}

/**
 * Whether a browser says that a write with the login cookie comes from our own pages. Clients that are no browser
 * send neither header and pass; a browser always sends one of them.
 * @source contract B2.7, Fetch Metadata Request Headers (W3C)
 */
export function isSameOrigin(request: FastifyRequest, publicUrl: string): boolean {
  const site = request.headers['sec-fetch-site']
  if (site !== undefined) return site === 'same-origin' || site === 'none'
  const origin = request.headers.origin
  if (origin === undefined) return true
  const own = [new URL(publicUrl).origin, `http://${request.headers.host}`, `https://${request.headers.host}`]
  return own.includes(origin)
}
