import sharp, { type Sharp, type SharpOptions } from 'sharp'
import { decodeBmp } from '../../../../model-server/src/bmp-image.ts'
import { imageTypeOf } from './file-kinds.ts'

/** Larger images are refused: decoding one would take gigabytes. */
export const pixelsMax = 500_000_000
/** What a decoded pixel may take: an interlaced or turned image is held whole. */
export const pixelBytes = 4
/** These are decoded here, pixel by pixel. */
export const bmpPixelsMax = 64_000_000

/** An image to be worked on, whatever its type: sharp knows all but BMP. Throws when it is none or damaged. */
export function imageFrom(content: Buffer, options: SharpOptions): Sharp {
  if (imageTypeOf(content) !== 'image/bmp') return sharp(content, options)
  const limit = typeof options.limitInputPixels === 'number' ? options.limitInputPixels : bmpPixelsMax
  const { data, width, height, channels } = decodeBmp(content, { pixelsMax: Math.min(limit, bmpPixelsMax) })
  return sharp(data, { raw: { width, height, channels }, limitInputPixels: false })
}
