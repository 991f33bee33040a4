import { Type } from 'typebox'
import { bytes, listOf, named, nullable, oneOf, pageOf, sha256Digest, timestamp } from '../../platform/schema.ts'
import { taskKeys } from './catalogue.ts'

export const TaskType = oneOf(taskKeys, { description: 'Kind of task.' })

export const Task = named('TrainingTask', {
  key: TaskType,
  title: Type.String({ description: 'Name for display.' }),
  description: Type.String({ description: 'What a model of this task answers.' }),
  frameworks: Type.Array(Type.String(), {
    description: 'Keys of the frameworks that can train it in this release; none when empty.',
  }),
})
export const TaskList = listOf(Task)

export const Framework = named('TrainingFramework', {
  key: Type.String({ description: 'What `framework` of an experiment takes.' }),
  title: Type.String({ description: 'Name for display.' }),
  description: Type.String({ description: 'What it is good for.' }),
  license: Type.String({ description: 'SPDX identifier of its license.', examples: ['BSD-3-Clause'] }),
  tasks: Type.Array(TaskType, { description: 'Tasks it can train.' }),
  model_count: Type.Integer({ minimum: 0, description: 'Models in the catalogue.' }),
  export_formats: Type.Array(Type.String(), { description: 'Formats a trained model is exported to.' }),
  per_variant_hyperparameters: Type.Boolean({ description: 'Whether the default hyperparameters differ by model.' }),
  gpu_required: Type.Boolean({ description: 'Whether it cannot train on a CPU.' }),
})
export const FrameworkList = listOf(Framework)

export const Model = named('TrainingModel', {
  key: Type.String({ description: 'What `model` of an experiment takes.' }),
  title: Type.String({ description: 'Name for display.' }),
  task: TaskType,
  framework: Type.String({ description: 'Key of the framework.' }),
  parameters_millions: Type.Number({ minimum: 0, description: 'Parameters in millions, for 1,000 classes.' }),
  map: nullable(Type.Number({ description: 'Published mAP 50–95 from 0 to 1; null where the task has none.' })),
  minimum_image_size: Type.Integer({ description: 'Smallest image it takes, in pixels.' }),
  image_size_multiple: Type.Integer({ description: 'Image sizes must be a multiple of this many pixels.' }),
})
export const ModelPage = pageOf(Model)

export const HyperparameterDefaults = named('TrainingHyperparameters', {
  framework: Type.String({ description: 'Key of the framework.' }),
  model: Type.String({ description: 'Key of the model.' }),
  yaml: Type.String({ description: 'The defaults as commented YAML text, ready to be edited.' }),
})

export const PresetView = named('TrainingPreset', {
  key: Type.String({ description: 'What the query `preset` of a new experiment takes.' }),
  title: Type.String({ description: 'Name for display.' }),
  description: Type.String({ description: 'When to choose it.' }),
  task: TaskType,
  framework: Type.String({ description: 'Key of the framework.' }),
  model: Type.String({ description: 'Key of the model.' }),
  hyperparameters: Type.String({ description: 'YAML text over the defaults of the model; may be empty.' }),
})
export const PresetList = listOf(PresetView)

export const TrainableDataset = named('TrainableDataset', {
  id: Type.String({ description: 'Identifier of the dataset.' }),
  name: Type.String({ description: 'Name of the dataset.' }),
  digest: sha256Digest('Digest over its files and what they stand for.'),
  tasks: Type.Array(Type.String(), { description: 'Tasks its shape fits.' }),
  class_count: Type.Integer({ minimum: 0, description: 'Number of classes.' }),
  file_count: Type.Integer({ minimum: 0, description: 'Number of files.' }),
  size_bytes: bytes('All files together.'),
  splits: Type.Record(Type.String(), Type.Integer({ minimum: 0 }), {
    description: 'Number of samples by split: train, val, test.',
  }),
  frozen_at: timestamp('When it was frozen.'),
})
export const TrainableDatasetList = listOf(TrainableDataset)

export const ClassList = named('TrainingClasses', {
  items: Type.Array(
    named('TrainingClass', {
      index: Type.Integer({ minimum: 0, description: 'Place in the outputs when all classes are trained.' }),
      name: Type.String({ description: 'Name of the class.' }),
    }),
  ),
  total: Type.Integer({ minimum: 0, description: 'Number of classes.' }),
  compatible: Type.Boolean({ description: 'Whether the task that was asked for fits the shape of the dataset.' }),
  reason: nullable(Type.String({ description: 'Why it does not fit.' })),
})
