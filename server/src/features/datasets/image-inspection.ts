import sharp from 'sharp'
import { extensionOf, imageTypeOf, kindOf } from './file-kinds.ts'
import { imageFrom, pixelBytes, pixelsMax } from './image-source.ts'
import { decodedImages } from './memory-budget.ts'

const hashWidth = 9
const hashHeight = 8

// Many small images at once beat many threads on one, and no image is looked at twice.
sharp.concurrency(1)
sharp.cache(false)

export interface Inspection {
  status: 'VALID' | 'INVALID'
  mediaType: string
  /** As shown, after the orientation in its metadata; null when unreadable. */
  width: number | null
  height: number | null
  /** dHash: 16 hexadecimal digits. */
  fingerprint: string | null
  faultCode: 'unreadable_image' | 'image_too_large' | 'wrong_extension' | null
  fault: string | null
}

/** Up to here an image is decoded as it is; beyond, scaling down while decoding is cheaper. */
const smallBytes = 128 * 1024
const smallPixels = 512 * 512

/** Decodes an image to its last byte and says what it is. Never throws for bad content. */
export async function inspectImage(path: string, content: Buffer): Promise<Inspection> {
  const named = kindOf(path).mediaType
  const found = imageTypeOf(content)
  if (!found) return invalid(named, 'unreadable_image', 'This is not an image that can be read.')
  try {
    const small = content.length <= smallBytes ? await decodeSmall(content).catch(unlessTooLarge) : null
    const decoded = small ?? (await decodeScaled(content).catch(unlessTooLarge))
    if (!decoded) return invalid(found, 'image_too_large', 'The image has more pixels than can be decoded safely.')
    const fits = named === found
    return {
      status: 'VALID',
      mediaType: found,
      width: decoded.width,
      height: decoded.height,
      fingerprint: differenceHash(decoded.grey),
      faultCode: fits ? null : 'wrong_extension',
      fault: fits ? null : `The content is ${found}, the name ends in .${extensionOf(path)}.`,
    }
  } catch (error) {
    return invalid(found, 'unreadable_image', reasonOf(error as Error))
  }
}

interface Decoded {
  width: number
  height: number
  /** Nine by eight grey values of the upright image. */
  grey: ArrayLike<number>
}

const unlessTooLarge = (error: Error): null => {
  if (/pixel limit/.test(error.message)) return null
  throw error
}

async function decodeSmall(content: Buffer): Promise<Decoded> {
  const { data, info } = await imageFrom(content, {
    failOn: 'error',
    limitInputPixels: smallPixels,
    sequentialRead: true,
  })
    .autoOrient()
    .raw()
    .toBuffer({ resolveWithObject: true })
  return { width: info.width, height: info.height, grey: averages(data, info.width, info.height, info.channels) }
}

/** JPEGs are decoded at an eighth of their size, which reads every byte of them and costs a fraction. */
async function decodeScaled(content: Buffer): Promise<Decoded | null> {
  const image = imageFrom(content, { failOn: 'error', limitInputPixels: false, sequentialRead: true })
  const { autoOrient } = await image.metadata()
  const pixels = autoOrient.width * autoOrient.height
  if (pixels > pixelsMax) return null
  const grey = await decodedImages(pixels * pixelBytes, () =>
    image.autoOrient().resize(hashWidth, hashHeight, { fit: 'fill' }).greyscale().raw().toBuffer(),
  )
  return { ...autoOrient, grey }
}

/** Means of the first channels over nine by eight even parts of the image. */
function averages(data: Buffer, width: number, height: number, channels: number): number[] {
  const colours = Math.min(3, channels)
  const means: number[] = []
  for (let row = 0; row < hashHeight; row++) {
    const [top, bottom] = part(row, hashHeight, height)
    for (let column = 0; column < hashWidth; column++) {
      const [left, right] = part(column, hashWidth, width)
      let sum = 0
      for (let y = top; y < bottom; y++)
        for (let at = (y * width + left) * channels, end = (y * width + right) * channels; at < end; at += channels)
          for (let colour = 0; colour < colours; colour++) sum += data[at + colour]!
      means.push(sum / ((bottom - top) * (right - left)))
    }
  }
  return means
}

/** From and to (exclusive) of one of `count` parts; at least one pixel. */
function part(index: number, count: number, length: number): [number, number] {
  const from = Math.min(length - 1, Math.floor((index * length) / count))
  return [from, Math.max(from + 1, Math.floor(((index + 1) * length) / count))]
}

const invalid = (mediaType: string, faultCode: Inspection['faultCode'], fault: string): Inspection => ({
  status: 'INVALID',
  mediaType,
  width: null,
  height: null,
  fingerprint: null,
  faultCode,
  fault,
})

/** What libvips says, without its own prefixes. */
function reasonOf(error: Error): string {
  const line = error.message.trim().split('\n')[0]!
  return line.replace(/^(Input buffer has corrupt header: |Vips\w+: |\w+load_buffer: )+/g, '').slice(0, 300)
}

/** One bit for each pair of neighbours. @source N. Krawetz, "Kind of Like That" (dHash, 2013) */
function differenceHash(grey: ArrayLike<number>): string {
  let bits = 0n
  for (let row = 0; row < hashHeight; row++) {
    for (let column = 0; column < hashWidth - 1; column++) {
      const at = row * hashWidth + column
      bits = (bits << 1n) | (grey[at]! < grey[at + 1]! ? 1n : 0n)
    }
  }
  return bits.toString(16).padStart(16, '0')
}
