import { createHash } from 'node:crypto'
import type { FastifyRequest } from 'fastify'
import { preconditionFailed } from '../errors.ts'
import { matchesEtag } from './content.ts'

/** Strong validator of a JSON answer. @source contract B1.8, RFC 9110 §8.8.3 */
export const jsonEtag = (text: string): string =>
  `"${createHash('sha256').update(text).digest('base64url').slice(0, 27)}"`

/**
 * Honours `If-Match` of a change when it was sent: `view` is what GET of the resource answers now.
 * Throws `precondition_failed`.
 */
export function requireMatch(request: FastifyRequest, view: unknown): void {
  const header = request.headers['if-match']
  if (header !== undefined && !matchesEtag(header, jsonEtag(JSON.stringify(view)))) throw preconditionFailed()
}
