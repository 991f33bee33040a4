import { parse } from 'yaml'
import { splitOf } from '../splits.ts'
import { boxOf, tasksOf } from './coco.format.ts'
import {
  type AnnotatedObject,
  type Canvas,
  type DatasetFormat,
  type FormatContext,
  type FormatFile,
  imageExtensions,
  type Survey,
} from './dataset-format.ts'
import { findFirst, folderOf, stemOf } from './image-lookup.ts'

const row = /^\s*\d+(\s+-?[\d.]+(e-?\d+)?){4,}\s*$/i
const rowsLookedAt = 500

/**
 * YOLO: a text file of rows per image, coordinates as shares of its sides, classes by number: boxes, outlines,
 * keypoints or oriented boxes. Classes are named by `data.yaml`, `classes.txt` or `obj.names`.
 * @source docs.ultralytics.com/datasets (detect, segment, pose, obb)
 */
export const yoloFormat: DatasetFormat = {
  name: 'yolo',

  async recognise(survey, peek) {
    for (const path of labelExamples(survey)) {
      const lines = (await peek(path, 4000)).split('\n').filter((line) => line.trim() !== '')
      const whole = lines.length > 1 ? lines.slice(0, -1) : lines
      if (whole.length > 0) return whole.every((line) => row.test(line))
    }
    return false
  },

  async read(context) {
    const config = await readConfig(context)
    const kind = await kindOfRows(context, config)
    const reading: Reading = { ...config, kind, seen: new Set(), shapes: new Set() }
    let done = 0
    for await (const page of context.pages(['annotation'])) {
      const files = page.filter((file) => isLabelFile(file.path))
      const images = await findFirst(context, files.map(imagePaths))
      for (const [index, file] of files.entries()) await readLabels(context, file, images[index] ?? null, reading)
      done += page.length
      context.progress(done / context.survey.files)
    }
    const count = Math.max(reading.names.length, ...[...reading.seen].map((id) => id + 1), 0)
    const classes = Array.from({ length: count }, (_, id) => nameOf(reading, id))
    return { classes, tasks: tasksOf(reading.shapes), annotatesImages: true }
  },
}

interface Config {
  /** By number; empty when no file names them. */
  names: string[]
  /** Keypoints per object and numbers per keypoint. */
  keypoints: [count: number, numbers: number] | null
  oriented: boolean
}

type RowKind = 'box' | 'polygon' | 'keypoints' | 'oriented_box'

interface Reading extends Config {
  kind: RowKind
  seen: Set<number>
  shapes: Set<string>
}

const nameOf = ({ names }: Config, id: number) => names[id] ?? `class_${id}`
const isLabelFile = (path: string) =>
  path.endsWith('.txt') && !/(^|\/)(classes|readme|train|val|test|obj)[^/]*\.txt$/i.test(path)

const labelExamples = (survey: Survey) =>
  survey.images > 0 ? (survey.examples.get('txt') ?? []).filter(isLabelFile) : []

async function readConfig(context: FormatContext): Promise<Config> {
  const config: Config = { names: [], keypoints: null, oriented: false }
  for await (const page of context.pages(['annotation', 'other'])) {
    for (const file of page) {
      if (/\.ya?ml$/i.test(file.path)) readYaml(config, await context.text(file), file, context)
      else if (/(^|\/)(classes\.txt|obj\.names|[^/]+\.names)$/.test(file.path) && config.names.length === 0)
        config.names = linesOf(await context.text(file))
    }
  }
  return config
}

const linesOf = (text: string) =>
  text
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '')

function readYaml(config: Config, text: string, file: FormatFile, context: FormatContext): void {
  try {
    // Aliases could expand without end.
    const { names, kpt_shape: shape, task } = (parse(text, { maxAliasCount: 0 }) ?? {}) as Record<string, unknown>
    if (Array.isArray(names)) config.names = names.map(String)
    else if (names && typeof names === 'object')
      for (const [id, name] of Object.entries(names)) if (/^\d{1,5}$/.test(id)) config.names[Number(id)] = String(name)
    if (Array.isArray(shape) && shape.length === 2) config.keypoints = [Number(shape[0]), Number(shape[1])]
    if (task === 'obb') config.oriented = true
  } catch (error) {
    const message = (error as Error).message.split('\n')[0]!
    context.finding({ code: 'unreadable_annotation', message, fileId: file.id, path: file.path })
  }
}

/** Rows do not say what they are: nine numbers may be four corners or an outline, so all of the first must be alike. */
async function kindOfRows(context: FormatContext, config: Config): Promise<RowKind> {
  if (config.keypoints) return 'keypoints'
  const lengths = new Set<number>()
  const found = await context.find(labelExamples(context.survey))
  for (const file of [...found.values()])
    for (const line of linesOf(await context.text(file)).slice(0, rowsLookedAt)) lengths.add(line.split(/\s+/).length)
  if (config.oriented || (lengths.size === 1 && lengths.has(9))) return 'oriented_box'
  return lengths.size === 1 && lengths.has(5) ? 'box' : 'polygon'
}

/** `labels/` and `images/` stand for each other anywhere in the path; or both lie in one folder. */
function imagePaths(file: FormatFile): string[] {
  const folder = folderOf(file.path)
  const parts = folder.split('/')
  const at = parts.lastIndexOf('labels')
  const twin = at < 0 ? folder : parts.with(at, 'images').join('/')
  const stem = stemOf(file.path)
  return [...new Set([twin, folder])].flatMap((base) =>
    imageExtensions.map((extension) => (base === '' ? `${stem}.${extension}` : `${base}/${stem}.${extension}`)),
  )
}

async function readLabels(
  context: FormatContext,
  file: FormatFile,
  image: FormatFile | null,
  reading: Reading,
): Promise<void> {
  const where = { fileId: file.id, path: file.path }
  if (!image) {
    context.finding({ code: 'annotation_without_image', message: 'There is no image of this name.', ...where })
    return
  }
  await context.sample({ file: image, split: splitOf(image.path), annotated: true })
  if (image.width === null) return
  const text = file.size === 0 ? '' : await context.text(file)
  for (const [index, line] of text.split('\n').entries()) {
    if (line.trim() === '') continue
    const place = { ...where, line: index + 1 }
    if (!row.test(line)) {
      context.finding({
        code: 'unreadable_annotation',
        message: `Not a row of numbers: ${line.slice(0, 80)}`,
        ...place,
      })
      continue
    }
    const [id, ...numbers] = line.trim().split(/\s+/).map(Number) as [number, ...number[]]
    if (reading.names.length > 0 && reading.names[id] === undefined) {
      context.finding({ code: 'unknown_class', message: `Class ${id} is not in the list.`, ...place })
      continue
    }
    const object = objectOf(nameOf(reading, id), numbers, image, reading)
    if (!object) {
      context.finding({ code: 'invalid_geometry', message: `${numbers.length} numbers fit no shape.`, ...place })
      continue
    }
    if (reading.seen.size < 100_000) reading.seen.add(id)
    reading.shapes.add(object.shape)
    await context.objects(image, [object], { line: index + 1 })
  }
}

function objectOf(
  name: string,
  numbers: number[],
  image: Canvas,
  { kind, keypoints }: Reading,
): AnnotatedObject | null {
  const [width, height] = [image.width!, image.height!]
  const scaled = (list: number[]) => list.map((value, index) => value * (index % 2 === 0 ? width : height))
  if (kind === 'keypoints' && keypoints && numbers.length === 4 + keypoints[0] * keypoints[1]) {
    const box = centred(numbers, width, height)
    const points = Array.from({ length: keypoints[0] }, (_, index) => {
      const [x, y, visible = 2] = numbers.slice(4 + index * keypoints[1], 4 + (index + 1) * keypoints[1])
      return [x! * width, y! * height, visible]
    })
    return box && { class: name, shape: 'keypoints', box, keypoints: points.flat() }
  }
  if (numbers.length === 4) {
    const box = centred(numbers, width, height)
    return box && { class: name, shape: 'box', box }
  }
  if (numbers.length % 2 !== 0 || numbers.length < 6) return null
  const polygon = scaled(numbers)
  const shape = kind === 'oriented_box' && numbers.length === 8 ? 'oriented_box' : 'polygon'
  const box = boxOf(polygon)
  return box && { class: name, shape, box, polygons: [polygon] }
}

function centred([x, y, w, h]: number[], width: number, height: number): AnnotatedObject['box'] | null {
  if (!(w! >= 0 && h! >= 0)) return null
  return [(x! - w! / 2) * width, (y! - h! / 2) * height, w! * width, h! * height]
}
