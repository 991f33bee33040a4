import { type ErrorCode, PlatformError } from '../../../platform/errors.ts'

/** Codes of the protocol and the statuses they travel with. @source contract B10.2 */
export const mlflowStatuses = {
  BAD_REQUEST: 400,
  INVALID_PARAMETER_VALUE: 400,
  RESOURCE_ALREADY_EXISTS: 400,
  UNAUTHENTICATED: 401,
  PERMISSION_DENIED: 403,
  RESOURCE_DOES_NOT_EXIST: 404,
  ENDPOINT_NOT_FOUND: 404,
  RESOURCE_CONFLICT: 409,
  REQUEST_LIMIT_EXCEEDED: 429,
  INTERNAL_ERROR: 500,
  NOT_IMPLEMENTED: 501,
  TEMPORARILY_UNAVAILABLE: 503,
} as const

export type MlflowCode = keyof typeof mlflowStatuses

/** An error in the words that MLflow clients rely on; the message is public. */
export class MlflowError extends Error {
  readonly code: MlflowCode

  constructor(code: MlflowCode, message: string, cause?: unknown) {
    super(message, { cause })
    this.name = 'MlflowError'
    this.code = code
  }
}

export const invalidParameter = (message: string) => new MlflowError('INVALID_PARAMETER_VALUE', message)
export const doesNotExist = (message: string) => new MlflowError('RESOURCE_DOES_NOT_EXIST', message)
export const alreadyExists = (message: string) => new MlflowError('RESOURCE_ALREADY_EXISTS', message)
export const permissionDenied = (message: string) => new MlflowError('PERMISSION_DENIED', message)
export const notImplemented = (message: string) => new MlflowError('NOT_IMPLEMENTED', message)

const codes: Partial<Record<ErrorCode, MlflowCode>> = {
  bad_request: 'BAD_REQUEST',
  unauthorized: 'UNAUTHENTICATED',
  forbidden: 'PERMISSION_DENIED',
  not_found: 'RESOURCE_DOES_NOT_EXIST',
  conflict: 'RESOURCE_CONFLICT',
  payload_too_large: 'BAD_REQUEST',
  unsupported_media_type: 'BAD_REQUEST',
  range_not_satisfiable: 'BAD_REQUEST',
  unprocessable_entity: 'INVALID_PARAMETER_VALUE',
  too_many_requests: 'REQUEST_LIMIT_EXCEEDED',
  service_unavailable: 'TEMPORARILY_UNAVAILABLE',
}

/** Whatever was thrown, as the protocol says it: what is not ours says nothing but INTERNAL_ERROR. */
export function mlflowError(thrown: unknown): MlflowError {
  if (thrown instanceof MlflowError) return thrown
  if (thrown instanceof PlatformError) {
    return new MlflowError(codes[thrown.code] ?? 'INTERNAL_ERROR', thrown.message, thrown.cause)
  }
  const { statusCode, code } = thrown as { statusCode?: number; code?: string }
  if (thrown instanceof SyntaxError) return new MlflowError('BAD_REQUEST', 'The body is not valid JSON.', thrown)
  // A character that PostgreSQL cannot hold, and a number beyond its range.
  if (code === '22021' || code === '22P05') return invalidParameter('A text holds a character that cannot be stored.')
  if (code === '22003') return invalidParameter('A number is out of range.')
  if (statusCode && statusCode < 500) return new MlflowError('BAD_REQUEST', 'The request is not valid.', thrown)
  return new MlflowError('INTERNAL_ERROR', 'Something failed on our side; the log knows more.', thrown)
}
