import type { Tx } from '../../platform/db/transaction.ts'
import { findImageState } from '../images/images.api.ts'
import type { PromotionRow } from './promotions.store.ts'
import { versionFiles } from './version-files.ts'
import { findVersion, findVersionsInStage, type VersionRow } from './versions.store.ts'

/** A figure of the candidate beside that of the version in Production. */
export interface GateFigure {
  key: string
  value: number
  /** Null where nothing is in Production, or it lacks the figure. */
  reference: number | null
  /** Whether it is worse than the reference; null without one. */
  worse: boolean | null
}

/** Something the platform can say about a version before somebody decides; it advises and never decides. Stored as it is. */
export interface PromotionGate {
  name: 'files' | 'lineage' | 'image' | 'validation' | 'drift'
  state: 'passed' | 'failed' | 'unknown'
  message: string
  figures: GateFigure[]
}

/** Figures where less is better; of all others more is. */
const lowerIsBetter = /loss|error|latency|mae|mse|rmse/i

/** Where a promotion is looked into: by somebody of the tenant, or by the platform itself when one expires. */
export interface GatePlace {
  tenant: { id: string }
  publicUrl: string
}

/** What stands for and against the version that is to become Production, as of now. */
export async function promotionGates(tx: Tx, ctx: GatePlace, promotion: PromotionRow): Promise<PromotionGate[]> {
  const { modelName, toVersion } = promotion
  const to = await findVersion(tx, ctx.tenant.id, modelName, toVersion)
  if (!to) return []
  const files = await versionFiles(tx, ctx, to)
  return [
    filesGate(files.length),
    lineageGate(to),
    imageGate(await findImageState(tx, ctx.tenant.id, to)),
    validationGate(to, await referenceOf(tx, ctx, promotion)),
    driftGate(),
  ]
}

/** What it is measured against: the version it replaced, or as long as it waits the one in Production. */
async function referenceOf(tx: Tx, ctx: GatePlace, promotion: PromotionRow): Promise<VersionRow | null> {
  const { modelId, modelName, toVersion, replacedVersions } = promotion
  const [before] = replacedVersions
  if (before) return findVersion(tx, ctx.tenant.id, modelName, before)
  const current = await findVersionsInStage(tx, ctx.tenant.id, modelId, 'Production')
  return current.find((row) => row.version !== toVersion) ?? null
}

const gate = (
  name: PromotionGate['name'],
  state: PromotionGate['state'],
  message: string,
  figures: GateFigure[] = [],
): PromotionGate => ({ name, state, message, figures })

const filesGate = (count: number): PromotionGate =>
  count > 0
    ? gate('files', 'passed', `${count} files are kept.`)
    : gate('files', 'failed', 'The platform holds no file of this version.')

function lineageGate({ dataset, runId }: VersionRow): PromotionGate {
  if (dataset && runId) return gate('lineage', 'passed', `Trained in a known run on ${dataset.name}.`)
  const unknown = [...(runId ? [] : ['its run']), ...(dataset ? [] : ['its data set'])].join(' and ')
  return gate('lineage', 'unknown', `The platform does not know ${unknown}.`)
}

function imageGate(image: Awaited<ReturnType<typeof findImageState>>): PromotionGate {
  if (!image) return gate('image', 'unknown', 'No image was built of this version; it cannot be served yet.')
  if (image.state === 'READY') return gate('image', 'passed', 'Its newest image is READY to be served.')
  if (image.state === 'FAILED')
    return gate('image', 'failed', `Its newest image failed: ${image.fault ?? 'unknown why'}`)
  return gate('image', 'unknown', `Its newest image is ${image.state}.`)
}

/** Every figure of the candidate against the one in Production. */
function validationGate(to: VersionRow, current: VersionRow | null): PromotionGate {
  const figures = Object.entries(to.metrics).map(([key, value]) => figureOf(key, value, current?.metrics[key] ?? null))
  if (figures.length === 0) return gate('validation', 'unknown', 'No validation figures are registered.')
  if (!current) return gate('validation', 'passed', 'Validated; nothing is in Production to compare.', figures)
  const shared = figures.filter(({ worse }) => worse !== null)
  if (shared.length === 0)
    return gate('validation', 'unknown', 'It shares no figure with the version in Production.', figures)
  const worse = shared.filter((figure) => figure.worse)
  const words = (worse.length ? worse : shared)
    .map(({ key, value, reference }) => `${key} ${reference} → ${value}`)
    .join(', ')
  return worse.length
    ? gate('validation', 'failed', `Worse than version ${current.version}: ${words}.`, figures)
    : gate('validation', 'passed', `At least as good as version ${current.version}: ${words}.`, figures)
}

function figureOf(key: string, value: number, reference: number | null): GateFigure {
  const worse = reference === null ? null : lowerIsBetter.test(key) ? value > reference : value < reference
  return { key, value, reference, worse }
}

/** Nothing records predictions, so there is nothing to measure it by. */
const driftGate = () => gate('drift', 'unknown', 'Drift is not measured: no predictions are recorded.')
