import { type Static, Type } from 'typebox'
import { must, named, notBlank, nullable, oneOf } from '../../platform/schema.ts'
import { trainingTasks } from '../catalog/catalog.api.ts'

const fraction = (fallback: number, description: string) =>
  Type.Number({ minimum: 0, maximum: 1, default: fallback, description })

export const TaskType = oneOf(trainingTasks, { description: 'What the model is to answer.' })

export const PretrainedConfig = named('PretrainedConfig', {
  source: oneOf(['none'], { default: 'none', description: 'Where the first weights come from; none = random.' }),
})

export const SplitConfig = named('SplitConfig', {
  mode: oneOf(['predefined', 'ratio'], {
    default: 'predefined',
    description: 'predefined takes the splits of the dataset; ratio deals its samples anew, class by class, by seed.',
  }),
  validation_fraction: Type.Number({
    minimum: 0,
    maximum: 0.9,
    default: 0.1,
    description: 'With predefined splits and none for validation: the share of the training samples that becomes it.',
  }),
  train: fraction(0.8, 'With ratio: share of the samples for training.'),
  val: fraction(0.1, 'With ratio: share for validation.'),
  test: fraction(0.1, 'With ratio: share for the final test. The three add up to 1.'),
  seed: Type.Integer({
    minimum: 0,
    maximum: 2_147_483_647,
    default: 0,
    description: 'Every random choice of the training follows from it, the split included.',
  }),
})

export const EvaluationConfig = named('EvaluationConfig', {
  split: oneOf(['test', 'val', 'train'], {
    default: 'test',
    description: 'Split that the final numbers come from; falls back to val, then train, where there is none.',
  }),
})

export const ExportConfig = named('ExportConfig', {
  format: oneOf(['onnx'], { default: 'onnx', description: 'Format of the exported model.' }),
  opset: Type.Integer({ minimum: 11, maximum: 17, default: 17, description: 'Version of the ONNX operator set.' }),
})

export const ServingConfig = named(
  'ServingConfig',
  {
    replicas: Type.Integer({ minimum: 1, maximum: 100, default: 1, description: 'Replicas of an endpoint.' }),
    gpu: Type.Integer({ minimum: 0, maximum: 16, default: 0, description: 'GPU slots per replica.' }),
  },
  'A proposal for the endpoint of the model, kept with the experiment; nothing is deployed by it.',
)

const withDefaults = <T extends object>(schema: T): T => ({ ...schema, default: {} })
const modelName = '^[A-Za-z0-9]([A-Za-z0-9._-]{0,126}[A-Za-z0-9])?$'

const fields = {
  task: TaskType,
  framework: Type.String({ minLength: 1, maxLength: 100, description: 'Key of a framework of the catalogue.' }),
  model: Type.String({ minLength: 1, maxLength: 100, description: 'Key of a model of the framework.' }),
  pretrained: withDefaults(PretrainedConfig),
  dataset_id: Type.String({ minLength: 1, maxLength: 100, description: 'A FROZEN dataset of the tenant.' }),
  cache_dataset: Type.Boolean({
    default: true,
    description: 'Keep the laid-out dataset for later trainings; false lays it out for this one alone.',
  }),
  classes: Type.Array(Type.String({ minLength: 1, maxLength: 200 }), {
    default: [],
    maxItems: 10_000,
    description: 'Classes to train, in the order of the outputs; empty takes all.',
  }),
  split: withDefaults(SplitConfig),
  hyperparameters: Type.String({
    default: '',
    maxLength: 65_536,
    description: 'YAML text; a key that is left out keeps the default of the model.',
    examples: ['epochs: 10\nbatch_size: 64\n'],
  }),
  evaluation: withDefaults(EvaluationConfig),
  export: withDefaults(ExportConfig),
  serving: withDefaults(ServingConfig),
  runtime_variant: nullableText(
    'Tag of a runtime variant to train in; null trains in the environment of the platform.',
  ),
  runtime_image: nullableText('Image to train in; null trains in the environment of the platform.'),
  runtime_shared: Type.Boolean({ default: false, description: 'Whether the runtime variant is a shared one.' }),
  gpu: Type.Integer({ minimum: 0, maximum: 1, default: 0, description: 'GPUs to train on; 0 trains on the CPU.' }),
  experiment_name: Type.String({ minLength: 1, maxLength: 200, ...notBlank, description: 'Name for display.' }),
  register_model: Type.Boolean({ default: true, description: 'Whether the result becomes a version of a model.' }),
  register_model_name: Type.String({
    default: '',
    maxLength: 128,
    ...must(
      `^$|${modelName}`,
      'be empty, or at most 128 letters, digits, dots, hyphens and underscores, a letter or digit at both ends',
    ),
    description: 'Model to register it as; empty derives it from the name of the experiment.',
  }),
}

function nullableText(description: string) {
  return { ...nullable(Type.String({ minLength: 1, maxLength: 512 })), default: null, description }
}

/** Only what has no default must be given. @source service §2.3 */
const required = ['task', 'framework', 'model', 'dataset_id', 'experiment_name'] as const

/** A request to train. */
export const ExperimentConfig = { ...named('ExperimentConfig', fields), required: [...required] }

/** The request with every default filled in. */
export const ExperimentConfigSnapshot = named('ExperimentConfigSnapshot', fields)

export type Config = Static<typeof ExperimentConfigSnapshot>
