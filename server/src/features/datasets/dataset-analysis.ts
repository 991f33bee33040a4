import { buffer } from 'node:stream/consumers'
import type { BlobStore } from '../../platform/blobs/blob-store.ts'
import type { TenantCtx } from '../../platform/context.ts'
import { read, transaction } from '../../platform/transaction.ts'
import { findByPaths } from './dataset-files.store.ts'
import { datasetFormats } from './dataset-formats.ts'
import {
  countClasses,
  countShapes,
  countSplits,
  imageSizes,
  listEmptyAnnotations,
  listUnannotated,
} from './dataset-statistics.store.ts'
import {
  forgetSamples,
  listFaultyFiles,
  listFormatFiles,
  markAnnotations,
  type Outcome,
  type Target,
} from './dataset-validation.store.ts'
import { extensionOf } from './file-kinds.ts'
import { addMany, FindingCollector, toldPerCode } from './finding-collector.ts'
import type { DatasetFormat, FormatContext, FormatFile, FormatResult, Survey } from './formats/dataset-format.ts'
import { compareImages } from './image-comparison.ts'
import { SampleSink } from './sample-sink.ts'
import { storableText } from './storable-text.ts'
import type { ClassCount, FindingCode } from './validation-report.ts'

const filesPerPage = 1000
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
  const told: FormatResult = format ? await format.read(context) : { classes: [], tasks: [] }
  const result = { ...told, classes: told.classes.map(storableText) }
  await sink.flush()
  if (!format && survey.files > 0)
    findings.add({
      code: 'unknown_format',
      message:
        'The files follow no layout that a training could use: a folder per class, COCO, Pascal VOC, YOLO, masks with a class list, or tables.',
    })
  progress(0.9, 'comparing images')
  await addFileFindings(ctx, target, findings, signal)
  if (result.annotatesImages) await addUnannotated(ctx, target, findings)
  const counts = await countEverything(ctx, target, result)
  addClassFindings(counts, findings)
  return outcomeOf(ctx, target, revision, { survey, format, result, counts, findings })
}

interface Parts {
  survey: Survey
  format: DatasetFormat | null
  result: FormatResult
  counts: Counts
  findings: FindingCollector
}

interface Counts {
  classes: ClassCount[]
  splits: Record<string, number>
  shapes: Record<string, number>
}

async function countEverything(
  ctx: TenantCtx,
  target: Target,
  { classes, rowsPerClass }: FormatResult,
): Promise<Counts> {
  return read(ctx, async (tx) => {
    const found = new Map((await countClasses(tx, target)).map((count) => [count.name, count]))
    const rows = (name: string): ClassCount => ({ name, samples: rowsPerClass?.get(name) ?? 0, objects: 0, splits: {} })
    return {
      classes: classes.map((name) => found.get(name) ?? rows(name)),
      splits: await countSplits(tx, target),
      shapes: await countShapes(tx, target),
    }
  })
}

async function outcomeOf(ctx: TenantCtx, target: Target, revision: number, parts: Parts): Promise<Outcome> {
  const { survey, format, result, counts, findings } = parts
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
      objects: Object.values(counts.shapes).reduce((sum, count) => sum + count, 0),
      objects_by_shape: counts.shapes,
      rows: result.rows ?? 0,
      classes: counts.classes,
    },
    format: format?.name ?? null,
    classes: result.classes,
    tasks: result.tasks,
    splits: counts.splits,
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
      const files = await read(ctx, (tx) => findByPaths(tx, target.tenantId, target.datasetId, paths.map(storableText)))
      return new Map(files.map((file) => [file.path, file]))
    },
    open: (file, range) => ctx.blobs.open(file.digest, range),
    text: (file) => textOf(ctx.blobs, file),
    sample: (sample) => sink.sample(sample),
    objects: (canvas, objects, source) => sink.objects(canvas, objects, source),
    annotations: (files) => transaction(ctx, (tx) => markAnnotations(tx, target, files)),
    finding: (finding, count) => findings.add(finding, count),
    progress: (fraction, message) => progress(0.05 + 0.85 * fraction, message ?? 'reading annotations'),
  }
}

async function textOf(blobs: BlobStore, file: FormatFile): Promise<string> {
  if (file.size > textBytesMax) throw new Error(`the file is larger than ${textBytesMax / 1024 / 1024} MiB`)
  return (await buffer(await blobs.open(file.digest))).toString('utf8').replace(/^\uFEFF/, '')
}

/** What was found in single files, and what shows only when they are compared. */
async function addFileFindings(
  ctx: TenantCtx,
  target: Target,
  findings: FindingCollector,
  signal: AbortSignal,
): Promise<void> {
  let after = ''
  for (;;) {
    const page = await read(ctx, (tx) => listFaultyFiles(tx, target, after, filesPerPage))
    for (const { id, path, faultCode, fault } of page)
      findings.add({ code: faultCode as FindingCode, message: fault, fileId: id, path })
    if (page.length < filesPerPage) break
    after = page.at(-1)!.path
  }
  await compareImages(ctx, target, findings, signal)
}

/** Images that no annotation speaks of, and those of which one says that nothing is on them. */
async function addUnannotated(ctx: TenantCtx, target: Target, findings: FindingCollector): Promise<void> {
  const named = (message: string, { total, files }: { total: number; files: { id: string; path: string }[] }) => ({
    total,
    found: files.map(({ id, path }) => ({ message, fileId: id, path })),
  })
  const none = await read(ctx, (tx) => listUnannotated(tx, target, toldPerCode))
  addMany(findings, 'image_without_annotation', named('No annotation speaks of this image.', none))
  const empty = await read(ctx, (tx) => listEmptyAnnotations(tx, target, toldPerCode))
  addMany(findings, 'empty_annotation', named('The annotation says that nothing is on this image.', empty))
}

const imbalance = 10

function addClassFindings({ classes, splits }: Counts, findings: FindingCollector): void {
  const sorted = classes.filter((count) => count.samples > 0).sort((a, b) => a.samples - b.samples)
  const [least, most] = [sorted[0], sorted.at(-1)]
  if (least && most && most.samples > imbalance * least.samples)
    findings.add({
      code: 'class_imbalance',
      message: `${most.name} has ${most.samples} samples, ${least.name} has ${least.samples}.`,
    })
  for (const { name, splits: own } of classes)
    for (const split of ['train', 'val', 'test'] as const)
      if (splits[split] && !own[split])
        findings.add({ code: 'class_missing_in_split', message: `No sample of ${name} in ${split}.` })
}
