import { Type } from 'typebox'
import { notFound } from '../../platform/errors.ts'
import { tenant } from '../../platform/http/access.ts'
import { listView, pageQuery, pageView, searchQuery } from '../../platform/http/lists.ts'
import { type Operation, operation } from '../../platform/http/operation.ts'
import { findTrainableDataset, listTrainableDatasets, type TrainableDataset } from '../datasets/datasets.api.ts'
import {
  ClassList,
  FrameworkList,
  HyperparameterDefaults,
  ModelPage,
  PresetList,
  TaskList,
  TaskType,
  TrainableDatasetList,
} from './catalog.schema.ts'
import { compatibility, getHyperparameters, listFrameworks, listModels, listTasks } from './catalog.service.ts'
import { presets } from './presets.ts'

const taskFilter = { task: Type.Optional(TaskType) }
const frameworkFilter = {
  framework: Type.Optional(Type.String({ maxLength: 100, description: 'Key of a framework.' })),
}
const modelFilter = { model: Type.Optional(Type.String({ maxLength: 100, description: 'Key of a model.' })) }

/** What can be trained, on what. @source service §4.3 */
export const catalogRoutes: Operation[] = [
  operation({
    id: 'catalog.listTasks',
    method: 'GET',
    path: '/api/v1/training/catalog/tasks',
    summary: 'The six computer-vision tasks in display order.',
    access: tenant('VIEW'),
    responses: { 200: TaskList },
    handler: async () => listView(listTasks()),
  }),
  operation({
    id: 'catalog.listFrameworks',
    method: 'GET',
    path: '/api/v1/training/catalog/frameworks',
    summary: 'Frameworks that can train in this release.',
    access: tenant('VIEW'),
    query: Type.Object(taskFilter),
    responses: { 200: FrameworkList },
    handler: async (_ctx, { query }) => listView(listFrameworks(query.task)),
  }),
  operation({
    id: 'catalog.listModels',
    method: 'GET',
    path: '/api/v1/training/catalog/models',
    summary: 'Models with their size.',
    access: tenant('VIEW'),
    query: Type.Object({ ...taskFilter, ...frameworkFilter, ...pageQuery, ...searchQuery }),
    responses: { 200: ModelPage },
    handler: async (_ctx, { query }) => pageView(query, listModels(query)),
  }),
  operation({
    id: 'catalog.getHyperparameters',
    method: 'GET',
    path: '/api/v1/training/catalog/hyperparameters',
    summary: 'Default hyperparameters of a model as YAML text.',
    access: tenant('VIEW'),
    query: Type.Object({
      framework: Type.String({ maxLength: 100, description: 'Key of a framework.' }),
      ...modelFilter,
    }),
    responses: { 200: HyperparameterDefaults },
    handler: async (_ctx, { query }) => getHyperparameters(query.framework, query.model),
  }),
  operation({
    id: 'catalog.listPresets',
    method: 'GET',
    path: '/api/v1/training/presets',
    summary: 'Predefined experiments.',
    access: tenant('VIEW'),
    responses: { 200: PresetList },
    handler: async () => listView([...presets]),
  }),
  operation({
    id: 'catalog.listDatasets',
    method: 'GET',
    path: '/api/v1/training/datasets',
    summary: 'Datasets that can be trained on: frozen, with trainable files; newest first.',
    access: tenant('VIEW'),
    responses: { 200: TrainableDatasetList },
    handler: async (ctx) => listView((await listTrainableDatasets(ctx)).map(datasetView)),
  }),
  operation({
    id: 'catalog.listClasses',
    method: 'GET',
    path: '/api/v1/training/datasets/{dataset_id}/classes',
    summary: 'Classes of a dataset, and whether it fits a task, a framework and a model.',
    access: tenant('VIEW'),
    query: Type.Object({ ...taskFilter, ...frameworkFilter, ...modelFilter }),
    responses: { 200: ClassList },
    handler: async (ctx, { params, query }) => {
      const dataset = await findTrainableDataset(ctx, params.dataset_id!)
      if (!dataset) throw notFound('There is no such frozen dataset.')
      return {
        ...listView(dataset.classes.map((name, index) => ({ index, name }))),
        ...compatibility(dataset, query),
      }
    },
  }),
]

const datasetView = (dataset: TrainableDataset) => ({
  id: dataset.id,
  name: dataset.name,
  digest: dataset.digest,
  tasks: dataset.tasks,
  class_count: dataset.classes.length,
  file_count: dataset.fileCount,
  size_bytes: dataset.sizeBytes,
  splits: dataset.splits,
  frozen_at: dataset.frozenAt.toISOString(),
})
