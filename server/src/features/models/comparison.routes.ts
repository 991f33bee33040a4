import { type Static, Type } from 'typebox'
import { tenant } from '../../platform/http/access.ts'
import { type Operation, operation } from '../../platform/http/operation.ts'
import { rangeMs } from '../../platform/http/windows.ts'
import { anyJson, bytes, countingNumber, named, nullable, oneOf, timestamp } from '../../platform/schema.ts'
import { type Comparison, compareVersions, sizeOf } from './comparison.ts'
import { DatasetRef, StageName } from './models.schema.ts'
import { getModel } from './models.service.ts'

const text = (description: string) => Type.String({ description })
const number = (description: string) => Type.Number({ description })

const Side = named('ComparedVersion', {
  version: text('Version.'),
  stage: StageName,
  created_at: timestamp('When it was registered.'),
  architecture: nullable(text('Model of the framework.')),
  run_id: nullable(text('Tracker run.')),
  dataset: nullable(DatasetRef),
  size_bytes: bytes('All files together.'),
  files: Type.Integer({ minimum: 0, description: 'Number of files.' }),
  signature: anyJson('Inputs and outputs; null when unknown.'),
})

const Figures = named('ClassFigures', {
  precision: number('Precision, 0 to 1.'),
  recall: number('Recall, 0 to 1.'),
  f1: number('F1, 0 to 1.'),
  support: number('Images of the class that were looked at.'),
})

const ComparisonOut = named('ModelComparison', {
  name: text('Name of the model.'),
  from: Side,
  to: Side,
  params: Type.Array(
    Type.Object({
      key: text('Parameter of the run.'),
      from: nullable(text('Value; null when absent.')),
      to: nullable(text('Value; null when absent.')),
      changed: Type.Boolean({ description: 'Whether they differ.' }),
    }),
  ),
  metrics: Type.Array(
    Type.Object({
      key: text('Metric.'),
      from: nullable(number('Value; null when absent.')),
      to: nullable(number('Value; null when absent.')),
      change: nullable(number('How much `to` is above `from`.')),
    }),
  ),
  per_class: Type.Array(Type.Object({ class: text('Class.'), from: nullable(Figures), to: nullable(Figures) }), {
    description: 'Figures of each class as the evaluation of the runs left them; empty when they left none.',
  }),
  classes_added: Type.Array(Type.String(), { description: 'Classes only `to` knows.' }),
  classes_removed: Type.Array(Type.String(), { description: 'Classes only `from` knows.' }),
  same_signature: Type.Boolean({ description: 'Whether inputs and outputs are the same.' }),
  same_dataset: Type.Boolean({ description: 'Whether both were trained on the same frozen content.' }),
})

const sideView = (side: Comparison['from']) => ({
  version: String(side.row.version),
  stage: side.row.stage,
  created_at: side.row.createdAt.toISOString(),
  architecture: side.row.architecture,
  run_id: side.row.runId,
  dataset: side.row.dataset,
  size_bytes: sizeOf(side),
  files: side.files.length,
  signature: side.row.signature ?? null,
})

const comparisonView = (comparison: Comparison): Static<typeof ComparisonOut> => ({
  name: comparison.name,
  from: sideView(comparison.from),
  to: sideView(comparison.to),
  params: comparison.params,
  metrics: comparison.metrics,
  per_class: comparison.perClass,
  classes_added: comparison.classesAdded,
  classes_removed: comparison.classesRemoved,
  same_signature: comparison.sameSignature,
  same_dataset: comparison.sameDataset,
})

const reason = nullable(
  oneOf(['no_ground_truth', 'no_prediction_data'], {
    description: 'Why there is nothing to show; null when there is.',
  }),
)

const PerformanceOut = named('ModelPerformance', {
  name: text('Name of the model.'),
  range_ms: Type.Integer({ minimum: 1, description: 'Length of the window, in milliseconds.' }),
  series: Type.Array(
    Type.Object({
      version: text('Version.'),
      metric: text('Figure.'),
      points: Type.Array(Type.Object({ at: timestamp('Middle of the interval.'), value: number('Value.') })),
    }),
  ),
  reason,
})

const DistributionOut = named('ModelDistribution', {
  name: text('Name of the model.'),
  feature: nullable(text('Feature; null for the prediction itself.')),
  baseline: text('What is compared with.'),
  bins: Type.Array(text('Bin.')),
  baseline_counts: Type.Array(Type.Integer({ minimum: 0, description: 'Per bin.' })),
  current_counts: Type.Array(Type.Integer({ minimum: 0, description: 'Per bin.' })),
  psi: nullable(number('Population stability index.')),
  ks_stat: nullable(number('Kolmogorov–Smirnov statistic.')),
  ks_pvalue: nullable(number('Its p-value.')),
  reason,
})

const versionQuery = (description: string) => Type.String({ ...countingNumber, description })

/** @source contract MD-06, MD-13, MD-14 */
export const comparisonRoutes: Operation[] = [
  operation({
    id: 'models.compare',
    method: 'GET',
    path: '/api/v1/models/{name}/compare',
    summary: 'Two versions side by side: parameters, figures, classes, sizes, signature, data.',
    access: tenant('VIEW'),
    query: Type.Object({ from: versionQuery('One version.'), to: versionQuery('The other version.') }),
    responses: { 200: ComparisonOut },
    handler: async (ctx, { params, query }) =>
      comparisonView(await compareVersions(ctx, params.name!, query.from, query.to)),
  }),
  operation({
    id: 'models.getPerformance',
    method: 'GET',
    path: '/api/v1/models/{name}/performance',
    summary: 'How predictions fared against ground truth over time.',
    access: tenant('VIEW'),
    query: Type.Object({
      range: Type.Optional(Type.String({ description: 'Window back from now, such as 7d; 7d when absent.' })),
    }),
    responses: { 200: PerformanceOut },
    handler: async (ctx, { params, query }) => {
      const { name } = await getModel(ctx, params.name!)
      // Ground truth comes with feedback on predictions; while there is none, there is nothing to draw.
      return { name, range_ms: rangeMs(query.range, '7d'), series: [], reason: 'no_ground_truth' }
    },
  }),
  operation({
    id: 'models.getDistribution',
    method: 'GET',
    path: '/api/v1/models/{name}/distribution',
    summary: 'How the values of a feature are spread now, against a baseline.',
    access: tenant('VIEW'),
    query: Type.Object({
      feature: Type.Optional(Type.String({ maxLength: 200, description: 'Feature; the prediction when absent.' })),
      baseline: Type.Optional(
        Type.String({ maxLength: 200, description: 'What to compare with; training when absent.' }),
      ),
    }),
    responses: { 200: DistributionOut },
    handler: async (ctx, { params, query }) => {
      const { name } = await getModel(ctx, params.name!)
      const wanted = { feature: query.feature ?? null, baseline: query.baseline ?? 'training' }
      const nothing = { bins: [], baseline_counts: [], current_counts: [], psi: null, ks_stat: null, ks_pvalue: null }
      return { name, ...wanted, ...nothing, reason: 'no_prediction_data' }
    },
  }),
]
