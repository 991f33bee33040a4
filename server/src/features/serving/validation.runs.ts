import { json } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import type { TenantCtx } from '../../platform/context.ts'
import type { Tx } from '../../platform/db/transaction.ts'
import { conflict } from '../../platform/errors.ts'
import { defineRun, type RunChange, type StepRun, step } from '../../platform/runs/define-run.ts'
import { read, transaction } from '../../platform/transaction.ts'
import { type DatasetSample, findTrainableDataset, readSamples } from '../datasets/datasets.api.ts'
import { getModelVersion } from '../models/models.api.ts'
import { findEndpointById } from './endpoints.store.ts'
import { forward } from './forward.ts'
import { listReplicas } from './replicas.store.ts'
import { requireEndpoint } from './require-endpoint.ts'
import { emptyTally, judge, type Tally } from './validation-kpis.ts'
import { endValidation } from './validations.store.ts'

export interface ValidationInput {
  validationId: string
  endpointId: string
  tenantId: string
  datasetId: string
}

type Validation = StepRun<ValidationInput>

/** A smoke test, not an evaluation: of more samples than these every so-manieth is sent. */
const samplesMax = 1000
const concurrency = 4
/** How long the run waits for a replica that takes requests. */
const replicaTimeoutMs = 30_000

/** Sends the test split of the validation data set through an endpoint and records how it did. @source contract SV-13 */
export const validationRun = defineRun<ValidationInput>({
  kind: 'serving.validate',
  steps: [step('validate', 'Send the validation data set', validate)],
  changed,
})

const refOf = ({ input }: Validation) => ({ id: input.endpointId, tenantId: input.tenantId })

async function validate(s: Validation): Promise<void> {
  const ctx = s.ctx as TenantCtx
  const tally = emptyTally()
  const { samples, expected } = await chooseSamples(ctx, s.input.datasetId)
  const send = async () => {
    for (let next = await samples.next(); !next.done; next = await samples.next()) {
      s.signal.throwIfAborted()
      await sendSample(s, next.value, tally)
      s.progress(tally.sent / Math.max(1, expected), `${tally.sent} of ${expected}, ${tally.correct} right`)
    }
  }
  await Promise.all(Array.from({ length: concurrency }, send))
  await transaction(ctx, async (tx) => {
    const { modelName, modelVersion } = requireEndpoint(await findEndpointById(tx, refOf(s)))
    const { metrics } = await getModelVersion(tx, ctx, modelName, String(modelVersion))
    await endValidation(tx, s.input.validationId, judge(tally, metrics))
  })
}

/** The test split; without one the validation split; without any split everything with a label. */
async function chooseSamples(ctx: TenantCtx, datasetId: string) {
  const dataset = await findTrainableDataset(ctx, datasetId)
  if (!dataset) throw conflict('The validation data set is gone.', { detail: { reason: 'dataset_gone' } })
  const split = (['test', 'val'] as const).find((name) => (dataset.splits[name] ?? 0) > 0) ?? null
  const count = split ? dataset.splits[split]! : dataset.fileCount
  const every = Math.max(1, Math.ceil(count / samplesMax))
  return { samples: pick(readSamples(ctx, datasetId), split, every), expected: Math.ceil(count / every) }
}

async function* pick(samples: AsyncGenerator<DatasetSample>, split: string | null, every: number) {
  let seen = 0
  for await (const sample of samples) {
    if (sample.label === null || (split !== null && sample.split !== split)) continue
    if (seen++ % every === 0) yield sample
  }
}

async function sendSample(s: Validation, sample: DatasetSample, tally: Tally): Promise<void> {
  const address = await chooseReplica(s, tally.sent)
  const headers = { 'content-type': 'application/octet-stream', 'content-length': sample.size }
  const body = await s.ctx.blobs.open(sample.digest)
  const started = performance.now()
  tally.sent += 1
  try {
    const answer = await forward(address, { method: 'POST', path: '/invocations', headers, body, signal: s.signal })
    const { predictions } = (await json(answer)) as { predictions?: { label?: string }[] }
    if (answer.statusCode !== 200) throw new Error(`it answered ${answer.statusCode}`)
    tally.latenciesMs.push(performance.now() - started)
    if (predictions?.[0]?.label === sample.label) tally.correct += 1
  } catch (error) {
    body.destroy()
    s.signal.throwIfAborted()
    tally.failed += 1
    tally.errors.push(`${sample.path}: ${(error as Error).message}`)
  }
}

/** By turns one of the replicas that are ready; waits a while for the first. */
async function chooseReplica(s: Validation, turn: number): Promise<string> {
  for (const deadline = Date.now() + replicaTimeoutMs; ; await sleep(500, undefined, { signal: s.signal })) {
    const replicas = await read(s.ctx, (tx) => listReplicas(tx, refOf(s)))
    const addresses = replicas.flatMap(({ state, address }) => (state === 'READY' && address ? [address] : []))
    if (addresses.length > 0) return addresses[turn % addresses.length]!
    if (Date.now() > deadline) throw conflict('No replica takes requests.', { detail: { reason: 'not_serving' } })
  }
}

async function changed(tx: Tx, change: RunChange<ValidationInput>): Promise<void> {
  if (change.what !== 'run' || (change.state !== 'failed' && change.state !== 'canceled')) return
  const message = change.error?.message ?? 'It was canceled.'
  await endValidation(tx, change.input.validationId, { state: 'FAILED', errors: [message] })
}
