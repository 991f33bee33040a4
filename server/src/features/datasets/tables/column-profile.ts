import type { Variable } from '../validation-report.ts'

const categoriesMax = 50
const missing = /^(|na|n\/a|nan|null|none|-)$/i
const integer = /^[+-]?\d{1,15}$/
const number = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i
const boolean = /^(true|false)$/i
const time = /^\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?)?$/i

type Kind = 'integer' | 'number' | 'boolean' | 'time' | 'text'

/** What the values of one column have in common, gathered in one pass and constant memory. */
export class ColumnProfile {
  readonly name: string
  /** Known beforehand; null when it follows from the values, which are text then. */
  readonly #declared: string | null
  #kinds = new Map<string, number>()
  #values = new Map<string, number>()
  #rows = 0
  #missing = 0
  #min = Number.POSITIVE_INFINITY
  #max = Number.NEGATIVE_INFINITY

  constructor(name: string, declared: string | null = null) {
    this.name = name
    this.#declared = declared
  }

  add(value: unknown): void {
    this.#rows++
    const text = textOf(value)
    if (text === null || (this.#declared === null && missing.test(text))) {
      this.#missing++
      return
    }
    const kind = this.#declared ?? kindOf(text)
    this.#kinds.set(kind, (this.#kinds.get(kind) ?? 0) + 1)
    if ((kind === 'integer' || kind === 'number') && number.test(text)) {
      this.#min = Math.min(this.#min, Number(text))
      this.#max = Math.max(this.#max, Number(text))
    }
    if (this.#values.size <= categoriesMax && text.length <= 200)
      this.#values.set(text, (this.#values.get(text) ?? 0) + 1)
  }

  /** What there is to say of the column in a table of so many rows; those that lack it altogether count as missing. */
  variable(rows: number): Variable {
    const dtype = this.#dtype()
    const numeric = this.#max >= this.#min
    const absent = rows - this.#rows + this.#missing
    const few = this.#values.size <= categoriesMax && (dtype === 'text' || dtype === 'boolean')
    const repeated = this.#values.size * 2 <= rows - absent
    const categories = few && repeated ? [...this.#values.keys()].sort() : null
    return {
      name: this.name,
      dtype: categories && dtype === 'text' ? 'category' : dtype,
      role: /^(label|class|target|y|category)$/i.test(this.name) ? 'label' : null,
      nullable: absent > 0,
      min: numeric && dtype !== 'text' ? this.#min : null,
      max: numeric && dtype !== 'text' ? this.#max : null,
      categories,
      missing_rate: rows === 0 ? 0 : absent / rows,
    }
  }

  /** Samples per value, where there are few; null where there are many. */
  counts(): Map<string, number> | null {
    return this.#values.size <= categoriesMax ? this.#values : null
  }

  #dtype(): string {
    if (this.#declared) return this.#declared
    const kinds = [...this.#kinds.keys()]
    if (kinds.length === 1) return kinds[0]!
    return kinds.length === 2 && this.#kinds.has('integer') && this.#kinds.has('number') ? 'number' : 'text'
  }
}

function textOf(value: unknown): string | null {
  if (value === null || value === undefined) return null
  if (typeof value === 'string') return value.trim()
  return typeof value === 'object' ? JSON.stringify(value) : String(value)
}

function kindOf(text: string): Kind {
  if (integer.test(text)) return 'integer'
  if (number.test(text)) return 'number'
  if (boolean.test(text)) return 'boolean'
  return time.test(text) ? 'time' : 'text'
}
