import type { Comparison, Order, Page } from '../../../platform/db/filter-sql.ts'
import { choice, type Fields, limit, optionalText, pageOffset, pageToken, texts } from './fields.ts'
import { type FilterGrammar, parseFilter } from './filter.ts'
import { parseOrders } from './orders.ts'

/** A search as the protocol asks for it. */
export interface Search {
  comparisons: Comparison[]
  orders: Order[]
  lifecycles: string[]
  offset: number
  limit: number
}

const viewTypes = ['ACTIVE_ONLY', 'DELETED_ONLY', 'ALL'] as const
const viewNumbers = { 1: 'ACTIVE_ONLY', 2: 'DELETED_ONLY', 3: 'ALL' } as const

/** Which lifecycle stages a view shows. */
export function lifecyclesOf(fields: Fields, name: string): string[] {
  const view = choice(fields, name, viewTypes, viewNumbers) ?? 'ACTIVE_ONLY'
  return view === 'ALL' ? ['active', 'deleted'] : [view === 'ACTIVE_ONLY' ? 'active' : 'deleted']
}

export function readSearch(
  fields: Fields,
  grammar: FilterGrammar,
  { view, fallback, most }: { view: string | null; fallback: number; most: number },
): Search {
  return {
    comparisons: parseFilter(optionalText(fields, 'filter'), grammar),
    orders: parseOrders(texts(fields, 'order_by'), grammar),
    lifecycles: view === null ? [] : lifecyclesOf(fields, view),
    offset: pageOffset(fields),
    limit: limit(fields, { fallback, most }),
  }
}

/** The token that leads to the next page, when there is one. */
export const nextPage = (search: Pick<Search, 'offset' | 'limit'>, { more }: Page<unknown>) =>
  more ? { next_page_token: pageToken(search.offset + search.limit) } : {}
