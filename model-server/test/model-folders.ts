import { mkdtemp, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { encodeOnnx, type Graph, type Initializer, type Node } from './onnx-model.ts'

export const probeClasses = ['red', 'green', 'blue', 'left', 'top']
export const probeSize = { width: 8, height: 6 }
export const probeMean = [0.5, 0.4, 0.3]
export const probeStd = [0.2, 0.25, 0.3]

/**
 * A classifier whose five logits are the mean of each channel and the mean of the left and the top half,
 * of the normalized input: it tells colour order, orientation and normalization apart.
 */
export function probeGraph(): Graph {
  const { width, height } = probeSize
  const size = 3 * width * height
  const weights = new Float32Array(probeClasses.length * size)
  for (let index = 0; index < size; index += 1) {
    const channel = Math.floor(index / (width * height))
    const row = Math.floor(index / width) % height
    const column = index % width
    weights[channel * size + index] = 3 / size
    if (column < width / 2) weights[3 * size + index] = 2 / size
    if (row < height / 2) weights[4 * size + index] = 2 / size
  }
  return {
    input: { name: 'images', dims: ['batch', 3, height, width] },
    output: { name: 'logits', dims: ['batch', probeClasses.length] },
    nodes: [
      { type: 'Flatten', inputs: ['images'], outputs: ['flat'] },
      { type: 'Gemm', inputs: ['flat', 'weights'], outputs: ['logits'], attributes: { transB: 1 } },
    ],
    initializers: [{ name: 'weights', dims: [probeClasses.length, size], data: weights }],
  }
}

/** A stack of 3x3 convolutions with real work in it, for load. */
export function convolutionGraph(options: { size: number; width: number; layers: number; classes: number }): Graph {
  const { size, width, layers, classes } = options
  const initializers: Initializer[] = []
  const nodes: Node[] = []
  let last = 'images'
  for (let layer = 0; layer < layers; layer += 1) {
    const dims = [width, layer === 0 ? 3 : width, 3, 3]
    initializers.push({ name: `kernel${layer}`, dims, data: waves(dims) })
    const attributes = { kernel_shape: [3, 3], pads: [1, 1, 1, 1] }
    nodes.push({ type: 'Conv', inputs: [last, `kernel${layer}`], outputs: [`conv${layer}`], attributes })
    nodes.push({ type: 'Relu', inputs: [`conv${layer}`], outputs: [`relu${layer}`] })
    last = `relu${layer}`
  }
  initializers.push({ name: 'head', dims: [classes, width], data: waves([classes, width]) })
  nodes.push({ type: 'GlobalAveragePool', inputs: [last], outputs: ['pooled'] })
  nodes.push({ type: 'Flatten', inputs: ['pooled'], outputs: ['flat'] })
  nodes.push({ type: 'Gemm', inputs: ['flat', 'head'], outputs: ['logits'], attributes: { transB: 1 } })
  return {
    input: { name: 'images', dims: ['batch', 3, size, size] },
    output: { name: 'logits', dims: ['batch', classes] },
    nodes,
    initializers,
  }
}

/** Different values of a size that keeps the activations of deep stacks in range. */
function waves(dims: number[]): Float32Array {
  const count = dims.reduce((product, size) => product * size, 1)
  const scale = Math.sqrt(2 / (count / dims[0]!))
  return Float32Array.from({ length: count }, (_, index) => Math.sin(index * 12.9898) * scale)
}

/** Writes a model folder; `changes` replaces top-level fields of its model.json. */
export async function writeModelFolder(graph: Graph, classes: string[], changes: Record<string, unknown> = {}) {
  const folder = await mkdtemp(join(tmpdir(), 'model-'))
  const [, , height, width] = graph.input.dims
  const document = {
    format: 1,
    task: 'image_classification',
    framework: 'handwritten',
    architecture: 'probe',
    input: { name: 'images', datatype: 'FP32', shape: [-1, 3, height, width] },
    preprocessing: {
      resize: { width, height, interpolation: 'bilinear' },
      color: 'RGB',
      mean: probeMean,
      std: probeStd,
    },
    output: { name: 'logits', datatype: 'FP32', shape: [-1, classes.length], activation: 'softmax' },
    classes,
    ...changes,
  }
  await writeFile(join(folder, 'model.onnx'), encodeOnnx(graph))
  await writeFile(join(folder, 'model.json'), JSON.stringify(document))
  return folder
}
