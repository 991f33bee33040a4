import { cookieName } from '../../platform/http/credentials.ts'

/** @source contract B2.4 */
export function loginCookie(value: string, secure: boolean, maxAgeSeconds: number | null): string {
  const parts = [`${cookieName}=${value}`, 'Path=/', 'HttpOnly', 'SameSite=Lax']
  if (secure) parts.push('Secure')
  if (maxAgeSeconds !== null) parts.push(`Max-Age=${maxAgeSeconds}`)
  return parts.join('; ')
}
