import { Type } from 'typebox'
import type { TenantCtx } from '../../platform/context.ts'
import { invalid, notFound } from '../../platform/errors.ts'
import { tenant } from '../../platform/http/access.ts'
import { pageQuery, pageView } from '../../platform/http/lists.ts'
import { type Operation, operation } from '../../platform/http/operation.ts'
import { parseTime } from '../../platform/http/windows.ts'
import { named, nullable, oneOf, pageOf, timestamp, uuid } from '../../platform/schema.ts'
import { read } from '../../platform/transaction.ts'
import { findFormerModel, findVersionsAt, listStageChanges, type StageChange } from './history.store.ts'
import { StageName } from './models.schema.ts'
import { stages } from './models.stages.ts'
import { findModel } from './models.store.ts'

const text = (description: string) => Type.String({ description })
const states = [...stages, 'Deleted'] as const

const ChangeOut = named('StageChangeRecord', {
  version: text('Version; it may be deleted since.'),
  from_stage: nullable(oneOf(stages, { description: 'Stage it had; null when it was just registered.' })),
  to_stage: oneOf(states, { description: 'Stage it got, or Deleted.' }),
  at: timestamp('When.'),
  actor: text('Who did it.'),
  reason: nullable(text('Why.')),
  promotion_id: nullable(uuid('Promotion it belongs to.')),
})

const HistoryQuery = Type.Object({
  stage: Type.Optional(StageName),
  at: Type.Optional(text('A time: only what was in `stage` then (Production when absent), with how it got there.')),
  ...pageQuery,
})

const view = (change: StageChange) => ({
  version: String(change.version),
  from_stage: change.fromStage as (typeof stages)[number] | null,
  to_stage: change.toStage as (typeof states)[number],
  at: change.at.toISOString(),
  actor: change.actor,
  reason: change.reason,
  promotion_id: change.promotionId,
})

interface Wanted {
  stage?: (typeof stages)[number]
  at?: string
  page: number
  page_size: number
}

function searchHistory(ctx: TenantCtx, name: string, wanted: Wanted): Promise<{ items: StageChange[]; total: number }> {
  const at = wanted.at === undefined ? null : parseTime(wanted.at)
  if (wanted.at !== undefined && !at) {
    throw invalid({ loc: ['query', 'at'], msg: 'must be an RFC 3339 time', type: 'datetime_parsing', input: wanted.at })
  }
  return read(ctx, async (tx) => {
    // Deletion ends a model, not what is known of it.
    const modelId = (await findModel(tx, ctx.tenant.id, name))?.id ?? (await findFormerModel(tx, ctx.tenant.id, name))
    if (!modelId) throw notFound('There is no such model, and there never was.')
    if (!at) return listStageChanges(tx, ctx.tenant.id, { ...wanted, modelId })
    const then = await findVersionsAt(tx, ctx.tenant.id, { modelId, stage: wanted.stage ?? 'Production', at })
    const start = (wanted.page - 1) * wanted.page_size
    return { items: then.slice(start, start + wanted.page_size), total: then.length }
  })
}

export const historyRoutes: Operation[] = [
  operation({
    id: 'models.listHistory',
    method: 'GET',
    path: '/api/v1/models/{name}/history',
    summary: 'Which version had what stage since when, by whom and why; or what was in a stage at a time.',
    access: tenant('VIEW'),
    query: HistoryQuery,
    responses: { 200: pageOf(ChangeOut) },
    handler: async (ctx, { params, query }) => {
      const { items, total } = await searchHistory(ctx, params.name!, query)
      return pageView(query, { items: items.map(view), total })
    },
  }),
]
