import { invalidParameter } from './mlflow-errors.ts'

/** What came with a request, from its body or its query: protobuf fields by name. */
export type Fields = Record<string, unknown>

/** The protocol's words for a value that did not come. */
export const missing = (name: string) =>
  invalidParameter(
    `Missing value for required parameter '${name}'. See the API docs for more information about request parameters.`,
  )

/** The protocol's words for a value that does not fit. */
export const invalidValue = (name: string, value: unknown, why = '') =>
  invalidParameter(`Invalid value ${JSON.stringify(value)} for parameter '${name}' supplied${why ? `: ${why}` : '.'}`)

const isAbsent = (value: unknown) => value === undefined || value === null

export function optionalText(fields: Fields, name: string): string | null {
  const value = fields[name]
  if (isAbsent(value)) return null
  if (typeof value !== 'string') throw invalidValue(name, value)
  return value
}

/** An empty text counts as missing, as it does in the protocol. */
export function requiredText(fields: Fields, name: string): string {
  const value = optionalText(fields, name)
  if (!value) throw missing(name)
  return value
}

/** The run meant, by its old name too. @source contract B10.3 */
export function requiredRunId(fields: Fields): string {
  return optionalText(fields, 'run_id') || optionalText(fields, 'run_uuid') || requiredText(fields, 'run_id')
}

/** int64, as number or as text; beyond 2^53 nothing could be kept exactly. */
export function optionalInteger(fields: Fields, name: string, path = name): number | null {
  const value = fields[name]
  if (isAbsent(value)) return null
  const number = typeof value === 'string' && /^-?\d+$/.test(value) ? Number(value) : value
  if (typeof number !== 'number' || !Number.isSafeInteger(number)) throw invalidValue(path, value)
  return number
}

/** A page size or limit from 1 on. */
export function limit(fields: Fields, { fallback, most }: { fallback: number; most: number }): number {
  const value = optionalInteger(fields, 'max_results')
  if (value === null) return fallback
  if (value < 1) throw invalidValue('max_results', value, 'It must be a positive integer.')
  if (value > most) throw invalidValue('max_results', value, `It must be at most ${most}, but got value ${value}`)
  return value
}

/** double, as number or text; NaN and the infinities are texts. @source contract B10.3 */
export function requiredDouble(fields: Fields, name: string, path = name): number {
  const value = fields[name]
  if (isAbsent(value)) throw missing(path)
  if (typeof value === 'number') return value
  if (typeof value === 'string' && /^(NaN|-?Infinity|[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?)$/i.test(value)) {
    if (/^nan$/i.test(value)) return Number.NaN
    return /infinity$/i.test(value) ? (value.startsWith('-') ? -Infinity : Infinity) : Number(value)
  }
  throw invalidValue(path, value, 'Please specify value as a valid double (64-bit floating point)')
}

export function optionalFlag(fields: Fields, name: string): boolean | null {
  const value = fields[name]
  if (isAbsent(value)) return null
  if (typeof value === 'boolean') return value
  if (value === 'true' || value === 'false') return value === 'true'
  throw invalidValue(name, value)
}

/** A repeated field; one value of a query is a list of one. */
export function texts(fields: Fields, name: string): string[] {
  const value = fields[name]
  if (isAbsent(value)) return []
  const list = Array.isArray(value) ? value : typeof value === 'string' ? [value] : null
  if (!list?.every((item) => typeof item === 'string')) throw invalidValue(name, value)
  return list as string[]
}

/** A repeated message. */
export function messages(fields: Fields, name: string): Fields[] {
  const value = fields[name]
  if (isAbsent(value)) return []
  if (!Array.isArray(value) || !value.every(isMessage)) throw invalidValue(name, value)
  return value
}

export function message(fields: Fields, name: string): Fields {
  const value = fields[name]
  if (isAbsent(value)) throw missing(name)
  if (!isMessage(value)) throw invalidValue(name, value)
  return value
}

const isMessage = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** An enum by name in any case, or by number. */
export function choice<const T extends readonly string[]>(
  fields: Fields,
  name: string,
  names: T,
  numbers: Record<number, T[number]> = {},
): T[number] | null {
  const value = fields[name]
  if (isAbsent(value) || value === '') return null
  const text = numbers[Number(value)] ?? String(value).toUpperCase()
  if (!names.includes(text)) throw invalidValue(name, value, `Valid values are ${names.join(', ')}`)
  return text
}

/** Where the next page begins; opaque to clients. */
export const pageToken = (offset: number): string => Buffer.from(`o${offset}`).toString('base64url')

export function pageOffset(fields: Fields): number {
  const token = optionalText(fields, 'page_token')
  if (!token) return 0
  const offset = /^o(\d{1,12})$/.exec(Buffer.from(token, 'base64url').toString())?.[1]
  if (offset === undefined) throw invalidParameter('Invalid page token, could not base64-decode')
  return Number(offset)
}
