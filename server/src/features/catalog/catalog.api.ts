import { type FieldFault, invalid } from '../../platform/errors.ts'
import { type CatalogModel, findFramework, frameworks, type TaskType, taskKeys } from './catalogue.ts'
import { flattened, type Hyperparameters, resolveHyperparameters } from './hyperparameters.ts'

export type { Hyperparameters, TaskType }

/** Keys of the six tasks in display order. */
export const trainingTasks: readonly TaskType[] = taskKeys

/** What is to be trained: the catalogue's model with the hyperparameters it will get. */
export interface TrainingChoice {
  model: CatalogModel
  hyperparameters: Hyperparameters
  /** The same as flat text, `early_stopping.patience`: what the tracker keeps. */
  params: Record<string, string>
}

/**
 * The catalogue's entry for a request to train, with its hyperparameters complete.
 * Throws a 422 that names the field and lists what is allowed.
 */
export function resolveTraining(
  wanted: { task: TaskType; framework: string; model: string },
  hyperparameters: string,
): TrainingChoice {
  const framework = findFramework(wanted.task, wanted.framework)
  if (!framework) {
    const able = frameworks.filter(({ task }) => task === wanted.task).map(({ key }) => key)
    throw invalid(unknown('framework', wanted.framework, able, `no framework of this name trains ${wanted.task}`))
  }
  const model = framework.models.find(({ key }) => key === wanted.model)
  if (!model) {
    const keys = framework.models.map(({ key }) => key)
    throw invalid(unknown('model', wanted.model, keys, `${framework.key} has no model of this name`))
  }
  const values = resolveHyperparameters(framework.hyperparameters, model, hyperparameters)
  return { model, hyperparameters: values, params: flattened(values) }
}

function unknown(field: string, input: string, allowed: string[], why: string): FieldFault {
  const remedy = allowed.length > 0 ? `allowed: ${allowed.join(', ')}` : 'this release has none'
  return { loc: ['body', field], msg: `${why}; ${remedy}`, type: 'enum', input }
}
