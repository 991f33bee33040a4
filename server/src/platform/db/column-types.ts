import { types } from 'pg'

const { builtins } = types

// Array types have no names in `pg`.
const int8Array = 1016
const numericArray = 1231
const dateArray = 1182
const textArray = 1009

/** Numbers beyond 2^53 are refused, never rounded: a counter that grows so far is a fault to hear of. */
function parseInteger(text: string): number {
  const value = Number(text)
  if (!Number.isSafeInteger(value)) throw new RangeError(`${text} is too large for a JavaScript number`)
  return value
}

function arrayOf<T>(oid: number, parse: (text: string) => T) {
  const parseTexts = types.getTypeParser(oid === dateArray ? textArray : oid, 'text') as (
    text: string,
  ) => (string | null)[]
  return (text: string) => parseTexts(text).map((item) => (item === null ? null : parse(item)))
}

const parsers = new Map<number, (text: string) => unknown>([
  [builtins.INT8, parseInteger],
  [builtins.NUMERIC, Number],
  // A day has no time zone; a Date would shift it.
  [builtins.DATE, (text) => text],
  [int8Array, arrayOf(int8Array, parseInteger)],
  [numericArray, arrayOf(numericArray, Number)],
  [dateArray, arrayOf(dateArray, (text) => text)],
])

/** How values come out of the database: `int8` and `numeric` as number, `date` as `YYYY-MM-DD`, the rest as `pg` does. */
export const columnTypes = {
  getTypeParser: ((oid: number, format?: 'text' | 'binary') =>
    (format !== 'binary' && parsers.get(oid)) || types.getTypeParser(oid, format)) as typeof types.getTypeParser,
}
