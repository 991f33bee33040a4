/**
 * What every answer tells browsers, whatever it is: take it for nothing but what it says it is, run nothing in it, show
 * it in no frame, and tell nobody where it was. Operations that answer with pages say what these need instead.
 * @source OWASP REST Security Cheat Sheet, OWASP HTTP Headers Cheat Sheet
 */
export const securityHeaders: Readonly<Record<string, string>> = {
  'x-content-type-options': 'nosniff',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
  'referrer-policy': 'no-referrer',
}

/** The same as lines of a head, for answers that are written by hand. */
export const securityHeaderLines: readonly string[] = Object.entries(securityHeaders).map(
  ([name, value]) => `${name}: ${value}`,
)
