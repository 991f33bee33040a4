import type { Order } from '../../../platform/db/filter-sql.ts'
import { type FilterGrammar, parseIdentifier } from './filter.ts'
import { invalidParameter } from './mlflow-errors.ts'

/** `entity.key ASC|DESC`; ascending when it does not say. Throws INVALID_PARAMETER_VALUE. @source contract B10.7 */
export function parseOrders(clauses: string[], grammar: FilterGrammar): Order[] {
  return clauses.map((clause) => {
    const [, identifier = '', direction = ''] = /^\s*(.*?)(?:\s+(asc|desc))?\s*$/is.exec(clause) ?? []
    if (identifier === '') throw invalidParameter(`Invalid order_by clause '${clause}'.`)
    return { ...parseIdentifier(identifier, grammar), descending: direction.toLowerCase() === 'desc' }
  })
}
