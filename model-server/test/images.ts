import sharp from 'sharp'
import { probeMean, probeSize, probeStd } from './model-folders.ts'

export type Color = [red: number, green: number, blue: number]

/** Logits that the probe model must give for an image of one colour. */
export function solidLogits(color: Color): number[] {
  const normalized = color.map((value, channel) => (value / 255 - probeMean[channel]!) / probeStd[channel]!)
  const sum = normalized.reduce((total, value) => total + value, 0)
  return [...normalized, sum / 3, sum / 3]
}

export const solid = ([r, g, b]: Color, size = { width: 31, height: 17 }) =>
  sharp({ create: { ...size, channels: 3, background: { r, g, b } } })

/** A preprocessed [3][height][width] tensor of one colour. */
export function solidTensor(color: Color): number[][][] {
  return color.map((value, channel) =>
    Array.from({ length: probeSize.height }, () =>
      new Array<number>(probeSize.width).fill((value / 255 - probeMean[channel]!) / probeStd[channel]!),
    ),
  )
}

/** White on the left half and black on the right, stored as drawn. */
export function leftLit(): Promise<Buffer> {
  const { width, height } = { width: 32, height: 24 }
  const pixels = Buffer.from(
    Array.from({ length: width * height * 3 }, (_, index) => (Math.floor(index / 3) % width < width / 2 ? 255 : 0)),
  )
  return sharp(pixels, { raw: { width, height, channels: 3 } })
    .png()
    .toBuffer()
}

export function softmax(logits: number[]): number[] {
  const exponents = logits.map(Math.exp)
  const sum = exponents.reduce((total, value) => total + value, 0)
  return exponents.map((value) => value / sum)
}
