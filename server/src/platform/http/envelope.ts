import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify'
import { type ErrorCode, errorCatalogue, invalid, PlatformError } from '../errors.ts'

/** The error body of everything but the protocols that bring their own. @source service §2.1, contract B1.3 */
export function errorEnvelope(error: PlatformError, errorId: string) {
  return { error_id: errorId, code: error.code, message: error.message, detail: error.detail }
}

const codeOfStatus = new Map(
  Object.entries(errorCatalogue).map(([code, entry]) => [entry.status as number, code as ErrorCode]),
)

/** Whatever was thrown, as an error a client may see: what is not ours says nothing but 500. */
export function publicError(thrown: unknown): PlatformError {
  if (thrown instanceof PlatformError) return thrown
  const error = thrown as Partial<FastifyError>
  if (
    error.code === 'FST_ERR_CTP_INVALID_JSON_BODY' ||
    error.code === 'FST_ERR_CTP_EMPTY_JSON_BODY' ||
    error instanceof SyntaxError
  ) {
    return invalid({ loc: ['body'], msg: 'is not valid JSON', type: 'json_invalid' })
  }
  if (error.code === 'ENOSPC') return new PlatformError('insufficient_storage', undefined, { cause: thrown })
  const code = error.statusCode ? codeOfStatus.get(error.statusCode) : undefined
  if (code && error.statusCode! < 500) return new PlatformError(code, undefined, { cause: thrown })
  return new PlatformError('internal_error', undefined, { cause: thrown })
}

/** Sends the envelope and leaves a log line under the same error id. */
export function sendError(request: FastifyRequest, reply: FastifyReply, thrown: unknown): void {
  const error = publicError(thrown)
  const errorId = crypto.randomUUID().replaceAll('-', '')
  const line = { error_id: errorId, code: error.code, err: error.cause ?? (error.status >= 500 ? error : undefined) }
  if (error.status >= 500) request.log.error(line, error.message)
  else request.log.info(line, error.message)
  void reply
    .code(error.status)
    .headers(error.headers)
    .type('application/json; charset=utf-8')
    .send(JSON.stringify(errorEnvelope(error, errorId)))
}
