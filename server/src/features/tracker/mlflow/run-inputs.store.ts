import { sql } from 'kysely'
import type { Tx } from '../../../platform/db/transaction.ts'
import { newId } from '../../../platform/ids.ts'

/** Adds a description to the list that the tag `mlflow.log-model.history` holds; two at once both get in. */
export async function appendModelHistory(tx: Tx, tenantId: string, runId: string, model: object): Promise<void> {
  await sql`
    insert into tracker_tags as t (run_id, tenant_id, key, value)
    values (${runId}, ${tenantId}, 'mlflow.log-model.history', ${JSON.stringify([model])})
    on conflict (run_id, key) do update set value = (t.value::jsonb || excluded.value::jsonb)::text`.execute(tx)
}

export interface DatasetInput {
  name: string
  digest: string
  sourceType: string
  source: string
  schema: string | null
  profile: string | null
  tags: Record<string, string>
}

/** Data sets that a run used; one known already is linked. Tags of a link that is there stay. */
export async function insertDatasets(
  tx: Tx,
  tenantId: string,
  run: { runId: string; experimentId: number },
  inputs: DatasetInput[],
): Promise<void> {
  for (const { tags, ...dataset } of inputs) {
    const values = { id: newId(), tenantId, experimentId: run.experimentId, ...dataset }
    const { id } = await tx
      .insertInto('trackerDatasets')
      .values(values)
      .onConflict((oc) =>
        oc
          .columns(['tenantId', 'experimentId', 'name', 'digest'])
          .doUpdateSet((eb) => ({ name: eb.ref('excluded.name') })),
      )
      .returning('id')
      .executeTakeFirstOrThrow()
    await tx
      .insertInto('trackerRunDatasets')
      .values({ runId: run.runId, datasetId: id, tenantId, tags: JSON.stringify(tags) })
      .onConflict((oc) => oc.doNothing())
      .execute()
  }
}

export interface RunModel {
  modelId: string
  step: number
}

/** Logged models that a run took in or gave out. */
export async function insertRunModels(
  tx: Tx,
  tenantId: string,
  runId: string,
  direction: 'input' | 'output',
  models: RunModel[],
): Promise<void> {
  if (models.length === 0) return
  const rows = models.map((model) => ({ runId, tenantId, direction, ...model }))
  await tx
    .insertInto('trackerRunModels')
    .values(rows)
    .onConflict((oc) => oc.doNothing())
    .execute()
}
