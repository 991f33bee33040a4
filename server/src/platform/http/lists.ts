import { type TProperties, type TSchema, Type } from 'typebox'
import { oneOf } from '../schema.ts'

/** A sort key: what it orders by decides the default direction. @source contract B4.2 */
export type SortKind = 'text' | 'number' | 'time'
export type SortKeys = Record<string, SortKind>

export interface PageQuery {
  page: number
  page_size: number
}

export interface ListQuery extends PageQuery {
  q?: string
  sort?: string
  order?: 'asc' | 'desc'
}

/** @source contract B4.1 */
export const pageQuery = {
  page: Type.Integer({ minimum: 1, maximum: 1_000_000_000, default: 1, description: 'Page, from 1.' }),
  page_size: Type.Integer({ minimum: 1, maximum: 200, default: 20, description: 'Most items on a page.' }),
}

/** @source contract B4.4 */
export const searchQuery = {
  q: Type.Optional(
    Type.String({ maxLength: 200, description: 'Part of a name, an id or the visible text, in any case.' }),
  ),
}

const optional = <S extends TSchema>(schema: S) => Type.Optional(schema)

/** Query of a list with pages, search and sorting. The first key is the default order. */
export function listQuery<const S extends SortKeys, F extends TProperties>(sorts: S, filters: F) {
  const keys = Object.keys(sorts) as Extract<keyof S, string>[]
  return Type.Object({
    ...filters,
    ...pageQuery,
    ...searchQuery,
    sort: optional(oneOf(keys, { description: `Sort key; ${keys[0]} when absent.` })),
    order: optional(
      oneOf(['asc', 'desc'], { description: 'Direction; desc for times and numbers, asc for text when absent.' }),
    ),
  })
}

/** The key and direction a list is ordered by. */
export function ordering(
  sorts: SortKeys,
  query: { sort?: string; order?: 'asc' | 'desc' },
): {
  key: string
  direction: 'asc' | 'desc'
} {
  const key = query.sort ?? Object.keys(sorts)[0]!
  return { key, direction: query.order ?? (sorts[key] === 'text' ? 'asc' : 'desc') }
}

/** Text to search for inside a LIKE pattern, its own wildcards taken literally. @source contract B4.4 */
export function likePattern(q: string): string {
  return `%${q.trim().replace(/[\\%_]/g, '\\$&')}%`
}

/** The numbered-page envelope. @source service §2.1 */
export function pageView<T>(query: PageQuery, result: { items: T[]; total: number }) {
  return { items: result.items, total: result.total, page: query.page, page_size: query.page_size }
}

export const listView = <T>(items: T[]) => ({ items, total: items.length })
