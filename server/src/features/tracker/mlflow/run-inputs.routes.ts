import type { TenantCtx } from '../../../platform/context.ts'
import { transaction } from '../../../platform/transaction.ts'
import { type Fields, message, messages, optionalInteger, optionalText, requiredRunId, requiredText } from './fields.ts'
import { checkLength } from './limits.ts'
import { loadLoggedModels } from './logged-model-access.ts'
import { type MlflowRoute, write } from './mlflow-route.ts'
import { loadActiveRun } from './run-access.ts'
import { type DatasetInput, insertDatasets, insertRunModels } from './run-inputs.store.ts'

const longest = {
  name: 500,
  digest: 36,
  source: 65_535,
  schema: 1_048_575,
  profile: 16_777_215,
  tagKey: 255,
  tagValue: 500,
}

function datasetOf(input: Fields): DatasetInput {
  const dataset = message(input, 'dataset')
  const text = (name: 'name' | 'digest' | 'source') => {
    const value = requiredText(dataset, name)
    checkLength(`Dataset ${name}`, value, longest[name])
    return value
  }
  const optional = (name: 'schema' | 'profile') => {
    const value = optionalText(dataset, name) || null
    checkLength(`Dataset ${name}`, value ?? '', longest[name])
    return value
  }
  return {
    name: text('name'),
    digest: text('digest'),
    sourceType: requiredText(dataset, 'source_type'),
    source: text('source'),
    schema: optional('schema'),
    profile: optional('profile'),
    tags: Object.fromEntries(messages(input, 'tags').map(inputTag)),
  }
}

function inputTag(tag: Fields): [key: string, value: string] {
  const key = requiredText(tag, 'key')
  const value = optionalText(tag, 'value') ?? ''
  checkLength('Dataset input tag key', key, longest.tagKey)
  checkLength('Dataset input tag value', value, longest.tagValue)
  return [key, value]
}

const modelOf = (fields: Fields) => ({
  modelId: requiredText(fields, 'model_id'),
  step: optionalInteger(fields, 'step') ?? 0,
})

async function logInputs(ctx: TenantCtx, fields: Fields): Promise<null> {
  const runId = requiredRunId(fields)
  const datasets = messages(fields, 'datasets').map(datasetOf)
  const models = messages(fields, 'models').map(modelOf)
  await transaction(ctx, async (tx) => {
    const run = await loadActiveRun(tx, ctx, runId)
    await insertDatasets(tx, ctx.tenant.id, run, datasets)
    await loadLoggedModels(
      tx,
      ctx,
      models.map((model) => model.modelId),
    )
    await insertRunModels(tx, ctx.tenant.id, runId, 'input', models)
  })
  return null
}

async function logOutputs(ctx: TenantCtx, fields: Fields): Promise<null> {
  const runId = requiredRunId(fields)
  const models = messages(fields, 'models').map(modelOf)
  await transaction(ctx, async (tx) => {
    await loadActiveRun(tx, ctx, runId)
    await loadLoggedModels(
      tx,
      ctx,
      models.map((model) => model.modelId),
    )
    await insertRunModels(tx, ctx.tenant.id, runId, 'output', models)
  })
  return null
}

/** @source contract B10.0, B10.9 */
export const runInputRoutes: MlflowRoute[] = [
  write('POST', '/runs/log-inputs', (ctx, { fields }) => logInputs(ctx, fields)),
  write('POST', '/runs/outputs', (ctx, { fields }) => logOutputs(ctx, fields)),
]
