import { type Split, splitNamed, splitOf } from '../splits.ts'
import {
  type AnnotatedObject,
  type DatasetFormat,
  type FormatContext,
  type FormatFile,
  imageExtensions,
} from './dataset-format.ts'
import { findFirst, folderOf, joinPath, stemOf } from './image-lookup.ts'
import { childrenOf, childText, parseXml, type XmlElement } from './xml.ts'

/**
 * Pascal VOC: an XML file per image, boxes in pixels, lists of splits in `ImageSets/Main`.
 * @source Everingham et al., "The PASCAL VOC 2012 Development Kit", §4, §5
 */
export const vocFormat: DatasetFormat = {
  name: 'pascal_voc',

  async recognise(survey, peek) {
    const path = survey.examples.get('xml')?.[0]
    return path !== undefined && survey.images > 0 && (await peek(path, 2000)).includes('<annotation')
  },

  async read(context) {
    const splits = await readSplits(context)
    const classes = new Set<string>()
    let done = 0
    for await (const page of context.pages(['annotation'])) {
      const files = page.filter((file) => file.path.endsWith('.xml'))
      const documents = await Promise.all(files.map((file) => readDocument(context, file)))
      const images = await findFirst(
        context,
        files.map((file, index) => imagePaths(file, documents[index] ?? null)),
      )
      for (const [index, file] of files.entries()) {
        const document = documents[index]
        const image = images[index]
        if (!document) continue
        if (!image) {
          const message = `There is no image ${childText(document, 'filename') ?? stemOf(file.path)}.`
          context.finding({ code: 'annotation_without_image', message, fileId: file.id, path: file.path })
          continue
        }
        const split = splits.get(stemOf(file.path)) ?? splitOf(image.path)
        await context.sample({ file: image, split, annotated: true })
        await readObjects(context, file, document, image, classes)
      }
      done += page.length
      context.progress(done / context.survey.files)
    }
    return { classes: [...classes].sort(), tasks: ['object_detection'], annotatesImages: true }
  },
}

/** From `ImageSets/Main/<split>.txt`, a name a line; a name in two lists is a leak. */
async function readSplits(context: FormatContext): Promise<Map<string, Split>> {
  const splits = new Map<string, Split>()
  for await (const page of context.pages(['annotation'])) {
    for (const file of page) {
      const split = /(^|\/)ImageSets\/Main\/[^/]+\.txt$/.test(file.path) ? splitNamed(stemOf(file.path)) : null
      if (!split) continue
      for (const [index, line] of (await context.text(file)).split('\n').entries()) {
        const name = line.trim()
        const other = splits.get(name)
        if (other && other !== split) {
          const message = `${name} is listed in ${other} and ${split}.`
          context.finding({
            code: 'leakage_between_splits',
            message,
            fileId: file.id,
            path: file.path,
            line: index + 1,
          })
        } else if (name !== '') splits.set(name, split)
      }
    }
  }
  return splits
}

async function readDocument(context: FormatContext, file: FormatFile): Promise<XmlElement | null> {
  try {
    const root = parseXml(await context.text(file))
    if (root.name !== 'annotation') throw new SyntaxError(`the root is <${root.name}>, not <annotation>`)
    return root
  } catch (error) {
    if (context.signal.aborted) throw error
    const message = (error as Error).message
    context.finding({ code: 'unreadable_annotation', message, fileId: file.id, path: file.path })
    return null
  }
}

function imagePaths(file: FormatFile, document: XmlElement | null): string[] {
  const folder = folderOf(file.path)
  const around = folderOf(folder)
  const named = childText(document ?? undefined, 'filename')
  const stem = stemOf(file.path)
  const names = [...(named ? [named] : []), ...imageExtensions.map((extension) => `${stem}.${extension}`)]
  const own = childText(document ?? undefined, 'folder')
  const folders = ['JPEGImages', 'images', ...(own ? [own] : [])].map((name) => joinPath(around, name))
  return [...folders, folder, around].flatMap((base) => names.map((name) => joinPath(base, name)))
}

async function readObjects(
  context: FormatContext,
  file: FormatFile,
  document: XmlElement,
  image: FormatFile,
  classes: Set<string>,
): Promise<void> {
  const objects: AnnotatedObject[] = []
  const where = { fileId: file.id, path: file.path }
  for (const element of childrenOf(document, 'object')) {
    const name = childText(element, 'name')
    const corners = ['xmin', 'ymin', 'xmax', 'ymax'].map((key) =>
      Number.parseFloat(childText(childrenOf(element, 'bndbox')[0], key) ?? ''),
    )
    const [left, top, right, bottom] = corners as [number, number, number, number]
    if (!name || !corners.every(Number.isFinite) || right < left || bottom < top) {
      const message = `The box of ${name || 'an object without a name'} is not usable: ${corners.join(', ')}.`
      context.finding({ code: 'invalid_geometry', message, ...where })
      continue
    }
    classes.add(name)
    objects.push({ class: name, shape: 'box', box: [left, top, right - left, bottom - top] })
  }
  await context.objects(image, objects)
}
