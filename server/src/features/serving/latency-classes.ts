/** Upper limits of the classes of latency in milliseconds, a fifth apart at the most that matters; the last is open. */
export const latencyLimitsMs: readonly number[] = [
  ...[1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10, 12.5, 15, 20, 25, 30, 40, 50, 60, 80, 100, 125, 150, 200, 250, 300, 400, 500],
  ...[600, 800, 1000, 1500, 2000, 3000, 4000, 5000, 7500, 10_000, 15_000, 20_000, 30_000, 45_000, 60_000],
]

export const latencyClassCount = latencyLimitsMs.length + 1

export function latencyClass(milliseconds: number): number {
  let low = 0
  let high = latencyLimitsMs.length
  while (low < high) {
    const middle = (low + high) >> 1
    if (milliseconds <= latencyLimitsMs[middle]!) high = middle
    else low = middle + 1
  }
  return low
}

/** The latency that a share (0 to 1) of the requests did not exceed, read between the limits of its class; null of none. */
export function latencyQuantileMs(counts: readonly number[], share: number): number | null {
  const total = counts.reduce((sum, count) => sum + count, 0)
  if (total === 0) return null
  const rank = share * total
  let before = 0
  for (const [index, count] of counts.entries()) {
    if (count > 0 && before + count >= rank) {
      const low = latencyLimitsMs[index - 1] ?? 0
      const high = latencyLimitsMs[index] ?? latencyLimitsMs.at(-1)!
      return round(low + (high - low) * Math.max(0, (rank - before) / count))
    }
    before += count
  }
  return latencyLimitsMs.at(-1)!
}

const round = (value: number) => Math.round(value * 100) / 100
