import { Type } from 'typebox'
import { tenant } from '../../platform/http/access.ts'
import { type Operation, operation } from '../../platform/http/operation.ts'
import { named, nullable, oneOf, timestamp, uuid } from '../../platform/schema.ts'
import { EndpointParams } from './endpoints.schema.ts'
import { validationStates } from './serving.states.ts'
import { getValidation, validateEndpoint } from './validation.service.ts'
import type { ValidationRow } from './validations.store.ts'

const count = (description: string) => nullable(Type.Integer({ minimum: 0, description }))
const milliseconds = (description: string) => Type.Number({ minimum: 0, description })

const Kpi = named('ValidationKpi', {
  name: Type.String({ description: 'top1, error_rate or p95_latency_ms.' }),
  value: nullable(Type.Number({ description: 'What was measured.' })),
  threshold: nullable(Type.Number({ description: 'What top1 must reach and error_rate may not exceed; null: none.' })),
  ok: Type.Boolean({ description: 'Whether it keeps to the threshold.' }),
})

const Validation = named('EndpointValidation', {
  endpoint: Type.String({ description: 'Name of the endpoint.' }),
  state: oneOf(validationStates, { description: 'PASSED when every KPI is ok.' }),
  run_id: nullable(uuid('Run that measures.')),
  dataset_id: nullable(Type.String({ description: 'Data set whose test split was sent.' })),
  image_digest: nullable(Type.String({ description: 'Image that was served.' })),
  samples: count('Samples sent.'),
  correct: count('Samples whose first label was right.'),
  failed: count('Samples that got no prediction.'),
  kpis: Type.Array(Kpi),
  latency_ms: nullable(
    named('ValidationLatency', {
      p50: milliseconds('Median in milliseconds.'),
      p95: milliseconds('95th percentile in milliseconds.'),
      p99: milliseconds('99th percentile in milliseconds.'),
    }),
  ),
  errors: Type.Array(Type.String(), { description: 'The first errors.' }),
  started_at: nullable(timestamp('When it began.')),
  ended_at: nullable(timestamp('When it ended.')),
})

const path = '/api/v1/serving/endpoints/{name}/validation'

/** @source service §4.6, contract SV-12, SV-13 */
export const validationRoutes: Operation[] = [
  operation({
    id: 'serving.getEndpointValidation',
    method: 'GET',
    path,
    summary: 'How the endpoint last did on its validation data set.',
    access: tenant('VIEW'),
    params: EndpointParams,
    responses: { 200: Validation },
    handler: async (ctx, { params }) => validationView(params.name, await getValidation(ctx, params.name)),
  }),
  operation({
    id: 'serving.validateEndpoint',
    method: 'POST',
    path,
    summary: 'Send the validation data set through the endpoint again and record how it does.',
    access: tenant('OPERATE'),
    audit: 'endpoint.validate',
    params: EndpointParams,
    responses: { 200: Validation },
    errors: { 409: 'detail.reason: no_validation_dataset, not_serving or already_running.' },
    handler: async (ctx, { params }) => validationView(params.name, await validateEndpoint(ctx, params.name)),
  }),
]

const validationView = (endpoint: string, row: ValidationRow | null) => ({
  endpoint,
  state: row?.state ?? 'NOT_RUN',
  run_id: row?.runId ?? null,
  dataset_id: row?.datasetId ?? null,
  image_digest: row?.imageDigest ?? null,
  samples: row?.samples ?? null,
  correct: row?.correct ?? null,
  failed: row?.failed ?? null,
  kpis: row?.kpis ?? [],
  latency_ms: row?.latencyMs ?? null,
  errors: row?.errors ?? [],
  started_at: row?.startedAt.toISOString() ?? null,
  ended_at: row?.endedAt?.toISOString() ?? null,
})
