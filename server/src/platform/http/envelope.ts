import { STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify'
import { type ErrorCode, errorCatalogue, invalid, PlatformError } from '../errors.ts'
import { securityHeaderLines } from './security-headers.ts'

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
  // A service behind us that is down is no fault of ours with a place in the code.
  const ours = error.code === 'internal_error'
  const line = { error_id: errorId, code: error.code, err: error.cause ?? (ours ? error : undefined) }
  if (ours || (error.status >= 500 && error.cause)) request.log.error(line, error.message)
  else if (error.status >= 500) request.log.warn(line, error.message)
  else request.log.info(line, error.message)
  void reply
    .code(error.status)
    .headers(error.headers)
    .type('application/json; charset=utf-8')
    .send(JSON.stringify(errorEnvelope(error, errorId)))
}

/**
 * Answers what is no HTTP request at all (a broken request line, too long a head, too slow a client) with the envelope
 * and ends the connection: it may not be clear where the next request on it would begin.
 */
export function refuseBrokenRequest(error: NodeJS.ErrnoException, socket: Socket): void {
  if (error.code === 'ECONNRESET' || socket.destroyed) return
  const requestId = crypto.randomUUID()
  const broken = new PlatformError(brokenRequests[error.code ?? ''] ?? 'bad_request')
  const body = JSON.stringify(errorEnvelope(broken, requestId.replaceAll('-', '')))
  const head = [
    `HTTP/1.1 ${broken.status} ${STATUS_CODES[broken.status]}`,
    'content-type: application/json; charset=utf-8',
    `content-length: ${Buffer.byteLength(body)}`,
    `x-request-id: ${requestId}`,
    ...securityHeaderLines,
    'connection: close',
  ]
  if (socket.writable) socket.write(`${head.join('\r\n')}\r\n\r\n${body}`)
  socket.destroySoon()
}

const brokenRequests: Record<string, ErrorCode> = {
  HPE_HEADER_OVERFLOW: 'request_header_fields_too_large',
  HPE_CHUNK_EXTENSIONS_OVERFLOW: 'payload_too_large',
  ERR_HTTP_REQUEST_TIMEOUT: 'request_timeout',
}
