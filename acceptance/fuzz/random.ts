/** A source of choices that gives the same ones for the same seed. */
export interface Random {
  /** 0 ≤ n < 1. */
  next(): number
  /** A whole number from 0 to `below` - 1. */
  below(below: number): number
  chance(share: number): boolean
  pick<T>(values: readonly T[]): T
}

/** @source mulberry32 (Tommy Ettinger, public domain) */
export function randomOf(seed: number): Random {
  let state = seed >>> 0
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
  const below = (limit: number) => Math.floor(next() * limit)
  return { next, below, chance: (share) => next() < share, pick: (values) => values[below(values.length)]! }
}
