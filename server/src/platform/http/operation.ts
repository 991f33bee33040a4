import type { FastifyRequest } from 'fastify'
import { type Static, type TObject, type TSchema, Type } from 'typebox'
import type { TenantRef } from '../context.ts'
import type { PlatformError } from '../errors.ts'
import type { Access, CtxOf } from './access.ts'
import type { Answer } from './answer.ts'
import type { EventStream } from './event-stream.ts'

/**
 * How the body of an operation travels:
 * `json` and `form` are parsed and validated; `multipart` (one part named `file`) and `stream` (any type, as bytes)
 * are handed over unread, because uploads are never held in memory.
 */
export type BodyKind = 'json' | 'form' | 'multipart' | 'stream'

/** Declared answers: status → schema of the JSON body; null for no body; a text for another content. */
export type Responses = Record<number, TSchema | null | RawContent>

/** A body that is not JSON: its media type and what it holds. */
export interface RawContent {
  content: string
  description: string
}

export const raw = (content: string, description: string): RawContent => ({ content, description })

export const isRawContent = (value: unknown): value is RawContent =>
  typeof value === 'object' && value !== null && 'content' in value && 'description' in value && !('type' in value)

export interface Input<P extends TObject, Q extends TObject, B extends TSchema> {
  params: Static<P>
  query: Static<Q>
  body: Static<B>
  /** The request itself, for streamed bodies and headers. */
  request: FastifyRequest
  /** Fires when the client is gone. */
  signal: AbortSignal
}

export interface OperationSpec<A extends Access, P extends TObject, Q extends TObject, B extends TSchema> {
  /** `noun.verbNoun`; the operation id of the OpenAPI document. */
  id: string
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** Exactly as the requirements print it, with `{parameters}`; `{path}` and `{name+}` take slashes too. */
  path: string
  /** One sentence for the documentation. */
  summary: string
  access: A
  /** Action of the audit row, `noun.verb`; every operation that changes something has one. @source contract B12.8 */
  audit?: string
  params?: P
  query?: Q
  body?: B
  bodyKind?: BodyKind
  /** The success status is the first one from 200 to 299. */
  responses: Responses
  /** Statuses beyond those that follow from access and input, and when they occur. */
  errors?: Record<number, string>
  /** A strong ETag over the JSON answer and If-None-Match. @source contract B1.8 */
  etag?: boolean
  handler: (ctx: CtxOf<A>, input: Input<P, Q, B>) => Promise<unknown | Answer | EventStream>
}

/** A finished operation: what the server, the OpenAPI document, the audit and the test matrix are derived from. */
export interface Operation {
  id: string
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  path: string
  summary: string
  access: Access
  audit: string | null
  params: TObject
  query: TObject | null
  body: TSchema | null
  bodyKind: BodyKind | 'none'
  responses: Responses
  errors: Record<number, string>
  etag: boolean
  success: number
  /** Says why the operation is closed to a tenant although the caller may; null when it is open. */
  closedTo?(tenant: TenantRef): PlatformError | null
  // biome-ignore lint/suspicious/noExplicitAny: the typed face is OperationSpec; a list of operations can't keep it
  handler: (ctx: any, input: any) => Promise<unknown>
}

/**
 * Declares one endpoint. Validation, permission, documentation, audit, metrics and the test matrix derive from it.
 * @source house.md §4
 */
export function operation<
  A extends Access,
  P extends TObject = TObject<Record<string, ReturnType<typeof Type.String>>>,
  Q extends TObject = TObject<Record<never, never>>,
  B extends TSchema = ReturnType<typeof Type.Undefined>,
>(spec: OperationSpec<A, P, Q, B>): Operation {
  const success = Object.keys(spec.responses)
    .map(Number)
    .find((status) => status >= 200 && status < 300)
  if (!success) throw new Error(`${spec.id} declares no success status`)
  if (spec.method !== 'GET' && !spec.audit && spec.access.level !== 'none' && !spec.id.startsWith('proxy.'))
    throw new Error(`${spec.id} changes something and names no audit action`)
  return {
    ...spec,
    audit: spec.audit ?? null,
    params: completeParams(spec.path, spec.params),
    query: spec.query ?? null,
    body: spec.body ?? null,
    bodyKind: spec.bodyKind ?? (spec.body ? 'json' : 'none'),
    errors: spec.errors ?? {},
    etag: spec.etag ?? false,
    success,
  }
}

/** Parameters of the path that the operation does not describe are plain strings. */
function completeParams(path: string, params?: TObject): TObject {
  const names = [...path.matchAll(/\{(\w+)\+?\}/g)].map((match) => match[1]!)
  const properties = Object.fromEntries(
    names.map((name) => [name, params?.properties[name] ?? Type.String({ minLength: 1, maxLength: 512 })]),
  )
  return Type.Object(properties)
}
