export interface SeriesPoint {
  step: number
  value: number
  /** Milliseconds since 1970. */
  ts: number
}

/**
 * At most `maxPoints` of a series ordered by step, and hardly fewer: its first and last point, and of each stretch between
 * them the lowest and the highest, or its ends where it is level. Points that are no number are kept only where a stretch
 * holds nothing else.
 * @source contract B4.9
 */
export function downsample(points: SeriesPoint[], maxPoints: number): SeriesPoint[] {
  if (points.length <= maxPoints) return points
  const last = points.length - 1
  if (maxPoints < 4) return maxPoints < 2 ? [points[last]!] : [points[0]!, points[last]!]
  const stretches = Math.floor((maxPoints - 2) / 2)
  const kept = [points[0]!]
  for (let stretch = 0; stretch < stretches; stretch++) {
    const from = 1 + Math.floor((stretch * (last - 1)) / stretches)
    const to = 1 + Math.floor(((stretch + 1) * (last - 1)) / stretches)
    const [lowest, highest] = extremes(points, from, to)
    const [first, second] = lowest === highest ? [from, to - 1] : [lowest, highest]
    kept.push(points[Math.min(first, second)]!)
    if (first !== second) kept.push(points[Math.max(first, second)]!)
  }
  kept.push(points[last]!)
  return kept
}

/** Places of the lowest and the highest value from `from` to before `to`. */
function extremes(points: SeriesPoint[], from: number, to: number): [lowest: number, highest: number] {
  let lowest = from
  let highest = from
  for (let place = from + 1; place < to; place++) {
    const { value } = points[place]!
    if (value < points[lowest]!.value || Number.isNaN(points[lowest]!.value)) lowest = place
    if (value > points[highest]!.value || Number.isNaN(points[highest]!.value)) highest = place
  }
  return [lowest, highest]
}

/** Four points of every 256 outline the newest points as the chunks of the store outline the older ones. */
export function outline(points: SeriesPoint[], size = 256): SeriesPoint[] {
  const kept: SeriesPoint[] = []
  for (let from = 0; from < points.length; from += size) kept.push(...downsample(points.slice(from, from + size), 4))
  return kept
}
