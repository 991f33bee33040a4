import { join } from 'node:path'

/** Where one training keeps its files on this machine. */
export interface WorkFolder {
  root: string
  spec: string
  events: string
  output: string
  /** Export as the model server takes it: model.onnx, model.json, MLmodel. */
  model: string
  exportCheck: string
  /** Index with splits of this experiment's own. */
  index: string
  /** The dataset, when it is not cached. */
  data: string
}

export const workRoot = (dataDir: string): string => join(dataDir, 'work', 'experiments')

export function workFolder(dataDir: string, experimentId: string): WorkFolder {
  const root = join(workRoot(dataDir), experimentId)
  const output = join(root, 'output')
  return {
    root,
    spec: join(root, 'spec.json'),
    events: join(root, 'events.jsonl'),
    output,
    model: join(output, 'model'),
    exportCheck: join(output, 'export_check.json'),
    index: join(root, 'index.jsonl'),
    data: join(root, 'data'),
  }
}

/** Name of the training's job on the compute. */
export const jobName = (experimentId: string): string => `experiment-${experimentId}`
