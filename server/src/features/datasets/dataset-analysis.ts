import { buffer } from 'node:stream/consumers'
import type { BlobStore } from '../../platform/blobs/blob-store.ts'
import type { TenantCtx } from '../../platform/context.ts'
import { read, transaction } from '../../platform/transaction.ts'
import { findByPaths } from './dataset-files.store.ts'
import {
  forgetSamples,
  imageSizes,
  insertObjects,
  listFaultyFiles,
  listFormatFiles,
  listIdentical,
  listLookalikes,
  listUnannotated,
  markDuplicates,
  type ObjectInsert,
  type Outcome,
  type SampleUpdate,
  saveSamples,
  type Target,
} from './dataset-validation.store.ts'
import { extensionOf } from './file-kinds.ts'
import { FindingCollector } from './finding-collector.ts'
import type {
  DatasetFormat,
  FormatContext,
  FormatFile,
  FormatResult,
  Sample,
  Survey,
} from './formats/dataset-format.ts'
import { datasetFormats } from './formats/dataset-formats.ts'
import type { ClassCount, FindingCode } from './validation-report.ts'

const filesPerPage = 1000
const objectsPerBatch = 2000
/** An annotation file that is read whole must fit this. */
const textBytesMax = 64 * 1024 * 1024

/** How far the analysis is, from 0 to 1. */
export type Progress = (fraction: number, message: string) => void

/**
 * Reads a whole dataset: finds its layout, keeps what it says of each file, and makes the report. Files were inspected
 * before. Holds a page of files at a time.
 */
export async function analyseDataset(
  ctx: TenantCtx,
  target: Target,
  revision: number,
  signal: AbortSignal,
  progress: Progress,
): Promise<Outcome> {
  const findings = new FindingCollector()
  await transaction(ctx, (tx) => forgetSamples(tx, target))
  const survey = await surveyFiles(ctx, target, signal)
  const peek = (path: string, bytes: number) => peekFile(ctx, target, path, bytes)
  const format = await recogniseFormat(survey, peek)
  const sink = new SampleSink(ctx, target, findings)
  progress(0.05, format ? `reading as ${format.name}` : 'no known layout')
  const context = formatContext(ctx, target, survey, sink, findings, signal, progress)
  const result: FormatResult = format ? await format.read(context) : { classes: [], tasks: [] }
  await sink.flush()
  if (!format && survey.files > 0)
    findings.add({ code: 'unknown_format', message: 'The files follow no layout that is understood.' })
  progress(0.9, 'comparing images')
  await addFileFindings(ctx, target, findings)
  if (result.annotatesImages) await addUnannotated(ctx, target, findings)
  addClassFindings(result, sink, findings)
  return outcomeOf(ctx, target, revision, { survey, format, result, sink, findings })
}

interface Parts {
  survey: Survey
  format: DatasetFormat | null
  result: FormatResult
  sink: SampleSink
  findings: FindingCollector
}

async function outcomeOf(ctx: TenantCtx, target: Target, revision: number, parts: Parts): Promise<Outcome> {
  const { survey, format, result, sink, findings } = parts
  const sizes = await read(ctx, (tx) => imageSizes(tx, target))
  const errors = findings.count('error')
  const matchRate = result.annotatesImages && sizes.images > 0 ? sizes.annotated / sizes.images : null
  const total = result.rows ?? survey.files
  const ok = Math.max(0, total - errors)
  return {
    revision,
    status: errors > 0 ? 'FAILED' : findings.count('warning') > 0 ? 'PASSED_WITH_WARNINGS' : 'PASSED',
    report: findings.report({ checkedAt: ctx.clock.now(), total, ok, matchRate }),
    statistics: {
      images: sizes.images,
      width: sizes.width,
      height: sizes.height,
      annotated_images: sizes.annotated,
      objects: sink.objects,
      objects_by_shape: sink.objectsByShape,
      rows: result.rows ?? 0,
      classes: result.classes.map((name) => sink.classCount(name)),
    },
    format: format?.name ?? null,
    classes: result.classes,
    tasks: result.tasks,
    splits: sink.splits,
    variables: result.variables ?? null,
    recordCount: result.rows ?? sizes.images,
  }
}

async function surveyFiles(ctx: TenantCtx, target: Target, signal: AbortSignal): Promise<Survey> {
  const survey: Survey = { images: 0, files: 0, folders: new Map(), examples: new Map() }
  for await (const page of pagesOf(ctx, target, null, signal)) {
    for (const file of page) {
      const extension = extensionOf(file.path)
      const folder = file.path.slice(0, Math.max(0, file.path.lastIndexOf('/')))
      const extensions = survey.folders.get(folder) ?? new Map<string, number>()
      survey.folders.set(folder, extensions.set(extension, (extensions.get(extension) ?? 0) + 1))
      const examples = survey.examples.get(extension) ?? []
      if (examples.length < 50) survey.examples.set(extension, [...examples, file.path])
      survey.files++
      if (file.kind === 'image') survey.images++
    }
  }
  return survey
}

async function recogniseFormat(survey: Survey, peek: (path: string, bytes: number) => Promise<string>) {
  for (const format of datasetFormats) if (await format.recognise(survey, peek)) return format
  return null
}

async function* pagesOf(
  ctx: TenantCtx,
  target: Target,
  kinds: string[] | null,
  signal: AbortSignal,
): AsyncGenerator<FormatFile[]> {
  let after = ''
  for (;;) {
    signal.throwIfAborted()
    const page = await read(ctx, (tx) => listFormatFiles(tx, target, after, filesPerPage, kinds))
    if (page.length > 0) yield page
    if (page.length < filesPerPage) return
    after = page.at(-1)!.path
  }
}

async function peekFile(ctx: TenantCtx, target: Target, path: string, bytes: number): Promise<string> {
  const [file] = await read(ctx, (tx) => findByPaths(tx, target.tenantId, target.datasetId, [path]))
  if (!file || file.size === 0) return ''
  return (await buffer(await ctx.blobs.open(file.digest, { start: 0, end: Math.min(bytes, file.size) - 1 }))).toString()
}

function formatContext(
  ctx: TenantCtx,
  target: Target,
  survey: Survey,
  sink: SampleSink,
  findings: FindingCollector,
  signal: AbortSignal,
  progress: Progress,
): FormatContext {
  return {
    survey,
    signal,
    pages: (kinds) => pagesOf(ctx, target, kinds, signal),
    async find(paths) {
      const files = await read(ctx, (tx) => findByPaths(tx, target.tenantId, target.datasetId, paths))
      return new Map(files.map((file) => [file.path, file]))
    },
    open: (file) => ctx.blobs.open(file.digest),
    text: (file) => textOf(ctx.blobs, file),
    sample: (sample) => sink.add(sample),
    finding: (finding) => findings.add(finding),
    progress: (fraction) => progress(0.05 + 0.85 * fraction, 'reading annotations'),
  }
}

async function textOf(blobs: BlobStore, file: FormatFile): Promise<string> {
  if (file.size > textBytesMax) throw new Error(`the file is larger than ${textBytesMax / 1024 / 1024} MiB`)
  return (await buffer(await blobs.open(file.digest))).toString('utf8').replace(/^\uFEFF/, '')
}

/** Takes what a format says of the files and writes it in batches, counting on the way. */
class SampleSink {
  readonly splits: Record<string, number> = {}
  readonly objectsByShape: Record<string, number> = {}
  objects = 0
  #counts = new Map<string, ClassCount>()
  #samples: SampleUpdate[] = []
  #objects: ObjectInsert[] = []
  readonly #ctx: TenantCtx
  readonly #target: Target
  readonly #findings: FindingCollector

  constructor(ctx: TenantCtx, target: Target, findings: FindingCollector) {
    this.#ctx = ctx
    this.#target = target
    this.#findings = findings
  }

  classCount(name: string): ClassCount {
    const count = this.#counts.get(name) ?? { name, samples: 0, objects: 0, splits: {} }
    this.#counts.set(name, count)
    return count
  }

  async add({ file, split, label = null, objects = null }: Sample): Promise<void> {
    this.#samples.push({ id: file.id, label, split, annotated: objects !== null })
    if (label !== null || objects !== null) this.splits[split ?? 'none'] = (this.splits[split ?? 'none'] ?? 0) + 1
    const shown = new Set(objects?.map((object) => object.class))
    if (label !== null) shown.add(label)
    for (const name of shown) this.#countSample(name, split)
    if (objects?.length === 0)
      this.#findings.add({
        code: 'empty_annotation',
        message: 'Nothing is annotated on this image.',
        fileId: file.id,
        path: file.path,
      })
    for (const [ordinal, { class: name, shape, ...geometry }] of (objects ?? []).entries()) {
      this.classCount(name).objects++
      this.objects++
      this.objectsByShape[shape] = (this.objectsByShape[shape] ?? 0) + 1
      this.#checkBounds(file, geometry.box)
      this.#objects.push({ fileId: file.id, ordinal, class: name, shape, geometry })
    }
    if (this.#samples.length >= filesPerPage || this.#objects.length >= objectsPerBatch) await this.flush()
  }

  #countSample(name: string, split: Sample['split']): void {
    const count = this.classCount(name)
    count.samples++
    if (split) count.splits[split] = (count.splits[split] ?? 0) + 1
  }

  #checkBounds(file: FormatFile, [x, y, width, height]: [number, number, number, number]): void {
    if (file.width === null || file.height === null) return
    // Annotation tools round to whole pixels, often upwards.
    const over = Math.max(-x, -y, x + width - file.width, y + height - file.height)
    if (over <= 1) return
    const message = `The shape reaches ${Math.round(over)} px beyond the image of ${file.width} × ${file.height}.`
    this.#findings.add({ code: 'box_outside_image', message, fileId: file.id, path: file.path })
  }

  async flush(): Promise<void> {
    const [samples, objects] = [this.#samples, this.#objects]
    this.#samples = []
    this.#objects = []
    if (samples.length === 0) return
    await transaction(this.#ctx, async (tx) => {
      await saveSamples(tx, this.#target, samples)
      for (let at = 0; at < objects.length; at += objectsPerBatch)
        await insertObjects(tx, this.#target, objects.slice(at, at + objectsPerBatch))
    })
  }
}

/** What was found in single files, and what shows only when they are compared. */
async function addFileFindings(ctx: TenantCtx, target: Target, findings: FindingCollector): Promise<void> {
  let after = ''
  for (;;) {
    const page = await read(ctx, (tx) => listFaultyFiles(tx, target, after, filesPerPage))
    for (const { id, path, faultCode, fault } of page)
      findings.add({ code: faultCode as FindingCode, message: fault, fileId: id, path })
    if (page.length < filesPerPage) break
    after = page.at(-1)!.path
  }
  await transaction(ctx, (tx) => markDuplicates(tx, target))
  const [same, alike] = await read(
    ctx,
    async (tx) => [await listIdentical(tx, target), await listLookalikes(tx, target)] as const,
  )
  for (const { paths, ids, splits, count } of same) {
    const place = { fileId: ids[1] ?? null, path: paths[1] ?? null }
    findings.add({ code: 'duplicate_image', message: `The same bytes as ${paths[0]}.`, ...place }, count - 1)
    if (splits.length > 1)
      findings.add({
        code: 'leakage_between_splits',
        message: `The same image stands in ${splits.join(' and ')}: ${paths.join(', ')}.`,
        ...place,
      })
  }
  for (const { paths, ids, count } of alike) {
    const place = { fileId: ids[1] ?? null, path: paths[1] ?? null }
    findings.add({ code: 'near_duplicate_image', message: `Looks like ${paths[0]}.`, ...place }, count - 1)
  }
}

async function addUnannotated(ctx: TenantCtx, target: Target, findings: FindingCollector): Promise<void> {
  const { total, files } = await read(ctx, (tx) => listUnannotated(tx, target, 100))
  for (const [index, file] of files.entries()) {
    const message = 'No annotation speaks of this image.'
    const count = index === files.length - 1 ? total - index : 1
    findings.add({ code: 'image_without_annotation', message, fileId: file.id, path: file.path }, count)
  }
}

const imbalance = 10

function addClassFindings(result: FormatResult, sink: SampleSink, findings: FindingCollector): void {
  const counts = result.classes.map((name) => sink.classCount(name))
  const sorted = counts.filter((count) => count.samples > 0).sort((a, b) => a.samples - b.samples)
  const [least, most] = [sorted[0], sorted.at(-1)]
  if (least && most && most.samples > imbalance * least.samples)
    findings.add({
      code: 'class_imbalance',
      message: `${most.name} has ${most.samples} samples, ${least.name} has ${least.samples}.`,
    })
  const splits = (['train', 'val', 'test'] as const).filter((split) => sink.splits[split])
  for (const { name, splits: own } of counts)
    for (const split of splits)
      if (!own[split])
        findings.add({ code: 'class_missing_in_split', message: `No sample of ${name} in ${split}.`, path: null })
}
