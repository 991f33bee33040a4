import type { TenantCtx } from '../../platform/context.ts'
import type { Tx } from '../../platform/db/transaction.ts'
import { read } from '../../platform/transaction.ts'
import { findTrackerRunSummary, readRunArtifact } from '../tracker/tracker.api.ts'
import { loadVersion } from './models.service.ts'
import { versionFiles } from './version-files.ts'
import type { VersionFile, VersionRow } from './versions.store.ts'

/** Figures of one class in one version. */
export interface ClassFigures {
  precision: number
  recall: number
  f1: number
  support: number
}

/** One version with everything it is compared by. */
interface Side {
  row: VersionRow
  params: Record<string, string>
  metrics: Record<string, number>
  files: VersionFile[]
  classes: Map<string, ClassFigures>
}

/** Two versions side by side. @source service §4.4, contract MD-06 */
export async function compareVersions(ctx: TenantCtx, name: string, from: string, to: string) {
  const [left, right] = await read(ctx, async (tx) => [
    await loadSide(tx, ctx, await loadVersion(tx, ctx, name, from)),
    await loadSide(tx, ctx, await loadVersion(tx, ctx, name, to)),
  ])
  return { name: left!.row.name, from: left!, to: right!, ...differences(left!, right!) }
}

export type Comparison = Awaited<ReturnType<typeof compareVersions>>

async function loadSide(tx: Tx, ctx: TenantCtx, row: VersionRow): Promise<Side> {
  const run = row.runId ? await findTrackerRunSummary(tx, ctx, row.runId) : null
  const logged = (run?.metrics ?? []).map(({ key, value }) => [key, Number(value)] as const)
  return {
    row,
    params: Object.fromEntries((run?.params ?? []).map(({ key, value }) => [key, value])),
    // The figures it was registered with count before those its run logged last.
    metrics: { ...Object.fromEntries(logged.filter(([, value]) => Number.isFinite(value))), ...row.metrics },
    files: await versionFiles(tx, ctx, row),
    classes: await classFigures(tx, ctx, row),
  }
}

/** Per-class figures of the evaluation that the run left, if it left one. */
async function classFigures(tx: Tx, ctx: TenantCtx, row: VersionRow): Promise<Map<string, ClassFigures>> {
  const report = row.runId ? await readRunArtifact(tx, ctx, row.runId, 'evaluation.json') : null
  const rows = (parsed(report) as { per_class?: unknown } | null)?.per_class
  if (!Array.isArray(rows)) return new Map()
  return new Map(rows.filter(isFigures).map(({ class: name, ...figures }) => [name, pick(figures)]))
}

const parsed = (text: string | null): unknown => {
  try {
    return text === null ? null : JSON.parse(text)
  } catch {
    return null
  }
}

const isFigures = (row: unknown): row is ClassFigures & { class: string } => {
  const figures = row as Partial<ClassFigures & { class: string }> | null
  return typeof figures?.class === 'string' && [figures.precision, figures.recall, figures.f1].every(Number.isFinite)
}

const pick = ({ precision, recall, f1, support }: ClassFigures): ClassFigures => ({ precision, recall, f1, support })

function differences(from: Side, to: Side) {
  return {
    params: keysOf(from.params, to.params).map((key) => {
      const [left, right] = [from.params[key] ?? null, to.params[key] ?? null]
      return { key, from: left, to: right, changed: left !== right }
    }),
    metrics: keysOf(from.metrics, to.metrics).map((key) => {
      const [left, right] = [from.metrics[key] ?? null, to.metrics[key] ?? null]
      return { key, from: left, to: right, change: left === null || right === null ? null : right - left }
    }),
    perClass: [...new Set([...from.classes.keys(), ...to.classes.keys()])].map((name) => ({
      class: name,
      from: from.classes.get(name) ?? null,
      to: to.classes.get(name) ?? null,
    })),
    classesAdded: to.row.classes.filter((name) => !from.row.classes.includes(name)),
    classesRemoved: from.row.classes.filter((name) => !to.row.classes.includes(name)),
    sameSignature: JSON.stringify(from.row.signature) === JSON.stringify(to.row.signature),
    sameDataset: from.row.dataset?.digest !== undefined && from.row.dataset.digest === to.row.dataset?.digest,
  }
}

const keysOf = (left: object, right: object) => [...new Set([...Object.keys(left), ...Object.keys(right)])].sort()

export const sizeOf = (side: Side): number => side.files.reduce((sum, file) => sum + file.size, 0)
