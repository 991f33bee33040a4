import { Type } from 'typebox'
import { tenant } from '../../platform/http/access.ts'
import { listQuery, listView, pageView } from '../../platform/http/lists.ts'
import { type Operation, operation } from '../../platform/http/operation.ts'
import { type Config, ExperimentConfig } from './experiment-config.schema.ts'
import { experimentSummary, experimentView } from './experiments.present.ts'
import { Deleted, Experiment, ExperimentId, ExperimentPage, State, StepList } from './experiments.schema.ts'
import {
  createExperiment,
  deleteExperiment,
  experimentSorts,
  getExperiment,
  listExperiments,
  stopExperiment,
} from './experiments.service.ts'

/** @source service §4.3 TR-09 to TR-12, TR-17, TR-19 */
export const experimentRoutes: Operation[] = [
  operation({
    id: 'experiments.list',
    method: 'GET',
    path: '/api/v1/training/experiments',
    summary: 'Experiments, newest first.',
    access: tenant('VIEW'),
    query: listQuery(experimentSorts, { status: Type.Optional(State) }),
    responses: { 200: ExperimentPage },
    handler: async (ctx, { query }) => {
      const { items, total } = await listExperiments(ctx, query)
      return pageView(query, { items: items.map(experimentSummary), total })
    },
  }),
  operation({
    id: 'experiments.create',
    method: 'POST',
    path: '/api/v1/training/experiments',
    summary: 'Train a model.',
    access: tenant('DEVELOP'),
    audit: 'experiment.create',
    query: Type.Object({
      preset: Type.Optional(
        Type.String({ maxLength: 100, description: 'Preset the request was made from; noted, nothing else.' }),
      ),
    }),
    body: ExperimentConfig,
    responses: { 202: Experiment },
    errors: { 409: 'The tracker holds a deleted experiment of this name, or the dataset was deleted meanwhile.' },
    handler: async (ctx, { body, query }) =>
      experimentView(await createExperiment(ctx, body as Config, query.preset ?? null)),
  }),
  operation({
    id: 'experiments.get',
    method: 'GET',
    path: '/api/v1/training/experiments/{experiment_id}',
    summary: 'One experiment: its configuration, state, steps and result.',
    access: tenant('VIEW'),
    params: ExperimentId,
    etag: true,
    responses: { 200: Experiment },
    handler: async (ctx, { params }) => experimentView(await getExperiment(ctx, params.experiment_id)),
  }),
  operation({
    id: 'experiments.delete',
    method: 'DELETE',
    path: '/api/v1/training/experiments/{experiment_id}',
    summary: 'Remove an ended experiment with its log and work folder; a model registered from it stays.',
    access: tenant('OPERATE'),
    audit: 'experiment.delete',
    params: ExperimentId,
    responses: { 200: Deleted },
    errors: { 409: 'It has not ended (detail.state).' },
    handler: async (ctx, { params }) => {
      await deleteExperiment(ctx, params.experiment_id)
      return { id: params.experiment_id, deleted: true }
    },
  }),
  operation({
    id: 'experiments.listSteps',
    method: 'GET',
    path: '/api/v1/training/experiments/{experiment_id}/steps',
    summary: 'The step plan with state, progress and message.',
    access: tenant('VIEW'),
    params: ExperimentId,
    responses: { 200: StepList },
    handler: async (ctx, { params }) => listView(experimentView(await getExperiment(ctx, params.experiment_id)).steps),
  }),
  operation({
    id: 'experiments.stop',
    method: 'POST',
    path: '/api/v1/training/experiments/{experiment_id}/stop',
    summary: 'End gracefully: a training that runs evaluates and exports its best checkpoint first.',
    access: tenant('DEVELOP'),
    audit: 'experiment.stop',
    params: ExperimentId,
    responses: { 200: Experiment },
    errors: { 409: 'It is neither pending nor running (detail.state).' },
    handler: async (ctx, { params }) => experimentView(await stopExperiment(ctx, params.experiment_id)),
  }),
]
