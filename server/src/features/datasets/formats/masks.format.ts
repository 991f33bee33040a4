import { buffer } from 'node:stream/consumers'
import { decodeBmp } from '../../../../../model-server/src/bmp-image.ts'
import { imageTypeOf } from '../file-kinds.ts'
import { bmpPixelsMax, imageFrom } from '../image-source.ts'
import { splitOf } from '../splits.ts'
import {
  type AnnotatedObject,
  type DatasetFormat,
  type FormatContext,
  type FormatFile,
  imageExtensions,
  type Survey,
} from './dataset-format.ts'
import { findFirst, folderOf, stemOf } from './image-lookup.ts'
import { readPaletteIndices } from './palette-png.ts'

const maskFolder = /^(masks?|labels?|annotations?|segmentationclass|segmentations?|gt)$/i
const imageFolder = /^(images?|imgs?|jpegimages)$/i
/** What the common sets use for "no class at all". @source PASCAL VOC 2012 Development Kit §2.2 */
const voidValue = 255

/**
 * Images and mask images of the same name in twin folders such as `images/` and `masks/`; the value of a pixel is the
 * number of its class in `classes.txt`.
 */
export const masksFormat: DatasetFormat = {
  name: 'masks',

  recognise: (survey) => maskFolders(survey).length > 0,

  async read(context) {
    const listed = await readClasses(context)
    const folders = new Set(maskFolders(context.survey))
    const seen = new Set<number>()
    let done = 0
    for await (const page of context.pages(['image', 'annotation'])) {
      const masks = page.filter((file) => folders.has(folderOf(file.path)))
      const images = await findFirst(
        context,
        masks.map((mask) => imagePaths(context.survey, mask)),
      )
      for (const [index, mask] of masks.entries()) {
        const image = images[index]
        if (image) await readMask(context, mask, image, listed, seen)
        else
          context.finding({
            code: 'annotation_without_image',
            message: 'The mask has no image of the same name.',
            fileId: mask.id,
            path: mask.path,
          })
      }
      await context.annotations(masks)
      done += page.length
      context.progress(done / context.survey.files)
    }
    const count = listed.length > 0 ? listed.length : Math.max(-1, ...seen) + 1
    const classes = Array.from({ length: count }, (_, id) => listed[id] ?? `class_${id}`)
    return { classes, tasks: classes.length > 0 ? ['semantic_segmentation'] : [], annotatesImages: true }
  },
}

/** Folders of masks that have a twin with images. */
function maskFolders(survey: Survey): string[] {
  return [...survey.folders.keys()].filter((folder) => {
    const extensions = survey.folders.get(folder)!
    const holdsMasks = extensions.has('png') || extensions.has('tif') || extensions.has('bmp')
    return holdsMasks && maskPart(folder) >= 0 && twins(survey, folder).length > 0
  })
}

const maskPart = (folder: string) => folder.split('/').findLastIndex((part) => maskFolder.test(part))

/** Folders with images that differ from a folder of masks in that one name. */
function twins(survey: Survey, folder: string): string[] {
  const parts = folder.split('/')
  const at = maskPart(folder)
  return [...survey.folders.keys()].filter((other) => {
    const names = other.split('/')
    return (
      names.length === parts.length &&
      imageFolder.test(names[at]!) &&
      names.every((name, index) => index === at || name === parts[index])
    )
  })
}

function imagePaths(survey: Survey, mask: FormatFile): string[] {
  const stem = stemOf(mask.path)
  const stems = [stem, stem.replace(/(_mask|_label|_seg|_L|_gt)$/i, '')]
  return twins(survey, folderOf(mask.path)).flatMap((folder) =>
    stems.flatMap((name) => imageExtensions.map((extension) => `${folder}/${name}.${extension}`)),
  )
}

async function readClasses(context: FormatContext): Promise<string[]> {
  for await (const page of context.pages(['annotation'])) {
    const file = page.find(({ path }) => /(^|\/)(classes|labels|class_names)\.txt$/i.test(path))
    if (!file) continue
    return (await context.text(file))
      .split('\n')
      .map((line) => line.trim())
      .filter((line) => line !== '')
  }
  return []
}

async function readMask(
  context: FormatContext,
  mask: FormatFile,
  image: FormatFile,
  listed: string[],
  seen: Set<number>,
): Promise<void> {
  const where = { fileId: mask.id, path: mask.path }
  await context.sample({ file: image, split: splitOf(image.path), annotated: true })
  if (mask.status === 'INVALID') return
  if (image.width !== null && mask.width !== null && (mask.width !== image.width || mask.height !== image.height)) {
    const message = `The mask has ${mask.width} × ${mask.height} pixels, the image ${image.width} × ${image.height}.`
    context.finding({ code: 'invalid_geometry', message, ...where })
    return
  }
  const areas = await measure(await buffer(await context.open(mask))).catch((error: Error) => error)
  if (areas instanceof Error) {
    context.finding({ code: 'unreadable_annotation', message: areas.message.trim(), ...where })
    return
  }
  if (!areas) {
    const message = 'The mask is a colour image; pixels must hold the number of a class.'
    context.finding({ code: 'unreadable_annotation', message, ...where })
    return
  }
  const objects: AnnotatedObject[] = []
  for (const [value, { area, box }] of areas) {
    if (value === voidValue && listed.length <= voidValue) continue
    if (listed.length > 0 && value >= listed.length) {
      context.finding({ code: 'unknown_class', message: `Class ${value} is not in the list.`, ...where })
      continue
    }
    seen.add(value)
    objects.push({ class: listed[value] ?? `class_${value}`, shape: 'mask', box, area, mask: mask.path })
  }
  await context.objects(image, objects)
}

interface Region {
  area: number
  box: AnnotatedObject['box']
}

/** Pixels and extent of each value, or null for a colour image. */
async function measure(content: Buffer): Promise<Map<number, Region> | null> {
  const indexed = readPaletteIndices(content) ?? bmpIndices(content) ?? (await readGrey(content))
  if (!indexed) return null
  const { values, width, height } = indexed
  const found = new Map<number, { area: number; left: number; top: number; right: number; bottom: number }>()
  for (let y = 0, at = 0; y < height; y++) {
    for (let x = 0; x < width; x++, at++) {
      const region = found.get(values[at]!)
      if (!region) found.set(values[at]!, { area: 1, left: x, top: y, right: x, bottom: y })
      else {
        region.area++
        region.bottom = y
        if (x < region.left) region.left = x
        if (x > region.right) region.right = x
      }
    }
  }
  return new Map(
    [...found]
      .sort(([a], [b]) => a - b)
      .map(([value, { area, left, top, right, bottom }]) => [
        value,
        { area, box: [left, top, right - left + 1, bottom - top + 1] },
      ]),
  )
}

/** A BMP with a palette holds numbers too; null for any other image. */
function bmpIndices(content: Buffer) {
  if (imageTypeOf(content) !== 'image/bmp') return null
  const { indices, width, height } = decodeBmp(content, { pixelsMax: bmpPixelsMax })
  return indices && { values: indices, width, height }
}

/** Grey values, also of a colour image whose channels are all alike; null for real colours. */
async function readGrey(content: Buffer) {
  const { data, info } = await imageFrom(content, { failOn: 'error' })
    .removeAlpha()
    .raw()
    .toBuffer({ resolveWithObject: true })
  const { width, height, channels } = info
  if (channels === 1) return { values: data, width, height }
  const values = new Uint8Array(width * height)
  for (let pixel = 0, at = 0; pixel < values.length; pixel++, at += channels) {
    const value = data[at]!
    if (data[at + 1] !== value || data[at + 2] !== value) return null
    values[pixel] = value
  }
  return { values, width, height }
}
