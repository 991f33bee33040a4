import type { Comparison, Operator } from '../../../platform/db/filter-sql.ts'
import { invalidParameter } from './mlflow-errors.ts'

/** What one entity of a search takes. */
export interface EntityRule {
  /** Keys there are; any when absent. */
  keys?: readonly string[]
  /** Keys compared as numbers, or true when all are. */
  numeric?: true | readonly string[]
  operators: readonly Operator[]
}

export interface FilterGrammar {
  /** Entity by each of its names; the empty name is for a key that stands alone. */
  aliases: Record<string, string>
  entities: Record<string, EntityRule>
  /** Other names of keys. */
  keyAliases?: Record<string, string>
}

export const numericOperators = ['=', '!=', '>', '>=', '<', '<='] as const
export const textOperators = ['=', '!=', 'LIKE', 'ILIKE'] as const

type Token =
  | { kind: 'name'; text: string; quoted: boolean }
  | { kind: 'text'; text: string }
  | { kind: 'number'; text: string }
  | { kind: 'operator'; text: Operator }
  | { kind: '(' | ')' | ',' | '.'; text: string }

/**
 * Comparisons joined by AND. Throws INVALID_PARAMETER_VALUE for anything else.
 * @source contract B10.7
 */
export function parseFilter(text: string | null, grammar: FilterGrammar): Comparison[] {
  if (!text?.trim()) return []
  const tokens = new TokenReader(tokenise(text), text)
  const comparisons = [comparison(tokens, grammar)]
  while (!tokens.ended()) {
    tokens.keyword('AND')
    comparisons.push(comparison(tokens, grammar))
  }
  return comparisons
}

/** `entity.key`, as a filter or an order names it. */
export function parseIdentifier(text: string, grammar: FilterGrammar): { entity: string; key: string } {
  const tokens = new TokenReader(tokenise(text), text)
  const found = identifier(tokens, grammar)
  if (!tokens.ended()) throw tokens.fault()
  return found
}

function comparison(tokens: TokenReader, grammar: FilterGrammar): Comparison {
  const { entity, key } = identifier(tokens, grammar)
  const rule = grammar.entities[entity]!
  const operator = tokens.operator()
  const numeric = rule.numeric === true || (rule.numeric?.includes(key) ?? false)
  const allowed: readonly Operator[] = numeric ? numericOperators : rule.operators
  if (!allowed.includes(operator)) {
    throw invalidParameter(
      `Invalid comparator '${operator}' for ${entity} '${key}': not one of '${allowed.join("', '")}'`,
    )
  }
  return { entity, key, operator, value: readValue(tokens, operator, numeric, `${entity} '${key}'`) }
}

function identifier(tokens: TokenReader, grammar: FilterGrammar): { entity: string; key: string } {
  const first = tokens.name()
  const prefixed = tokens.skip('.')
  const name = prefixed ? tokens.path() : first
  const entity = grammar.aliases[prefixed ? first : '']
  if (entity === undefined) {
    const known = Object.keys(grammar.entities).join("', '")
    throw invalidParameter(`Invalid entity type '${first}'. Valid values are '${known}'`)
  }
  const key = grammar.keyAliases?.[name] ?? name
  const { keys } = grammar.entities[entity]!
  if (keys && !keys.includes(key)) {
    throw invalidParameter(`Invalid ${entity} key '${key}' specified. Valid keys are '${keys.join("', '")}'`)
  }
  return { entity, key }
}

function readValue(tokens: TokenReader, operator: Operator, numeric: boolean, what: string): Comparison['value'] {
  if (operator === 'IS NULL' || operator === 'IS NOT NULL') return null
  if (operator === 'IN' || operator === 'NOT IN') return tokens.list()
  const token = tokens.next()
  if (numeric) {
    if (token?.kind !== 'number')
      throw invalidParameter(`Expected numeric value type for ${what}. Found ${token?.text}`)
    return Number(token.text)
  }
  if (token?.kind !== 'text') {
    throw invalidParameter(`Expected a quoted string value for ${what}. Got value ${token?.text}`)
  }
  return token.text
}

const patterns: [RegExp, (text: string) => Token | null][] = [
  [/\s+/y, () => null],
  [/'((?:[^']|'')*)'/y, (text) => ({ kind: 'text', text: text.slice(1, -1).replaceAll("''", "'") })],
  [/"((?:[^"]|"")*)"/y, (text) => ({ kind: 'text', text: text.slice(1, -1).replaceAll('""', '"') })],
  [/`([^`]*)`/y, (text) => ({ kind: 'name', text: text.slice(1, -1), quoted: true })],
  [/!=|>=|<=|=|>|</y, (text) => ({ kind: 'operator', text: text as Operator })],
  [/(?:NOT\s+I?LIKE|NOT\s+IN|IS\s+NOT\s+NULL|IS\s+NULL|ILIKE|LIKE|IN)(?![\w.])/iy, wordOperator],
  [/[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?(?![\w.])/iy, (text) => ({ kind: 'number', text })],
  [/[\w\-/]+/y, (text) => ({ kind: 'name', text, quoted: false })],
  [/[(),.]/y, (text) => ({ kind: text as '(', text })],
]

function wordOperator(text: string): Token {
  return { kind: 'operator', text: text.toUpperCase().replace(/\s+/g, ' ') as Operator }
}

function tokenise(text: string): Token[] {
  const tokens: Token[] = []
  let at = 0
  while (at < text.length) {
    const start = at
    for (const [pattern, make] of patterns) {
      pattern.lastIndex = at
      const match = pattern.exec(text)
      if (!match) continue
      const token = make(match[0])
      if (token) tokens.push(token)
      at += match[0].length
      break
    }
    if (at === start) throw invalidParameter(`Invalid filter: unexpected ${JSON.stringify(text[at])} in ${text}`)
  }
  return tokens
}

/** Reads tokens in order; every fault names the whole filter. */
class TokenReader {
  private at = 0
  private readonly tokens: Token[]
  private readonly text: string

  constructor(tokens: Token[], text: string) {
    this.tokens = tokens
    this.text = text
  }

  ended(): boolean {
    return this.at === this.tokens.length
  }

  next(): Token | undefined {
    return this.tokens[this.at++]
  }

  fault() {
    return invalidParameter(`Invalid clause(s) in filter string: ${this.text}`)
  }

  skip(kind: Token['kind']): boolean {
    if (this.tokens[this.at]?.kind !== kind) return false
    this.at++
    return true
  }

  /** A key: what stands between dots belongs together. */
  path(): string {
    let path = this.name()
    while (this.skip('.')) path += `.${this.name()}`
    return path
  }

  name(): string {
    const token = this.next()
    if (token?.kind !== 'name' && token?.kind !== 'text') throw this.fault()
    return token.text
  }

  operator(): Operator {
    const token = this.next()
    if (token?.kind !== 'operator') throw this.fault()
    return token.text
  }

  keyword(word: string): void {
    const token = this.next()
    if (token?.kind !== 'name' || token.quoted || token.text.toUpperCase() !== word) throw this.fault()
  }

  list(): string[] {
    if (!this.skip('(')) throw this.fault()
    const values: string[] = []
    do {
      const token = this.next()
      if (token?.kind !== 'text') throw this.fault()
      values.push(token.text)
    } while (this.skip(','))
    if (!this.skip(')')) throw this.fault()
    return values
  }
}
