import { workerData } from 'node:worker_threads'
import sharp, { type Sharp, type SharpOptions } from 'sharp'
import { decodeBmp, isBmp } from './bmp-image.ts'
import { resampleBilinear } from './resample.ts'
import { serveTasks } from './thread-tasks.ts'

const { width, height, maxImagePixels } = workerData as { width: number; height: number; maxImagePixels: number }

// The bytes come from strangers: only decoders of pixel formats may see them, no SVG, PDF or ImageMagick.
sharp.block({ operation: ['VipsForeignLoad'] })
const decoders = ['Jpeg', 'Png', 'Webp', 'Nsgif', 'Tiff', 'Heif'].map((format) => `VipsForeignLoad${format}`)
sharp.unblock({ operation: decoders })
sharp.concurrency(1)
sharp.cache(false)

/** What is decoded without sharp lies in memory whole and takes a second for so many pixels. */
const bmpPixelsMax = 64_000_000

type Pixels = { data: Uint8Array; width: number; height: number }

/*
 * Orientation is applied; colour profiles and alpha are ignored, as Pillow's convert('RGB') does, so that JPEG, PNG,
 * WebP, GIF, TIFF and BMP give Pillow's pixels bit for bit, and inks (CMYK) those of its plain formula. AVIF differs by its
 * converter, and 16-bit grey is scaled to 8 bits where Pillow clips it.
 */
async function decode(encoded: Uint8Array): Promise<Pixels> {
  const image = opened(encoded, {
    limitInputPixels: maxImagePixels,
    autoOrient: true,
    ignoreIcc: true,
    failOn: 'error',
  })
  const { space } = await image.metadata()
  const isInk = space === 'cmyk'
  const wanted = isInk
    ? image.removeAlpha().pipelineColourspace('cmyk').toColourspace('cmyk')
    : image.removeAlpha().toColourspace('srgb')
  // Not toUint8Array(): in sharp 0.35.5 it leaks every decoded image.
  const { data, info } = await wanted.raw({ depth: 'uchar' }).toBuffer({ resolveWithObject: true })
  const channels = isInk ? 4 : 3
  if (info.channels !== channels) throw new Error(`decoded to ${info.channels} channels instead of ${channels}`)
  return { data: isInk ? rgbFromInks(data) : data, width: info.width, height: info.height }
}

/** sharp knows all types but BMP. */
function opened(encoded: Uint8Array, options: SharpOptions): Sharp {
  if (!isBmp(encoded)) return sharp(encoded, options)
  const content = Buffer.from(encoded.buffer, encoded.byteOffset, encoded.byteLength)
  const { data, width, height, channels } = decodeBmp(content, { pixelsMax: Math.min(maxImagePixels, bmpPixelsMax) })
  return sharp(data, { raw: { width, height, channels } })
}

/** RGB from cyan, magenta, yellow and black, 8 bits each. @source Pillow `Convert.c`, cmyk2rgb */
function rgbFromInks(inks: Uint8Array): Uint8Array {
  const rgb = new Uint8Array((inks.length / 4) * 3)
  for (let from = 0, to = 0; from < inks.length; from += 4) {
    const light = 255 - inks[from + 3]!
    for (let ink = 0; ink < 3; ink += 1, to += 1) {
      const product = inks[from + ink]! * light + 128
      rgb[to] = light - (((product >> 8) + product) >> 8)
    }
  }
  return rgb
}

serveTasks<Uint8Array, Uint8Array>(async (encoded) => {
  const { data, ...size } = await decode(encoded)
  const pixels = resampleBilinear(data, size, { width, height })
  return [pixels, [pixels.buffer as ArrayBuffer]]
})
