import { type Split, splitNamed } from '../splits.ts'
import { type DatasetFormat, imageExtensions, type Survey } from './dataset-format.ts'

/** Folders that hold images of every class, so they name none. */
const general = /^(images?|imgs?|jpegimages|masks?|labels?|annotations?|data)$/i

/**
 * `<split>/<class>/<file>` or `<class>/<file>`, as TorchVision's ImageFolder reads it; folders around it all are
 * tolerated.
 */
export const classFoldersFormat: DatasetFormat = {
  name: 'class_folders',

  recognise(survey) {
    const wrapping = wrappingFolder(survey)
    let placed = 0
    const classes = new Set<string>()
    for (const [folder, count] of imageFolders(survey)) {
      const place = placeOf(`${folder}/x`, wrapping)
      if (!place) continue
      classes.add(place.label)
      placed += count
    }
    return classes.size > 0 && placed * 2 > survey.images
  },

  async read({ survey, pages, sample, finding, progress }) {
    const wrapping = wrappingFolder(survey)
    const classes = new Set<string>()
    let done = 0
    for await (const files of pages(['image'])) {
      for (const file of files) {
        const place = placeOf(file.path, wrapping)
        if (place) classes.add(place.label)
        else finding({ code: 'image_without_label', message: 'The image lies in no class folder.', ...where(file) })
        await sample({ file, split: place?.split ?? null, label: place?.label ?? null })
      }
      done += files.length
      progress(done / survey.images)
    }
    if (classes.size < 2)
      finding({ code: 'too_few_classes', message: `There is one class: ${[...classes].join(', ')}.` })
    return { classes: [...classes].sort(), tasks: classes.size > 1 ? ['image_classification'] : [] }
  },
}

const where = (file: { id: string; path: string }) => ({ fileId: file.id, path: file.path })

function* imageFolders(survey: Survey): Iterable<[folder: string, images: number]> {
  for (const [folder, extensions] of survey.folders) {
    const images = imageExtensions.reduce((sum, extension) => sum + (extensions.get(extension) ?? 0), 0)
    if (images > 0) yield [folder, images]
  }
}

/** The folders around everything, '' or with a slash at the end: there is more than a class below them. */
function wrappingFolder(survey: Survey): string {
  const folders = [...imageFolders(survey)].map(([folder]) => folder.split('/'))
  let depth = 0
  for (;;) {
    const name = folders[0]?.[depth]
    const shared = name !== undefined && !splitNamed(name) && folders.every((parts) => parts[depth] === name)
    if (!shared || folders.some((parts) => parts.length < depth + 2)) break
    depth++
  }
  const parts = (folders[0] ?? []).slice(0, depth)
  return parts.map((part) => `${part}/`).join('')
}

function placeOf(path: string, wrapping: string): { label: string; split: Split | null } | null {
  if (!path.startsWith(wrapping)) return null
  const parts = path.slice(wrapping.length).split('/')
  const split = splitNamed(parts[0]!)
  const label = parts[split ? 1 : 0]
  if (parts.length < (split ? 3 : 2) || !label || general.test(label)) return null
  return { label, split }
}
