import { type SourceAddress, SourceError, type SourceKind } from '../../adapters/external-sources/external-sources.ts'
import { audited } from '../../platform/audit.ts'
import type { TenantCtx } from '../../platform/context.ts'
import { conflict, invalid, notFound } from '../../platform/errors.ts'
import type { PageQuery } from '../../platform/http/lists.ts'
import { newId } from '../../platform/ids.ts'
import { read, transaction } from '../../platform/transaction.ts'
import { type LinkedDataset, listLinkedDatasets } from '../datasets/dataset-sync.api.ts'
import {
  deleteSource,
  findSource,
  insertSource,
  isNameTaken,
  lockSource,
  listSources as querySources,
  type SourceRow,
  updateSource,
} from './external-sources.store.ts'
import {
  addressOf,
  audienceOf,
  checkedConfig,
  checkedCredentials,
  sealCredentials,
  storedAddress,
  vetAddress,
} from './source-address.ts'

const linkedShown = 200
const testMs = 15_000

const noSource = () => notFound('There is no such external source.')
const nameTaken = (name: string) =>
  conflict('Another external source has this name.', { detail: { reason: 'name_taken', name } })

type Fields = Record<string, unknown>

export const listExternalSources = (ctx: TenantCtx, query: PageQuery & { q?: string }) =>
  read(ctx, (tx) => querySources(tx, ctx.tenant.id, query))

export interface SourceDetail {
  source: SourceRow
  datasets: LinkedDataset[]
}

export async function getExternalSource(ctx: TenantCtx, id: string): Promise<SourceDetail> {
  return read(ctx, async (tx) => {
    const source = await findSource(tx, ctx.tenant.id, id)
    if (!source) throw noSource()
    return { source, datasets: await listLinkedDatasets(tx, ctx.tenant.id, id, linkedShown) }
  })
}

export interface SourceRequest {
  name: string
  kind: SourceKind
  config: Fields
  credentials?: Fields | null
}

/** @source contract PR-23 */
export async function createExternalSource(ctx: TenantCtx, request: SourceRequest): Promise<SourceRow> {
  const { name, kind } = request
  const config = checkedConfig(kind, request.config)
  const credentials = checkedCredentials(kind, request.credentials ?? null)
  await vetAddress(ctx, addressOf(kind, config, credentials))
  const id = newId()
  audited(ctx, id, { name, kind, config })
  return transaction(ctx, async (tx) => {
    const source = { id, name, kind, config, credentials: sealCredentials(ctx, id, credentials) }
    if (!(await insertSource(tx, ctx.tenant.id, { ...source, createdBy: ctx.actor.email }))) throw nameTaken(name)
    return (await findSource(tx, ctx.tenant.id, id))!
  })
}

export interface SourcePatch {
  name?: string | null
  config?: Fields | null
  credentials?: Fields | null
}

/**
 * Changes what is given; a new config takes the place of the whole old one, and null takes the credentials away.
 * Credentials are not sent to a new address only because somebody wrote it there: they must be given again.
 * @source contract PR-25
 */
export async function updateExternalSource(ctx: TenantCtx, id: string, patch: SourcePatch): Promise<SourceDetail> {
  const { source } = await getExternalSource(ctx, id)
  const config = patch.config ? checkedConfig(source.kind, patch.config) : source.config
  const credentials = checkedCredentials(source.kind, patch.credentials ?? null)
  const moved = audienceOf(source.kind, config) !== audienceOf(source.kind, source.config)
  if (patch.config) await vetAddress(ctx, addressOf(source.kind, config, credentials))
  if (moved && source.credentials && patch.credentials === undefined)
    throw invalid({
      loc: ['body', 'credentials'],
      msg: 'give them again (or null) with a new address: the stored ones are not sent there',
      type: 'missing',
    })
  audited(ctx, id, { changed: Object.keys(patch), ...(patch.config ? { config } : {}) })
  await transaction(ctx, async (tx) => {
    const locked = await lockSource(tx, ctx.tenant.id, id)
    if (!locked) throw noSource()
    if (locked.updatedAt.getTime() !== source.updatedAt.getTime())
      throw conflict('It was changed at the same time; read it again.', { detail: { reason: 'changed' } })
    if (patch.name && (await isNameTaken(tx, ctx.tenant.id, patch.name, id))) throw nameTaken(patch.name)
    await updateSource(tx, ctx.tenant.id, id, {
      ...(patch.name ? { name: patch.name } : {}),
      ...(patch.config ? { config } : {}),
      ...(patch.credentials === undefined ? {} : { credentials: sealCredentials(ctx, id, credentials) }),
    })
  })
  return getExternalSource(ctx, id)
}

/** Throws `conflict` while a dataset follows it. @source contract PR-26 */
export async function deleteExternalSource(ctx: TenantCtx, id: string): Promise<SourceRow> {
  audited(ctx, id)
  return transaction(ctx, async (tx) => {
    const source = await lockSource(tx, ctx.tenant.id, id)
    if (!source) throw noSource()
    const linked = await listLinkedDatasets(tx, ctx.tenant.id, id, 20)
    if (linked.length > 0)
      throw conflict('Datasets follow this source; give them another one, or none, first.', {
        detail: { reason: 'in_use', datasets: linked.map((dataset) => dataset.id) },
      })
    await deleteSource(tx, ctx.tenant.id, id)
    return source
  })
}

export interface SourceTestResult {
  ok: boolean
  latencyMs: number
  error: string | null
}

/** Lists up to the first object. @source contract PR-27 */
export async function testExternalSource(ctx: TenantCtx, id: string, gone: AbortSignal): Promise<SourceTestResult> {
  const { source } = await getExternalSource(ctx, id)
  audited(ctx, id)
  const began = performance.now()
  const error = await faultOf(ctx, storedAddress(ctx, source), gone)
  const latencyMs = Math.round(performance.now() - began)
  await transaction(ctx, async () => undefined)
  return { ok: error === null, latencyMs, error }
}

async function faultOf(ctx: TenantCtx, address: SourceAddress, gone: AbortSignal): Promise<string | null> {
  const late = AbortSignal.timeout(testMs)
  const source = ctx.adapters.externalSources.open(address)
  try {
    for await (const _first of source.list('', AbortSignal.any([gone, late]))) break
    return null
  } catch (error) {
    if (error instanceof SourceError) return error.message
    if (late.aborted) return `It did not answer within ${testMs / 1000} seconds.`
    throw error
  } finally {
    source.close()
  }
}
