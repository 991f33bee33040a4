import { type RawBuilder, sql } from 'kysely'

// Conditions and orders of searches, put together from what a client asked for.

export const operators = [
  ...(['=', '!=', '>', '>=', '<', '<=', 'LIKE', 'ILIKE', 'IN', 'NOT IN', 'IS NULL', 'IS NOT NULL'] as const),
] as const
export type Operator = (typeof operators)[number]

/** One `entity.key operator value` of a filter. */
export interface Comparison {
  entity: string
  key: string
  operator: Operator
  /** A list for IN and NOT IN; null for IS NULL and IS NOT NULL. */
  value: string | number | string[] | null
}

/** One `entity.key` of an order. */
export interface Order {
  entity: string
  key: string
  descending: boolean
}

/** A part of a search's answer. */
export interface Page<T> {
  items: T[]
  more: boolean
}

type Sql = RawBuilder<unknown>

const raw: Record<Operator, Sql> = {
  '=': sql`=`,
  '!=': sql`<>`,
  '>': sql`>`,
  '>=': sql`>=`,
  '<': sql`<`,
  '<=': sql`<=`,
  LIKE: sql`like`,
  ILIKE: sql`ilike`,
  IN: sql`in`,
  'NOT IN': sql`not in`,
  'IS NULL': sql`is null`,
  'IS NOT NULL': sql`is not null`,
}

/** `column operator value`. */
export function compare(column: Sql, { operator, value }: Pick<Comparison, 'operator' | 'value'>): Sql {
  if (operator === 'IS NULL' || operator === 'IS NOT NULL') return sql`${column} ${raw[operator]}`
  if (operator === 'IN') return sql`${column} = any(${value}::text[])`
  if (operator === 'NOT IN') return sql`${column} <> all(${value}::text[])`
  return sql`${column} ${raw[operator]} ${value}`
}

/** A condition on one label of a JSON document of labels. One that is absent fits only IS NULL. */
export const compareLabel = (labels: Sql, comparison: Comparison): Sql =>
  compare(sql`(${labels} ->> ${comparison.key}::text)`, comparison)

export const allOf = (conditions: Sql[]): Sql => (conditions.length ? sql.join(conditions, sql` and `) : sql`true`)

/** One expression to order by. */
export interface OrderTerm {
  column: Sql
  descending: boolean
  /** Numbers that may be NaN, which comes after every number and before what is missing. */
  maybeNaN?: boolean
  /** Lets an index give the order. */
  neverNull?: boolean
}

export function orderBy(terms: OrderTerm[]): Sql {
  return sql.join(
    terms.map(({ column, descending, maybeNaN, neverNull }) => {
      const direction = descending ? sql`desc` : sql`asc`
      const last = maybeNaN ? sql`${column} = 'NaN' nulls last, ` : sql``
      return neverNull ? sql`${column} ${direction}` : sql`${last}${column} ${direction} nulls last`
    }),
  )
}
