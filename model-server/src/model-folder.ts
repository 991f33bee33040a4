import { readFile } from 'node:fs/promises'
import { join } from 'node:path'

/** What a trained image classifier needs to be served exactly as it was trained. */
export type Model = {
  onnxFile: string
  framework: string
  architecture: string
  input: { name: string; width: number; height: number; batched: boolean }
  /** Per channel in RGB order, applied to pixel / 255. */
  mean: readonly number[]
  std: readonly number[]
  output: { name: string; activation: 'softmax' | 'none' }
  classes: readonly string[]
}

const formatVersion = 1

/**
 * Reads `model.json` beside `model.onnx`.
 * Throws an error that names the field when this server cannot serve the model as described.
 */
export async function readModelFolder(folder: string): Promise<Model> {
  const file = join(folder, 'model.json')
  const text = await readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
    throw new Error(`no readable model.json in ${folder} (${error.code ?? error.message})`)
  })
  let document: unknown
  try {
    document = JSON.parse(text)
  } catch (error) {
    throw new Error(`${file} is not JSON: ${(error as Error).message}`)
  }
  return parseModel(document, join(folder, 'model.onnx'))
}

function parseModel(document: unknown, onnxFile: string): Model {
  const root = record(document, 'the document')
  expect(root.format === formatVersion, `format must be ${formatVersion}, got ${show(root.format)}`)
  expect(root.task === 'image_classification', `task must be 'image_classification', got ${show(root.task)}`)
  const input = record(root.input, 'input')
  const output = record(root.output, 'output')
  const preprocessing = record(root.preprocessing, 'preprocessing')
  const resize = record(preprocessing.resize, 'preprocessing.resize')
  const shape = integers(input.shape, 'input.shape')
  const [batch, channels, height, width] = shape
  expect(shape.length === 4 && channels === 3, 'input.shape must be [-1, 3, height, width]')
  expect(batch === -1 || batch === 1, 'input.shape[0] must be -1 (any batch) or 1')
  expect(input.datatype === 'FP32' && output.datatype === 'FP32', 'input.datatype and output.datatype must be FP32')
  expect(resize.width === width && resize.height === height, 'preprocessing.resize must equal the size in input.shape')
  expect(Number(width) > 0 && Number(height) > 0, 'input.shape must have a positive width and height')
  expect(resize.interpolation === 'bilinear', "preprocessing.resize.interpolation must be 'bilinear'")
  expect(preprocessing.color === 'RGB', "preprocessing.color must be 'RGB'")
  const { activation } = output
  expect(activation === 'softmax' || activation === 'none', "output.activation must be 'softmax' or 'none'")
  const classes = classNames(root.classes)
  const outputShape = integers(output.shape, 'output.shape')
  expect(outputShape.length === 2 && outputShape[1] === classes.length, 'output.shape must be [-1, number of classes]')
  return {
    onnxFile,
    framework: String(root.framework ?? ''),
    architecture: String(root.architecture ?? ''),
    input: {
      name: name(input.name, 'input.name'),
      width: Number(width),
      height: Number(height),
      batched: batch === -1,
    },
    mean: channelValues(preprocessing.mean, 'preprocessing.mean'),
    std: channelValues(preprocessing.std, 'preprocessing.std', (value) => value > 0),
    output: { name: name(output.name, 'output.name'), activation: activation === 'none' ? 'none' : 'softmax' },
    classes,
  }
}

function expect(condition: boolean, fault: string): void {
  if (!condition) throw new Error(`model.json: ${fault}`)
}

function show(value: unknown): string {
  return value === undefined ? 'nothing' : JSON.stringify(value)
}

function record(value: unknown, where: string): Record<string, unknown> {
  expect(typeof value === 'object' && value !== null && !Array.isArray(value), `${where} must be an object`)
  return value as Record<string, unknown>
}

function integers(value: unknown, where: string): number[] {
  expect(Array.isArray(value) && value.every(Number.isInteger), `${where} must be a list of integers`)
  return value as number[]
}

function name(value: unknown, where: string): string {
  expect(typeof value === 'string' && value !== '', `${where} must be a name`)
  return value as string
}

function channelValues(value: unknown, where: string, allowed: (value: number) => boolean = () => true): number[] {
  const valid =
    Array.isArray(value) && value.length === 3 && value.every((item) => Number.isFinite(item) && allowed(item))
  expect(valid, `${where} must be three numbers in RGB order`)
  return value as number[]
}

function classNames(value: unknown): string[] {
  const valid = Array.isArray(value) && value.length > 0 && value.every((item) => typeof item === 'string')
  expect(valid && new Set(value).size === value.length, 'classes must be a list of different names')
  return value as string[]
}
