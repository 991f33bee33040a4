import type { PendingSignOn } from '../../adapters/identity-provider/identity-provider.ts'
import type { TokenSigner } from './tokens.ts'

const cookieName = 'platformsso'
const pendingSeconds = 600

/** What a browser keeps for us between the way there and the way back, for ten minutes. */
export interface Pending extends PendingSignOn {
  /** Path to go to afterwards. */
  returnTo: string
}

export async function pendingCookie(signer: TokenSigner, pending: Pending, secure: boolean): Promise<string> {
  return cookie(await signer.seal({ ...pending }, pendingSeconds), pendingSeconds, secure)
}

export const endedPendingCookie = (secure: boolean): string => cookie('', 0, secure)

function cookie(value: string, seconds: number, secure: boolean): string {
  const parts = [`${cookieName}=${value}`, 'Path=/auth/oidc', 'HttpOnly', 'SameSite=Lax', `Max-Age=${seconds}`]
  return [...parts, ...(secure ? ['Secure'] : [])].join('; ')
}

/** Null for what is not ours, was changed, or is too old. */
export async function openPending(signer: TokenSigner, cookieHeader: string | undefined): Promise<Pending | null> {
  const sealed = new RegExp(`(?:^|;\\s*)${cookieName}=([^;]+)`).exec(cookieHeader ?? '')?.[1]
  return sealed ? signer.unseal<Pending>(sealed) : null
}

/** A path of our own, never another site (open redirect). */
export const ownPath = (text: unknown): string =>
  typeof text === 'string' && /^\/(?![/\\])[^\s\\]*$/.test(text) ? text : '/'
