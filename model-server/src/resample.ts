const precisionBits = 22
const half = 1 << (precisionBits - 1)

/** Which source pixels make each target pixel along one axis, with fixed-point weights. */
type Axis = { first: Int32Array; count: Int32Array; weights: Int32Array; stride: number }

/**
 * Resizes 8-bit RGB (rows of interleaved pixels) by antialiased bilinear interpolation.
 * Gives the same bytes as Pillow's `Image.resize(size, BILINEAR)`, which models are trained with: a different filter
 * at serving time would show the model images it has never seen.
 * @source Pillow `Resample.c`: triangle filter, support scaled by the reduction, 22-bit weights, horizontal pass first
 */
export function resampleBilinear(
  source: Uint8Array,
  from: { width: number; height: number },
  to: { width: number; height: number },
): Uint8Array {
  const rows = new Uint8Array(to.width * from.height * 3)
  resampleLines(source, rows, axis(from.width, to.width), {
    lines: from.height,
    sourceLine: from.width * 3,
    sourceStep: 3,
    targetLine: to.width * 3,
    targetStep: 3,
  })
  const pixels = new Uint8Array(to.width * to.height * 3)
  resampleLines(rows, pixels, axis(from.height, to.height), {
    lines: to.width,
    sourceLine: 3,
    sourceStep: to.width * 3,
    targetLine: 3,
    targetStep: to.width * 3,
  })
  return pixels
}

type Layout = { lines: number; sourceLine: number; sourceStep: number; targetLine: number; targetStep: number }

function resampleLines(source: Uint8Array, target: Uint8Array, along: Axis, layout: Layout): void {
  const { first, count, weights, stride } = along
  const { lines, sourceLine, sourceStep, targetLine, targetStep } = layout
  for (let position = 0; position < first.length; position += 1) {
    const start = position * stride
    const end = start + count[position]!
    for (let line = 0; line < lines; line += 1) {
      let red = half
      let green = half
      let blue = half
      let from = line * sourceLine + first[position]! * sourceStep
      for (let index = start; index < end; index += 1, from += sourceStep) {
        const weight = weights[index]!
        red += source[from]! * weight
        green += source[from + 1]! * weight
        blue += source[from + 2]! * weight
      }
      const to = line * targetLine + position * targetStep
      target[to] = clampByte(red >> precisionBits)
      target[to + 1] = clampByte(green >> precisionBits)
      target[to + 2] = clampByte(blue >> precisionBits)
    }
  }
}

function clampByte(value: number): number {
  return value < 0 ? 0 : value > 255 ? 255 : value
}

function axis(sourceSize: number, targetSize: number): Axis {
  const scale = sourceSize / targetSize
  const support = Math.max(1, scale)
  const stride = Math.ceil(support) * 2 + 1
  const first = new Int32Array(targetSize)
  const count = new Int32Array(targetSize)
  const weights = new Int32Array(targetSize * stride)
  for (let position = 0; position < targetSize; position += 1) {
    const center = (position + 0.5) * scale
    const start = Math.max(0, Math.trunc(center - support + 0.5))
    const end = Math.min(sourceSize, Math.trunc(center + support + 0.5))
    const exact = Array.from({ length: end - start }, (_, index) =>
      Math.max(0, 1 - Math.abs(index + start - center + 0.5) / support),
    )
    const sum = exact.reduce((total, weight) => total + weight, 0)
    first[position] = start
    count[position] = end - start
    for (const [index, weight] of exact.entries()) {
      weights[position * stride + index] = Math.trunc((weight / sum) * (1 << precisionBits) + 0.5)
    }
  }
  return { first, count, weights, stride }
}
