import { invalid, notFound } from '../../platform/errors.ts'
import type { PageQuery } from '../../platform/http/lists.ts'
import {
  type CatalogModel,
  findFramework,
  frameworkKeys,
  frameworks,
  type TaskType,
  taskKeys,
  tasks,
} from './catalogue.ts'

/** Tasks in display order, each with the frameworks that can train it. */
export const listTasks = () =>
  taskKeys.map((key) => ({
    key,
    ...tasks[key],
    frameworks: frameworks.filter(({ task }) => task === key).map((framework) => framework.key),
  }))

/** One card for each framework, however many tasks it has. */
export function listFrameworks(task?: TaskType) {
  return frameworkKeys
    .map((key) => frameworks.filter((framework) => framework.key === key))
    .filter((entries) => !task || entries.some((entry) => entry.task === task))
    .map((entries) => {
      const { key, title, description, license } = entries[0]!
      return {
        key,
        title,
        description,
        license,
        tasks: entries.map((entry) => entry.task),
        model_count: entries.reduce((sum, entry) => sum + entry.models.length, 0),
        export_formats: ['onnx'],
        per_variant_hyperparameters: true,
        gpu_required: false,
      }
    })
}

export interface ModelQuery extends PageQuery {
  task?: TaskType
  framework?: string
  q?: string
}

/** Models of the catalogue, in its order. */
export function listModels({ task, framework, q = '', page, page_size }: ModelQuery) {
  const wanted = q.trim().toLowerCase()
  const all = frameworks
    .filter((entry) => (!task || entry.task === task) && (!framework || entry.key === framework))
    .flatMap((entry) => entry.models.map((model) => modelView(entry.task, entry.key, model)))
    .filter((model) => `${model.key} ${model.title}`.toLowerCase().includes(wanted))
  return { items: all.slice((page - 1) * page_size, page * page_size), total: all.length }
}

function modelView(task: TaskType, framework: string, model: CatalogModel) {
  const { hyperparameters_yaml: _, ...rest } = model
  return { ...rest, task, framework, map: null }
}

/** Default hyperparameters as YAML. Throws a 422 for an unknown framework or a missing model, a 404 for an unknown one. */
export function getHyperparameters(key: string, model: string | undefined) {
  const models = frameworks.filter((framework) => framework.key === key).flatMap((framework) => framework.models)
  requireFramework(key)
  if (!model)
    throw invalid({ loc: ['query', 'model'], msg: `is needed: ${key} has defaults for each model`, type: 'missing' })
  const found = models.find((candidate) => candidate.key === model)
  if (!found) throw notFound(`${key} has no model ${model}.`)
  return { framework: key, model, yaml: found.hyperparameters_yaml }
}

/** Whether a dataset of these tasks fits what is wanted, and if not why; unknown keys throw a 422. */
export function compatibility(
  dataset: { tasks: string[]; classes: string[] },
  wanted: { task?: TaskType; framework?: string; model?: string },
): { compatible: boolean; reason: string | null } {
  const { task, framework, model } = wanted
  if (framework) requireFramework(framework)
  const no = (reason: string) => ({ compatible: false, reason })
  if (task && !dataset.tasks.includes(task)) return no(`The dataset has the shape of ${dataset.tasks.join(', ')}.`)
  if (framework && task && !findFramework(task, framework)) return no(`${framework} does not train ${task}.`)
  const offered = frameworks.filter((entry) => !framework || entry.key === framework)
  if (model && !offered.some((entry) => entry.models.some(({ key }) => key === model)))
    throw invalid({ loc: ['query', 'model'], msg: 'is not in the catalogue', type: 'enum', input: model })
  if (dataset.classes.length < 2) return no('It needs at least two classes.')
  return { compatible: true, reason: null }
}

function requireFramework(key: string): void {
  if (frameworkKeys.includes(key)) return
  const msg = `must be one of ${frameworkKeys.join(', ')}`
  throw invalid({ loc: ['query', 'framework'], msg, type: 'enum', input: key })
}
