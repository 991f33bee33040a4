import type { TenantCtx } from '../../platform/context.ts'
import type { Tx } from '../../platform/db/transaction.ts'
import type { PromotionRow } from './promotions.store.ts'
import { versionFiles } from './version-files.ts'
import { findVersion, findVersionsInStage, type VersionRow } from './versions.store.ts'

/** Something the platform can say about a version before somebody decides; it advises and never decides. */
export interface PromotionGate {
  name: 'files' | 'lineage' | 'validation'
  state: 'passed' | 'failed' | 'unknown'
  message: string
}

/** Figures where less is better; of all others more is. */
const lowerIsBetter = /loss|error|latency|mae|mse|rmse/i

/** What stands for and against the version that is to become Production. */
export async function promotionGates(tx: Tx, ctx: TenantCtx, promotion: PromotionRow): Promise<PromotionGate[]> {
  const { modelId, modelName, toVersion, replacedVersions } = promotion
  const to = await findVersion(tx, ctx.tenant.id, modelName, toVersion)
  if (!to) return []
  const [before] = replacedVersions
  const current = before
    ? await findVersion(tx, ctx.tenant.id, modelName, before)
    : (await findVersionsInStage(tx, ctx.tenant.id, modelId, 'Production')).find((row) => row.version !== toVersion)
  const files = await versionFiles(tx, ctx, to)
  return [filesGate(files.length), lineageGate(to), validationGate(to, current ?? null)]
}

const filesGate = (count: number): PromotionGate =>
  count > 0
    ? { name: 'files', state: 'passed', message: `${count} files are kept.` }
    : { name: 'files', state: 'failed', message: 'The platform holds no file of this version.' }

function lineageGate({ dataset, runId }: VersionRow): PromotionGate {
  if (dataset && runId) {
    return { name: 'lineage', state: 'passed', message: `Trained in a known run on ${dataset.name}.` }
  }
  const unknown = [...(runId ? [] : ['its run']), ...(dataset ? [] : ['its data set'])].join(' and ')
  return { name: 'lineage', state: 'unknown', message: `The platform does not know ${unknown}.` }
}

/** Every figure that both versions have, the candidate against the one in Production. */
function validationGate(to: VersionRow, current: VersionRow | null): PromotionGate {
  if (Object.keys(to.metrics).length === 0) {
    return { name: 'validation', state: 'unknown', message: 'No validation figures are registered.' }
  }
  if (!current)
    return { name: 'validation', state: 'passed', message: 'Validated; nothing is in Production to compare.' }
  const shared = Object.keys(to.metrics).filter((key) => key in current.metrics)
  if (shared.length === 0) {
    return { name: 'validation', state: 'unknown', message: 'It shares no figure with the version in Production.' }
  }
  const worse = shared.filter((key) => isWorse(key, to.metrics[key]!, current.metrics[key]!))
  const figures = (worse.length ? worse : shared)
    .map((key) => `${key} ${current.metrics[key]} → ${to.metrics[key]}`)
    .join(', ')
  return worse.length
    ? { name: 'validation', state: 'failed', message: `Worse than version ${current.version}: ${figures}.` }
    : { name: 'validation', state: 'passed', message: `At least as good as version ${current.version}: ${figures}.` }
}

const isWorse = (key: string, value: number, reference: number) =>
  lowerIsBetter.test(key) ? value > reference : value < reference
