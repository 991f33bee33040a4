import { type Split, splitNamed, splitOf } from '../splits.ts'
import type {
  AnnotatedObject,
  Box,
  Canvas,
  DatasetFormat,
  FormatContext,
  FormatFile,
  TaskType,
} from './dataset-format.ts'
import { findFirst, folderOf, imageFoldersNear, joinPath, stemOf } from './image-lookup.ts'
import { readJsonArrays } from './json-arrays.ts'

const imagesPerLookup = 500
/** The folder that had the last image, and the next best; all the others only for what is in neither. */
const basesTriedFirst = 2
const peekBytes = 64 * 1024

interface CocoImage {
  id: number | string
  file_name: string
}

interface CocoAnnotation {
  id?: number | string
  image_id: number | string
  category_id: number | string
  bbox?: number[]
  segmentation?: number[][] | { counts: number[] | string; size: [number, number] }
  keypoints?: number[]
  iscrowd?: number
  area?: number
}

/**
 * COCO: JSON files of images, annotations and categories, with boxes, polygons, run lengths and keypoints. Read as a
 * stream, twice: images may stand behind their annotations.
 * @source cocodataset.org, "Data format"
 */
export const cocoFormat: DatasetFormat = {
  name: 'coco',

  async recognise(survey, peek) {
    for (const path of survey.examples.get('json') ?? []) if (isCoco(await peek(path, peekBytes))) return true
    return false
  },

  async read(context) {
    const reading: Reading = { classes: new Map(), shapes: new Set(), images: new Map(), seen: new Set() }
    for await (const files of context.pages(['annotation'])) {
      for (const file of files.filter((one) => one.path.endsWith('.json'))) {
        reading.images.clear()
        try {
          await readImages(context, file, reading)
          await readAnnotations(context, file, reading)
        } catch (error) {
          if (context.signal.aborted) throw error
          if (!(error instanceof SyntaxError || error instanceof TypeError)) throw error
          context.finding({ code: 'unreadable_annotation', message: error.message, fileId: file.id, path: file.path })
        }
      }
    }
    return { classes: [...new Set(reading.classes.values())], tasks: tasksOf(reading.shapes), annotatesImages: true }
  },
}

interface Reading {
  /** Category id → name, over all files: the same id with another name in a second file takes that file's name. */
  classes: Map<string, string>
  shapes: Set<string>
  /** Image id of the file being read → the image. */
  images: Map<string, Canvas>
  /** Images that were told of already, by an earlier annotation file. */
  seen: Set<string>
}

const isCoco = (start: string) => /"(images|annotations|categories)"\s*:\s*\[/.test(start)

/** From the folders on the way, or from the file's name as in `instances_val2017.json`. */
function splitOfFile(path: string): Split | null {
  const word = /(?:^|[_.-])(train(?:ing)?|val(?:id(?:ation)?)?|test(?:ing)?)\d*(?:[_.-]|$)/i.exec(stemOf(path))?.[1]
  return (word && splitNamed(word)) || splitOf(path)
}

async function readImages(context: FormatContext, file: FormatFile, reading: Reading): Promise<void> {
  const folders = imageFoldersNear(context.survey, folderOf(file.path))
  const bases = [...new Set([folderOf(file.path), ...folders, ''])]
  const split = splitOfFile(file.path)
  let batch: { image: CocoImage; line: number }[] = []
  const flush = async () => {
    const near = await lookUp(context, batch, bases.slice(0, basesTriedFirst))
    const missed = batch.filter((_, index) => !near[index])
    const far = missed.length > 0 ? await lookUp(context, missed, bases.slice(basesTriedFirst)) : []
    const found = near.map((hit) => hit ?? far.shift() ?? null)
    for (const [index, { image, line }] of batch.entries()) {
      const hit = found[index]
      if (!hit) {
        const message = `There is no image ${image.file_name}.`
        context.finding({ code: 'annotation_without_image', message, fileId: file.id, path: file.path, line })
        continue
      }
      const { id, path, width, height } = hit
      reading.images.set(String(image.id), { id, path, width, height })
      if (reading.seen.has(id)) continue
      reading.seen.add(id)
      await context.sample({ file: hit, split: split ?? splitOf(path), annotated: true })
      // The folder that had the last image most likely has the next.
      const base = bases.findIndex((one) => joinPath(one, image.file_name) === path)
      if (base > 0) bases.unshift(...bases.splice(base, 1))
    }
    batch = []
  }
  for await (const { key, value, line } of readJsonArrays(await context.open(file), headKeys)) {
    if (key === 'categories') addCategory(reading, value)
    else if (isImage(value)) batch.push({ image: value, line })
    else malformed(context, file, line, 'an image without id or file_name')
    if (batch.length >= imagesPerLookup) await flush()
  }
  await flush()
}

/** The image of each entry in the first folder that has it. */
function lookUp(context: FormatContext, batch: { image: CocoImage }[], bases: string[]) {
  return findFirst(
    context,
    batch.map(({ image }) => bases.map((base) => joinPath(base, image.file_name))),
  )
}

const headKeys = new Set(['images', 'categories'])
const annotationKeys = new Set(['annotations'])

function addCategory(reading: Reading, value: unknown): void {
  const { id, name } = (value ?? {}) as { id?: unknown; name?: unknown }
  if (id !== undefined && typeof name === 'string') reading.classes.set(String(id), name)
}

function isImage(value: unknown): value is CocoImage {
  const { id, file_name: name } = (value ?? {}) as Partial<CocoImage>
  return id !== undefined && typeof name === 'string' && name !== ''
}

function malformed(context: FormatContext, file: FormatFile, line: number, what: string): void {
  const message = `There is ${what}.`
  context.finding({ code: 'unreadable_annotation', message, fileId: file.id, path: file.path, line })
}

async function readAnnotations(context: FormatContext, file: FormatFile, reading: Reading): Promise<void> {
  const where = { fileId: file.id, path: file.path }
  for await (const { value, line } of readJsonArrays(await context.open(file), annotationKeys)) {
    const annotation = value as Partial<CocoAnnotation> | null
    if (!annotation || annotation.image_id === undefined || annotation.category_id === undefined) {
      malformed(context, file, line, 'an annotation without image_id or category_id')
      continue
    }
    const canvas = reading.images.get(String(annotation.image_id))
    const name = reading.classes.get(String(annotation.category_id))
    if (!canvas) {
      const message = `The annotation is of image ${annotation.image_id}, which is not there.`
      context.finding({ code: 'annotation_without_image', message, ...where, line })
    } else if (name === undefined) {
      const message = `Category ${annotation.category_id} is not in the list.`
      context.finding({ code: 'unknown_class', message, ...where, line })
    } else {
      const object = objectOf(name, annotation)
      if (!object) {
        context.finding({ code: 'invalid_geometry', message: 'The annotation has no usable shape.', ...where, line })
        continue
      }
      reading.shapes.add(object.shape)
      await context.objects(canvas, [object], { line })
    }
  }
}

function objectOf(name: string, annotation: Partial<CocoAnnotation>): AnnotatedObject | null {
  const { segmentation, keypoints, bbox } = annotation
  const polygons = Array.isArray(segmentation) ? segmentation.filter((ring) => isNumbers(ring) && ring.length >= 6) : []
  const rle = segmentation && !Array.isArray(segmentation) && segmentation.counts ? segmentation : null
  const box = isNumbers(bbox) && bbox.length === 4 ? (bbox as Box) : boxOf(polygons.flat())
  if (!box || box[2] < 0 || box[3] < 0) return null
  const crowd = annotation.iscrowd === 1 ? { crowd: true } : {}
  if (isNumbers(keypoints) && keypoints.length > 0 && keypoints.length % 3 === 0)
    return { class: name, shape: 'keypoints', box, keypoints, ...(polygons.length ? { polygons } : {}), ...crowd }
  if (rle) return { class: name, shape: 'mask', box, rle: { size: rle.size, counts: rle.counts }, ...crowd }
  if (polygons.length > 0) return { class: name, shape: 'polygon', box, polygons, ...crowd }
  return { class: name, shape: 'box', box, ...crowd }
}

const isNumbers = (value: unknown): value is number[] =>
  Array.isArray(value) && value.every((number) => Number.isFinite(number))

/** The box around flat `[x, y, …]` points, or null for none. */
export function boxOf(points: number[]): Box | null {
  if (points.length < 4) return null
  const [xs, ys] = [points.filter((_, index) => index % 2 === 0), points.filter((_, index) => index % 2 === 1)]
  const least = (values: number[]) => values.reduce((a, b) => Math.min(a, b))
  const most = (values: number[]) => values.reduce((a, b) => Math.max(a, b))
  return [least(xs), least(ys), most(xs) - least(xs), most(ys) - least(ys)]
}

/** The tasks that objects of these shapes can train. */
export function tasksOf(shapes: Set<string>): TaskType[] {
  const tasks: TaskType[] = []
  // Every object has a box around it.
  if (shapes.size > 0) tasks.push('object_detection')
  if (shapes.has('polygon') || shapes.has('mask')) tasks.push('instance_segmentation')
  if (shapes.has('keypoints')) tasks.push('keypoint_detection')
  if (shapes.has('oriented_box')) tasks.push('oriented_object_detection')
  return tasks
}
