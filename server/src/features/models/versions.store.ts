import { sql } from 'kysely'
import type { Tx } from '../../platform/db/transaction.ts'
import type { Stage } from './models.stages.ts'

export interface VersionFile {
  /** Relative to the version. */
  path: string
  digest: string
  /** In bytes. */
  size: number
}

export interface VersionRow {
  modelId: string
  name: string
  version: number
  stage: Stage
  stageAt: Date
  description: string
  tags: Record<string, string>
  source: string | null
  runId: string | null
  experimentId: number | null
  loggedModelId: string | null
  runLink: string
  task: string | null
  framework: string | null
  architecture: string | null
  classes: string[]
  signature: unknown
  metrics: Record<string, number>
  environment: Record<string, string>
  dataset: { id: string; name: string; digest: string } | null
  createdBy: string
  createdAt: Date
  updatedAt: Date
}

const columns = [
  ...(['v.modelId', 'm.name', 'v.version', 'v.stage', 'v.stageAt', 'v.description', 'v.tags', 'v.source'] as const),
  ...(['v.experimentId', 'v.loggedModelId', 'v.runLink', 'v.task', 'v.framework', 'v.architecture'] as const),
  ...(['v.classes', 'v.signature', 'v.metrics', 'v.environment', 'v.dataset', 'v.createdBy'] as const),
  ...(['v.createdAt', 'v.updatedAt'] as const),
] as const

function versionsOf(tx: Tx, tenantId: string) {
  return tx
    .selectFrom('modelVersions as v')
    .innerJoin('models as m', (join) => join.onRef('m.tenantId', '=', 'v.tenantId').onRef('m.id', '=', 'v.modelId'))
    .select(columns)
    .select(sql<string | null>`replace(v.run_id::text, '-', '')`.as('runId'))
    .where('v.tenantId', '=', tenantId)
}

type VersionQuery = ReturnType<typeof versionsOf>

export interface NewVersion
  extends Partial<Omit<VersionRow, 'name' | 'stage' | 'stageAt' | 'createdAt' | 'updatedAt'>> {
  modelId: string
  version: number
  createdBy: string
}

export async function insertVersion(tx: Tx, tenantId: string, version: NewVersion): Promise<void> {
  const { tags, classes, signature, metrics, environment, dataset, ...plain } = version
  await tx
    .insertInto('modelVersions')
    .values({
      tenantId,
      ...plain,
      tags: JSON.stringify(tags ?? {}),
      classes: JSON.stringify(classes ?? []),
      metrics: JSON.stringify(metrics ?? {}),
      environment: JSON.stringify(environment ?? {}),
      signature: signature ? JSON.stringify(signature) : null,
      dataset: dataset ? JSON.stringify(dataset) : null,
    })
    .execute()
}

export async function insertFiles(
  tx: Tx,
  tenantId: string,
  { modelId, version }: { modelId: string; version: number },
  files: VersionFile[],
): Promise<void> {
  if (files.length === 0) return
  await sql`
    insert into model_version_files (tenant_id, model_id, version, path, digest, size)
    select ${tenantId}::uuid, ${modelId}::uuid, ${version}::integer, path, digest, size
    from unnest(${files.map((file) => file.path)}::text[], ${files.map((file) => file.digest)}::text[],
      ${files.map((file) => file.size)}::bigint[]) as f(path, digest, size)`.execute(tx)
}

export async function findFiles(tx: Tx, tenantId: string, modelId: string, version: number): Promise<VersionFile[]> {
  return tx
    .selectFrom('modelVersionFiles')
    .select(['path', 'digest', 'size'])
    .where('tenantId', '=', tenantId)
    .where('modelId', '=', modelId)
    .where('version', '=', version)
    .orderBy('path')
    .execute()
}

/** By the model's name in any case. */
export async function findVersion(tx: Tx, tenantId: string, name: string, version: number): Promise<VersionRow | null> {
  const row = await versionsOf(tx, tenantId)
    .where(sql`lower(m.name)`, '=', name.toLowerCase())
    .where('v.version', '=', version)
    .executeTakeFirst()
  return (row as VersionRow | undefined) ?? null
}

/** Versions in a stage, the one that got there last first. */
export async function findVersionsInStage(
  tx: Tx,
  tenantId: string,
  modelId: string,
  stage: Stage,
): Promise<VersionRow[]> {
  const query: VersionQuery = versionsOf(tx, tenantId).where('v.modelId', '=', modelId).where('v.stage', '=', stage)
  return (await query.orderBy('v.stageAt', 'desc').orderBy('v.version', 'desc').execute()) as VersionRow[]
}

/** One page of a model's versions, newest first. */
export async function listVersions(
  tx: Tx,
  tenantId: string,
  modelId: string,
  { page, page_size }: { page: number; page_size: number },
): Promise<{ items: VersionRow[]; total: number }> {
  const query = versionsOf(tx, tenantId).where('v.modelId', '=', modelId)
  const items = await query
    .orderBy('v.version', 'desc')
    .limit(page_size)
    .offset((page - 1) * page_size)
    .execute()
  return { items: items as VersionRow[], total: await countOf(tx, tenantId, modelId) }
}

async function countOf(tx: Tx, tenantId: string, modelId: string): Promise<number> {
  const { total } = await tx
    .selectFrom('modelVersions')
    .select((eb) => eb.fn.countAll<number>().as('total'))
    .where('tenantId', '=', tenantId)
    .where('modelId', '=', modelId)
    .executeTakeFirstOrThrow()
  return total
}

export async function setStage(
  tx: Tx,
  tenantId: string,
  { modelId, version }: { modelId: string; version: number },
  stage: Stage,
): Promise<void> {
  await tx
    .updateTable('modelVersions')
    .set({ stage, stageAt: sql`now()`, updatedAt: sql`now()` })
    .where('tenantId', '=', tenantId)
    .where('modelId', '=', modelId)
    .where('version', '=', version)
    .execute()
}

/** Throws PostgreSQL's 23503 when something that may not lose it, such as an endpoint, holds it. */
export async function deleteVersion(tx: Tx, tenantId: string, modelId: string, version: number): Promise<void> {
  await tx
    .deleteFrom('modelVersions')
    .where('tenantId', '=', tenantId)
    .where('modelId', '=', modelId)
    .where('version', '=', version)
    .execute()
}
