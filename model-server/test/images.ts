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

/** The same image as a bitmap of 24 bits, whose rows run from the bottom up in blue, green and red. */
export async function bitmapOf(encoded: Buffer): Promise<Buffer> {
  const { data, info } = await sharp(encoded).removeAlpha().raw().toBuffer({ resolveWithObject: true })
  const { width, height } = info
  const rowBytes = Math.ceil((width * 3) / 4) * 4
  const bitmap = Buffer.alloc(54 + rowBytes * height)
  bitmap.write('BM')
  for (const [at, value] of [
    [2, bitmap.length],
    [10, 54],
    [14, 40],
    [18, width],
    [22, height],
    [26, 1 | (24 << 16)],
  ] as const)
    bitmap.writeUInt32LE(value, at)
  for (let y = 0; y < height; y++) {
    for (let byte = 0; byte < width * 3; byte++) {
      bitmap[54 + (height - 1 - y) * rowBytes + byte] = data[(y * width + Math.floor(byte / 3)) * 3 + 2 - (byte % 3)]!
    }
  }
  return bitmap
}

export function softmax(logits: number[]): number[] {
  const exponents = logits.map(Math.exp)
  const sum = exponents.reduce((total, value) => total + value, 0)
  return exponents.map((value) => value / sum)
}
