import { Readable } from 'node:stream'
import { Type } from 'typebox'
import { conflict } from '../../platform/errors.ts'
import { tenant } from '../../platform/http/access.ts'
import { textAnswer } from '../../platform/http/answer.ts'
import { EventStream } from '../../platform/http/event-stream.ts'
import { type Operation, operation, raw } from '../../platform/http/operation.ts'
import { readRunLog } from '../../platform/runs/runs.ts'
import { read } from '../../platform/transaction.ts'
import { eventNames, experimentChannel } from './experiment-events.ts'
import { getMetrics } from './experiment-metrics.service.ts'
import { launchView, trackerView } from './experiments.present.ts'
import { ExperimentId, Launch, MetricSeriesAnswer, TrackerLink } from './experiments.schema.ts'
import { getExperiment } from './experiments.service.ts'

/** @source service §4.3 TR-13 to TR-16, TR-18; §6 */
export const experimentOutputRoutes: Operation[] = [
  operation({
    id: 'experiments.getLog',
    method: 'GET',
    path: '/api/v1/training/experiments/{experiment_id}/log',
    summary: 'The whole log as a text file.',
    access: tenant('VIEW'),
    params: ExperimentId,
    responses: { 200: raw('text/plain', 'The log from its first line to what there is now.') },
    handler: async (ctx, { params }) => {
      const { experiment } = await getExperiment(ctx, params.experiment_id)
      const log = readRunLog((work) => read(ctx, work), experiment.runId)
      return textAnswer(Readable.from(log), { filename: `experiment-${experiment.id}.log` })
    },
  }),
  operation({
    id: 'experiments.streamLogs',
    method: 'GET',
    path: '/api/v1/training/experiments/{experiment_id}/logs',
    summary: 'What happens from now on, as Server-Sent Events: log, step, progress, metrics, experiment.',
    access: tenant('VIEW'),
    params: ExperimentId,
    responses: { 200: raw('text/event-stream', 'Events of the experiment; nothing past is sent.') },
    handler: async (ctx, { params }) => {
      const { experiment } = await getExperiment(ctx, params.experiment_id)
      return new EventStream(experimentChannel(experiment.id), eventNames)
    },
  }),
  operation({
    id: 'experiments.getMetrics',
    method: 'GET',
    path: '/api/v1/training/experiments/{experiment_id}/metrics',
    summary: 'Metrics over the course of the training.',
    access: tenant('VIEW'),
    params: ExperimentId,
    query: Type.Object({
      keys: Type.Optional(
        Type.String({
          maxLength: 20_000,
          description: 'Keys, separated by commas; without any, all but those of single batches.',
        }),
      ),
      max_points: Type.Integer({
        minimum: 0,
        maximum: 1_000_000,
        default: 0,
        description: 'Most points of a series; 0 takes 500, more than 5,000 is lowered to that.',
      }),
    }),
    responses: { 200: MetricSeriesAnswer },
    handler: (ctx, { params, query }) => getMetrics(ctx, params.experiment_id, query),
  }),
  operation({
    id: 'experiments.getTracker',
    method: 'GET',
    path: '/api/v1/training/experiments/{experiment_id}/tracker',
    summary: 'The run of the tracker that belongs to the experiment.',
    access: tenant('VIEW'),
    params: ExperimentId,
    responses: { 200: TrackerLink },
    handler: async (ctx, { params }) => {
      const { experiment } = await getExperiment(ctx, params.experiment_id)
      return trackerView(experiment, ctx.publicUrl)
    },
  }),
  operation({
    id: 'experiments.getLaunch',
    method: 'GET',
    path: '/api/v1/training/experiments/{experiment_id}/launch',
    summary: 'What the training job was started as: environment, volumes, process.',
    access: tenant('VIEW'),
    params: ExperimentId,
    responses: { 200: Launch },
    errors: { 409: 'No job was started for it yet (detail.state).' },
    handler: async (ctx, { params }) => {
      const { experiment } = await getExperiment(ctx, params.experiment_id)
      const { state } = experiment
      if (!experiment.launch) throw conflict('No job was started for this experiment yet.', { detail: { state } })
      return launchView(experiment, ctx.config)
    },
  }),
]
