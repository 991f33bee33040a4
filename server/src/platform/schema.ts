import { type Static, type TProperties, type TSchema, Type } from 'typebox'

/** Schema fragments that every feature uses, so that the same thing is described the same way everywhere. */

export const nullable = <S extends TSchema>(schema: S) =>
  Type.Unsafe<Static<S> | null>(Type.Union([schema, Type.Null()]))

/** One of some words; anything else is a 422 that lists them. */
export const oneOf = <const T extends readonly string[]>(values: T, options: object = {}) =>
  Type.Unsafe<T[number]>({ type: 'string', enum: [...values], ...options })

export const uuid = (description: string) => Type.String({ format: 'uuid', description })

/** RFC 3339 in UTC with `Z`. @source contract B1.9 */
export const timestamp = (description: string) => Type.String({ format: 'date-time', description })

export const bytes = (description: string) => Type.Integer({ minimum: 0, description: `${description} In bytes.` })

/** A pattern, and what it asks for in the words that a 422 says after `must`. */
export const must = (pattern: string, words: string) => ({ pattern, 'x-must': words })

export const notBlank = must('\\S', 'not be blank')
export const countingNumber = must('^[1-9][0-9]*$', 'be a whole number from 1')
export const emailAddress = must('^[^\\s@]+@[^\\s@]+\\.?[^\\s@]*$', 'be an e-mail address, as name@example.com')

export const sha256Digest = (description: string) =>
  Type.String({ ...must('^sha256:[0-9a-f]{64}$', 'be sha256: and 64 hexadecimal digits'), description })

/** Free JSON whose inner shape is the caller's own. */
export const anyObject = (description: string) =>
  Type.Unsafe<Record<string, unknown>>({ type: 'object', additionalProperties: true, description })

export const anyJson = (description: string) => Type.Unsafe<unknown>({ description })

/** An object that becomes a named component of the OpenAPI document. */
export const named = <P extends TProperties>(title: string, properties: P, description?: string) =>
  Type.Object(properties, { title, ...(description ? { description } : {}) })

/** `{items, total}`: a list without paging. @source contract B4.1 */
export const listOf = <S extends TSchema>(item: S) =>
  Type.Object({ items: Type.Array(item), total: Type.Integer({ minimum: 0, description: 'Number of items.' }) })

/** @source service §2.1 */
export const pageOf = <S extends TSchema>(item: S) =>
  Type.Object({
    items: Type.Array(item),
    total: Type.Integer({ minimum: 0, description: 'Number of items on all pages.' }),
    page: Type.Integer({ minimum: 1, description: 'This page, from 1.' }),
    page_size: Type.Integer({ minimum: 1, description: 'Most items on a page.' }),
  })

/** @source service §2.1 */
export const cursorPageOf = <S extends TSchema>(item: S) =>
  Type.Object({
    items: Type.Array(item),
    total: Type.Integer({ minimum: 0, description: 'Number of items in this answer.' }),
    next_cursor: nullable(Type.String({ description: 'Give it back to read on; null at the end.' })),
  })
