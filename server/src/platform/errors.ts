/** Status and default text for each code of the error envelope. @source contract B1.3 */
export const errorCatalogue = {
  bad_request: { status: 400, text: 'The request is not valid.' },
  unauthorized: { status: 401, text: 'Sign in: no valid credential came with the request.' },
  forbidden: { status: 403, text: 'You do not have the permission this needs.' },
  not_found: { status: 404, text: 'There is no such thing here.' },
  method_not_allowed: { status: 405, text: 'This address does not take that method.' },
  request_timeout: { status: 408, text: 'The request did not arrive in time.' },
  conflict: { status: 409, text: 'The present state does not allow this.' },
  precondition_failed: { status: 412, text: 'It was changed in the meantime; read it again.' },
  payload_too_large: { status: 413, text: 'The body is too large.' },
  uri_too_long: { status: 414, text: 'The address is too long.' },
  unsupported_media_type: { status: 415, text: 'This content type is not taken here.' },
  range_not_satisfiable: { status: 416, text: 'The range lies outside the content.' },
  unprocessable_entity: { status: 422, text: 'The request does not fit what is expected.' },
  too_many_requests: { status: 429, text: 'Too many requests; wait a little.' },
  request_header_fields_too_large: { status: 431, text: 'The headers are too large.' },
  internal_error: { status: 500, text: 'Something failed on our side. The error id leads to the log.' },
  bad_gateway: { status: 502, text: 'The service behind this address did not answer properly.' },
  service_unavailable: { status: 503, text: 'This is not available right now.' },
  gateway_timeout: { status: 504, text: 'The service behind this address took too long.' },
  insufficient_storage: { status: 507, text: 'There is no room left on the storage.' },
} as const

export type ErrorCode = keyof typeof errorCatalogue

export interface ErrorExtras {
  /** Public, machine-readable: goes into the envelope. */
  detail?: unknown
  /** Private: goes to the log under the error id. */
  cause?: unknown
  /** Response headers such as Retry-After. */
  headers?: Record<string, string>
}

/** An error a client may see: `message` and `detail` are public, `cause` is for the log. */
export class PlatformError extends Error {
  readonly code: ErrorCode
  readonly detail: unknown
  readonly headers: Record<string, string>

  constructor(code: ErrorCode, message?: string, extras: ErrorExtras = {}) {
    super(message ?? errorCatalogue[code].text, { cause: extras.cause })
    this.name = 'PlatformError'
    this.code = code
    this.detail = extras.detail ?? null
    this.headers = extras.headers ?? {}
  }

  get status(): number {
    return errorCatalogue[this.code].status
  }
}

const thrower = (code: ErrorCode) => (message?: string, extras?: ErrorExtras) =>
  new PlatformError(code, message, extras)

export const badRequest = thrower('bad_request')
export const unauthorized = thrower('unauthorized')
export const forbidden = thrower('forbidden')
export const notFound = thrower('not_found')
export const conflict = thrower('conflict')
export const preconditionFailed = thrower('precondition_failed')
export const payloadTooLarge = thrower('payload_too_large')
export const unsupportedMediaType = thrower('unsupported_media_type')
export const rangeNotSatisfiable = thrower('range_not_satisfiable')
export const tooManyRequests = thrower('too_many_requests')
export const badGateway = thrower('bad_gateway')
export const serviceUnavailable = thrower('service_unavailable')
export const gatewayTimeout = thrower('gateway_timeout')

/** One fault of one field, as the 422 answer lists them. @source contract B1.4 */
export interface FieldFault {
  loc: (string | number)[]
  msg: string
  type: string
  input?: unknown
}

/** A 422 that names the fields: `invalid([{ loc: ['body', 'name'], msg: '…', type: 'value_error' }])`. */
export function invalid(faults: FieldFault[] | FieldFault): PlatformError {
  const list = Array.isArray(faults) ? faults : [faults]
  return new PlatformError('unprocessable_entity', list.map((f) => `${f.loc.join('.')}: ${f.msg}`).join('; '), {
    detail: list,
  })
}
