import { Ajv, type ErrorObject, type ValidateFunction } from 'ajv'
import addFormats from 'ajv-formats'
import type { TSchema } from 'typebox'
import { badRequest, type FieldFault, invalid, type PlatformError } from '../errors.ts'

const options = { allErrors: true, useDefaults: true, removeAdditional: false, strict: false, verbose: true } as const
const addKnownFormats = addFormats as unknown as (ajv: Ajv) => Ajv

/** Text from a path or query becomes what the schema says; a JSON body must already be of the right type. */
const fromText = addKnownFormats(new Ajv({ ...options, coerceTypes: 'array' }))
const fromJson = addKnownFormats(new Ajv(options))

export type Part = 'path' | 'query' | 'body'

/**
 * A function that checks one part of a request, fills in defaults, and throws the 422 that names every field,
 * or the 400 that lists the allowed sort keys.
 * @source contract B1.4, B4.2
 */
export function validator(part: Part, schema: TSchema): (value: unknown) => void {
  const check: ValidateFunction = (part === 'body' ? fromJson : fromText).compile(schema)
  return (value) => {
    refuseUnstorable(part, value)
    if (check(value)) return
    throw faultOf(part, check.errors ?? [])
  }
}

function faultOf(part: Part, errors: ErrorObject[]): PlatformError {
  const sort = part === 'query' && errors.find((e) => e.instancePath === '/sort' && e.keyword === 'enum')
  if (sort) {
    const allowed = (sort.params as { allowedValues: string[] }).allowedValues
    return badRequest(`sort: '${String(sort.data)}' is not a sort key; use one of ${allowed.join(', ')}`, {
      detail: { allowed },
    })
  }
  // A branch that failed inside anyOf says less than the others; the anyOf itself adds nothing to them.
  const telling = errors.filter(
    (e) =>
      e.keyword !== 'anyOf' && !(e.keyword === 'type' && e.schemaPath.includes('/anyOf/') && e.params.type === 'null'),
  )
  return invalid(unique((telling.length ? telling : errors).map((error) => fieldFault(part, error))))
}

function unique(faults: FieldFault[]): FieldFault[] {
  return [...new Map(faults.map((fault) => [`${fault.loc.join('/')}:${fault.msg}`, fault])).values()]
}

const types: Record<string, string> = {
  required: 'missing',
  enum: 'enum',
  const: 'enum',
  minimum: 'greater_than_equal',
  maximum: 'less_than_equal',
  exclusiveMinimum: 'greater_than',
  exclusiveMaximum: 'less_than',
  minLength: 'string_too_short',
  maxLength: 'string_too_long',
  pattern: 'string_pattern_mismatch',
  minItems: 'too_short',
  maxItems: 'too_long',
}

function fieldFault(part: Part, error: ErrorObject): FieldFault {
  const loc: (string | number)[] = [part, ...error.instancePath.split('/').slice(1).map(unescapePointer)]
  if (error.keyword === 'required') loc.push(String(error.params.missingProperty))
  const type =
    error.keyword === 'type'
      ? `${error.params.type}_type`
      : error.keyword === 'format'
        ? `${error.params.format}_parsing`
        : (types[error.keyword] ?? 'value_error')
  const scalar = error.data === null || ['string', 'number', 'boolean'].includes(typeof error.data)
  const secret = /password|token|secret|credential/i.test(String(loc.at(-1)))
  const fault: FieldFault = { loc, msg: messageOf(error), type }
  if (scalar && !secret && error.keyword !== 'required') fault.input = error.data
  return fault
}

const unescapePointer = (token: string): string | number =>
  /^\d+$/.test(token) ? Number(token) : token.replace(/~1/g, '/').replace(/~0/g, '~')

function messageOf(error: ErrorObject): string {
  if (error.keyword === 'required') return 'is required'
  if (error.keyword === 'enum') return `must be one of ${(error.params.allowedValues as unknown[]).join(', ')}`
  if (error.keyword === 'pattern') return `must ${error.parentSchema?.['x-must'] ?? `match ${error.params.pattern}`}`
  return error.message ?? 'is not valid'
}

/** Empty query values count as absent. @source contract B1.9 */
export function dropEmpty(query: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(query).filter(([, value]) => value !== ''))
}

/** Booleans also come as 1 and 0. @source contract B1.9 */
export function normaliseBooleans(query: Record<string, unknown>, schema: TSchema): void {
  const properties = (schema as { properties?: Record<string, { type?: string }> }).properties ?? {}
  for (const [name, property] of Object.entries(properties)) {
    if (property.type !== 'boolean') continue
    if (query[name] === '1') query[name] = true
    if (query[name] === '0') query[name] = false
  }
}

type Dropper = (value: unknown) => void

/**
 * A function that takes out of a checked body what its schema does not name, so that no key a client makes up travels
 * on into a query or a document. Free objects, and unions of several objects, are left as they are.
 */
export function unknownKeysDropper(schema: TSchema): Dropper | null {
  const { properties, patternProperties, additionalProperties, items, anyOf } = schema as Record<string, never>
  if (anyOf) {
    const droppers = (anyOf as TSchema[]).map(unknownKeysDropper).filter((dropper) => dropper !== null)
    return droppers.length === 1 ? droppers[0]! : null
  }
  if (items) {
    const dropItem = unknownKeysDropper(items)
    return dropItem && ((value) => Array.isArray(value) && value.forEach(dropItem))
  }
  if (!properties) return null
  const parts = new Map(Object.entries(properties).map(([key, part]) => [key, unknownKeysDropper(part as TSchema)]))
  const free = patternProperties !== undefined || (additionalProperties ?? false) !== false
  return (value) => {
    if (typeof value !== 'object' || value === null) return
    for (const [key, part] of Object.entries(value)) {
      if (parts.has(key)) parts.get(key)?.(part)
      else if (!free) delete (value as Record<string, unknown>)[key]
    }
  }
}

const deepest = 64

/**
 * Throws for what no text of ours needs and PostgreSQL can't hold (NUL, half of a surrogate pair), and for nesting that
 * would exhaust the stack of whatever walks over the value next.
 */
function refuseUnstorable(part: Part, value: unknown): void {
  const fault = unstorable(value, 0)
  if (!fault) return
  const [msg, type] = fault.deep
    ? [`must not be nested deeper than ${deepest} levels`, 'recursion_loop']
    : ['must be well-formed text without NUL', 'string_unicode']
  throw invalid({ loc: [part, ...fault.path.reverse()], msg, type })
}

interface Unstorable {
  deep: boolean
  /** Innermost key first. */
  path: (string | number)[]
}

function unstorable(value: unknown, depth: number): Unstorable | null {
  if (typeof value === 'string') return isStorable(value) ? null : { deep: false, path: [] }
  if (typeof value !== 'object' || value === null) return null
  if (depth > deepest) return { deep: true, path: [] }
  for (const key in value) {
    const item = (value as Record<string, unknown>)[key]
    const fault = isStorable(key) ? unstorable(item, depth + 1) : { deep: false, path: [] }
    if (!fault) continue
    if (!fault.deep) fault.path.push(Array.isArray(value) ? Number(key) : key.toWellFormed().replaceAll('\0', ''))
    return fault
  }
  return null
}

const isStorable = (text: string): boolean => !text.includes('\0') && text.isWellFormed()
