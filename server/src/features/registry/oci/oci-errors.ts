import { type ErrorCode, PlatformError } from '../../../platform/errors.ts'

/** The codes of the distribution specification, each with its usual status. @source contract B9.5, OCI Distribution 1.1 "Error Codes" */
export const ociErrorCatalogue = {
  BLOB_UNKNOWN: { status: 404, text: 'The repository has no such blob.' },
  BLOB_UPLOAD_INVALID: { status: 416, text: 'The chunk does not follow on what was received.' },
  BLOB_UPLOAD_UNKNOWN: { status: 404, text: 'There is no such upload: it ended, expired or never was.' },
  DIGEST_INVALID: { status: 400, text: 'The digest is malformed, missing or not that of the content.' },
  MANIFEST_BLOB_UNKNOWN: { status: 404, text: 'The manifest names a blob that the repository does not have.' },
  MANIFEST_INVALID: { status: 400, text: 'The manifest is not valid.' },
  MANIFEST_UNKNOWN: { status: 404, text: 'The repository has no such manifest.' },
  NAME_INVALID: { status: 400, text: 'The repository name is not valid.' },
  NAME_UNKNOWN: { status: 404, text: 'There is no such repository.' },
  SIZE_INVALID: { status: 400, text: 'The length is not the one announced.' },
  UNAUTHORIZED: { status: 401, text: 'Sign in with a registry token.' },
  DENIED: { status: 403, text: 'The token does not have the right to do this here.' },
  UNSUPPORTED: { status: 405, text: 'This address does not take that method.' },
  TOOMANYREQUESTS: { status: 429, text: 'Too many requests; wait a little.' },
} as const

export type OciErrorCode = keyof typeof ociErrorCatalogue

export interface OciErrorExtras {
  /** Public; `null` when absent. */
  detail?: unknown
  /** Public text in place of the catalogue's. */
  message?: string
  /** Where one code serves two cases: a manifest over the limit is SIZE_INVALID with 413. */
  status?: number
  headers?: Record<string, string>
}

/** An error that a registry client may see. */
export class OciError extends Error {
  readonly code: OciErrorCode
  readonly status: number
  readonly detail: unknown
  readonly headers: Record<string, string>

  constructor(code: OciErrorCode, extras: OciErrorExtras = {}) {
    super(extras.message ?? ociErrorCatalogue[code].text)
    this.name = 'OciError'
    this.code = code
    this.status = extras.status ?? ociErrorCatalogue[code].status
    this.detail = extras.detail ?? null
    this.headers = extras.headers ?? {}
  }
}

export const ociError = (code: OciErrorCode, extras?: OciErrorExtras) => new OciError(code, extras)

const ofPlatformCode: Partial<Record<ErrorCode, { code: OciErrorCode; status?: number }>> = {
  unauthorized: { code: 'UNAUTHORIZED' },
  forbidden: { code: 'DENIED' },
  // Something still needs what was to be deleted.
  conflict: { code: 'DENIED', status: 403 },
  too_many_requests: { code: 'TOOMANYREQUESTS' },
  method_not_allowed: { code: 'UNSUPPORTED' },
  payload_too_large: { code: 'SIZE_INVALID' },
  range_not_satisfiable: { code: 'SIZE_INVALID' },
  insufficient_storage: { code: 'DENIED' },
}

/** A row that this one hangs on is gone. @source PostgreSQL 18 documentation, appendix A */
const foreignKeyViolation = '23503'

/**
 * The registry's form of an error, or null for one that has none (5xx, but for a full disk: the specification lays
 * down a form for 4xx alone, so those keep the platform's envelope).
 */
export function toOciError(error: unknown): OciError | null {
  if (error instanceof OciError) return error
  if ((error as { code?: string } | null)?.code === foreignKeyViolation) {
    return new OciError('NAME_UNKNOWN', { message: 'The repository was deleted meanwhile.' })
  }
  if (!(error instanceof PlatformError)) return null
  const own = ofPlatformCode[error.code]
  if (!own) return null
  const { message, detail, headers } = error
  return new OciError(own.code, { status: own.status ?? error.status, message, detail, headers })
}

export interface OciErrorBody {
  errors: { code: OciErrorCode; message: string; detail: unknown }[]
}

/** The JSON body of an error; an answer to HEAD sends none of it. @source contract B9.5 */
export function ociErrorBody({ code, message, detail }: OciError): OciErrorBody {
  return { errors: [{ code, message, detail }] }
}
