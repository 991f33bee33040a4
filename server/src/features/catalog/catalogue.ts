import { readFileSync } from 'node:fs'

/** What the trainer can do, read from its own catalogue, so that nothing is offered that it cannot do. */
export interface CatalogModel {
  key: string
  title: string
  /** In millions, for 1,000 classes. */
  parameters_millions: number
  /** In pixels. */
  minimum_image_size: number
  image_size_multiple: number
  hyperparameters_yaml: string
}

/** Kind and range of a hyperparameter, or of each in a group; the part of JSON Schema that the trainer writes. */
export type HyperparameterRule =
  | { type: 'integer' | 'number'; minimum: number; maximum: number }
  | { type: 'string'; enum: string[] }
  | HyperparameterRules

export interface HyperparameterRules {
  type: 'object'
  properties: Record<string, HyperparameterRule>
}

export interface CatalogFramework {
  key: string
  title: string
  task: TaskType
  description: string
  license: string
  hyperparameters: HyperparameterRules
  models: CatalogModel[]
}

/** The six computer-vision tasks in display order. @source service §4.3, ADR "tasks" */
export const tasks = {
  image_classification: { title: 'Image classification', description: 'What an image shows, as one class.' },
  object_detection: { title: 'Object detection', description: 'What there is and where, as boxes.' },
  instance_segmentation: { title: 'Instance segmentation', description: 'The outline of each single object.' },
  semantic_segmentation: { title: 'Semantic segmentation', description: 'The class of every pixel.' },
  keypoint_detection: { title: 'Keypoint detection', description: 'Named points of each object, such as joints.' },
  oriented_object_detection: { title: 'Oriented object detection', description: 'Boxes turned to fit the object.' },
} as const

export type TaskType = keyof typeof tasks

export const taskKeys = Object.keys(tasks) as TaskType[]

const file = new URL('../../../../trainer/platform_trainer/catalogue.json', import.meta.url)

/** Every framework of the trainer, in its order. */
export const frameworks: readonly CatalogFramework[] = readCatalogue()

function readCatalogue(): CatalogFramework[] {
  const catalogue = JSON.parse(readFileSync(file, 'utf8')) as { format: number; frameworks: CatalogFramework[] }
  if (catalogue.format !== 1) throw new Error(`${file.pathname} has the unknown format ${catalogue.format}`)
  return catalogue.frameworks
}

export const frameworkKeys = [...new Set(frameworks.map((framework) => framework.key))]

/** The framework's entry for a task, or null when it does not have that task. */
export function findFramework(task: string, key: string): CatalogFramework | null {
  return frameworks.find((framework) => framework.task === task && framework.key === key) ?? null
}
