import { Type } from 'typebox'
import { superuser } from '../../platform/http/access.ts'
import { type Operation, operation } from '../../platform/http/operation.ts'
import { named, uuid } from '../../platform/schema.ts'
import { ExperimentId, Runtime, State } from './experiments.schema.ts'
import { killExperiment } from './experiments.service.ts'
import { getTrainingRuntime } from './training-admin.service.ts'

const Killed = named('ExperimentKilled', {
  id: uuid('Identifier of the experiment.'),
  state: State,
})

/** @source service §4.3 TR-24, TR-25 */
export const trainingAdminRoutes: Operation[] = [
  operation({
    id: 'trainingAdmin.getRuntime',
    method: 'GET',
    path: '/api/v1/training/admin/runtime',
    summary: 'What trains now, across tenants, and on what.',
    access: superuser,
    responses: { 200: Runtime },
    handler: (ctx) => getTrainingRuntime(ctx),
  }),
  operation({
    id: 'trainingAdmin.killExperiment',
    method: 'POST',
    path: '/api/v1/training/admin/experiments/{experiment_id}/kill',
    summary: 'End a training of any tenant at once, keeping nothing; an ended one is left as it is.',
    access: superuser,
    audit: 'experiment.kill',
    params: Type.Object(ExperimentId.properties),
    responses: { 200: Killed },
    handler: async (ctx, { params }) => ({
      id: params.experiment_id,
      state: await killExperiment(ctx, params.experiment_id),
    }),
  }),
]
