import { workerData } from 'node:worker_threads'
import sharp from 'sharp'
import { resampleBilinear } from './resample.ts'
import { serveTasks } from './thread-tasks.ts'

const { width, height, maxImagePixels } = workerData as { width: number; height: number; maxImagePixels: number }

// The bytes come from strangers: only decoders of pixel formats may see them, no SVG, PDF or ImageMagick.
sharp.block({ operation: ['VipsForeignLoad'] })
const decoders = ['Jpeg', 'Png', 'Webp', 'Nsgif', 'Tiff', 'Heif'].map((format) => `VipsForeignLoad${format}`)
sharp.unblock({ operation: decoders })
sharp.concurrency(1)
sharp.cache(false)

/*
 * Orientation is applied; colour profiles and alpha are ignored, as Pillow's convert('RGB') does, so that JPEG, PNG,
 * WebP, GIF and TIFF give Pillow's pixels bit for bit. AVIF and CMYK differ by their converters, and 16-bit grey is
 * scaled to 8 bits where Pillow clips it.
 */
serveTasks<Uint8Array, Uint8Array>(async (encoded) => {
  const image = sharp(encoded, { limitInputPixels: maxImagePixels, autoOrient: true, ignoreIcc: true, failOn: 'error' })
  const raw = image.removeAlpha().toColourspace('srgb').raw({ depth: 'uchar' })
  // Not toUint8Array(): in sharp 0.35.5 it leaks every decoded image.
  const { data, info } = await raw.toBuffer({ resolveWithObject: true })
  if (info.channels !== 3) throw new Error(`decoded to ${info.channels} channels instead of 3`)
  const pixels = resampleBilinear(data, info, { width, height })
  return [pixels, [pixels.buffer as ArrayBuffer]]
})
