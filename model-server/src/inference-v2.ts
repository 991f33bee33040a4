import { badRequest } from './faults.ts'
import type { Model } from './model-folder.ts'
import { probabilities, ranking, type Source } from './predictor.ts'
import { encodedImage, isFloat } from './source-values.ts'

/**
 * The Open Inference Protocol v2 messages: `inputs` holds the model's FP32 tensor, or a BYTES tensor of images.
 * @source Open Inference Protocol, REST; binary tensor data extension; contract B11.4
 */
export type InferRequest = { id: string | undefined; sources: Source[]; outputs: WantedOutput[] }
export type WantedOutput = { name: string; isBinary: boolean }
export type OutputTensor = { name: string; datatype: 'FP32' | 'BYTES'; shape: number[]; data: number[] | string[] }

type Json = Record<string, unknown>
type InputTensor = { where: string; name: unknown; datatype: unknown; shape: number[]; data: unknown[] | Buffer }

const imageInputs = ['image', 'images_bytes']

export function modelMetadata(model: Model, name: string, version: string) {
  const { width, height } = model.input
  return {
    name,
    versions: [version],
    platform: 'onnxruntime_onnx',
    inputs: [{ name: model.input.name, datatype: 'FP32', shape: [-1, 3, height, width] }],
    outputs: [
      { name: model.output.name, datatype: 'FP32', shape: [-1, model.classes.length] },
      { name: 'probabilities', datatype: 'FP32', shape: [-1, model.classes.length] },
      { name: 'label', datatype: 'BYTES', shape: [-1] },
    ],
  }
}

/** Reads a request; `headerLength` is the size of its JSON part in bytes when binary tensors follow. */
export function parseInfer(model: Model, body: Buffer, headerLength: number): InferRequest {
  const root = parseJson(body.subarray(0, headerLength))
  if (root.id !== undefined && typeof root.id !== 'string') throw badRequest('id must be a string')
  if (!Array.isArray(root.inputs) || root.inputs.length !== 1) throw badRequest('inputs must hold exactly one tensor')
  const input = readInput(root.inputs[0], body.subarray(headerLength))
  return {
    id: root.id,
    sources: input.datatype === 'BYTES' ? imageSources(input) : tensorSources(model, input),
    outputs: readOutputs(model, root),
  }
}

/** The tensors that were asked for, in that order. */
export function outputTensors(model: Model, logits: Float32Array[], wanted: WantedOutput[]): OutputTensor[] {
  const shape = [logits.length, model.classes.length]
  return wanted.map(({ name }) => {
    if (name === 'label') {
      const data = logits.map((row) => model.classes[ranking(row)[0]!]!)
      return { name, datatype: 'BYTES', shape: [logits.length], data }
    }
    const rows = name === 'probabilities' ? logits.map((row) => probabilities(model, row)) : logits
    return { name, datatype: 'FP32', shape, data: rows.flatMap((row) => Array.from(row)) }
  })
}

/** A tensor in the layout of the binary extension: little-endian floats, or texts after their lengths. */
export function binaryTensor({ datatype, data }: OutputTensor): Buffer {
  if (datatype === 'FP32') return Buffer.from(Float32Array.from(data as number[]).buffer)
  return Buffer.concat(
    (data as string[]).flatMap((text) => {
      const length = Buffer.alloc(4)
      length.writeUInt32LE(Buffer.byteLength(text))
      return [length, Buffer.from(text)]
    }),
  )
}

function parseJson(bytes: Buffer): Json {
  try {
    const root: unknown = JSON.parse(bytes.toString('utf8'))
    if (isRecord(root)) return root
  } catch (error) {
    throw badRequest(`the body is not JSON: ${(error as Error).message}`)
  }
  throw badRequest('the body must be a JSON object')
}

function readInput(input: unknown, binary: Buffer): InputTensor {
  const where = 'inputs[0]'
  if (!isRecord(input)) throw badRequest(`${where} must be a tensor`)
  const { name, datatype, shape, parameters } = input
  if (!Array.isArray(shape) || shape.length > 4 || !shape.every((size) => Number.isSafeInteger(size) && size >= 0)) {
    throw badRequest(`${where}.shape must be a list of at most four sizes`)
  }
  const binarySize = isRecord(parameters) ? parameters.binary_data_size : undefined
  if ((binarySize ?? 0) !== binary.length) {
    throw badRequest(`${where}.parameters.binary_data_size does not match the ${binary.length} bytes after the JSON`)
  }
  if (binarySize !== undefined) return { where, name, datatype, shape, data: binary }
  if (!Array.isArray(input.data)) throw badRequest(`${where}.data must be a list`)
  return { where: `${where}.data`, name, datatype, shape, data: input.data.flat(shape.length) }
}

function tensorSources(model: Model, { where, name, datatype, shape, data }: InputTensor): Source[] {
  const { width, height } = model.input
  if (name !== model.input.name || datatype !== 'FP32') {
    throw badRequest(`inputs[0] must be '${model.input.name}' (FP32) or '${imageInputs[0]}' (BYTES)`)
  }
  const [count = 0, ...inner] = shape
  if (String(inner) !== String([3, height, width])) {
    throw badRequest(`inputs[0].shape must be [n, 3, ${height}, ${width}], got [${shape}]`)
  }
  const size = 3 * height * width
  const values = Buffer.isBuffer(data) ? floatsFromBytes(data) : data
  if (values.length !== count * size)
    throw badRequest(`${where} holds ${values.length} values, its shape ${count * size}`)
  const wrong = values.findIndex((value: unknown) => !isFloat(value))
  if (wrong >= 0) throw badRequest(`${where}: value ${wrong} is not a finite 32-bit number`)
  return Array.from({ length: count }, (_, index) => ({
    where: `${where}[${index}]`,
    value: Float32Array.from(values.slice(index * size, (index + 1) * size) as ArrayLike<number>),
  }))
}

function floatsFromBytes(bytes: Buffer): Float32Array {
  const whole = bytes.subarray(0, bytes.length - (bytes.length % 4))
  return new Float32Array(Uint8Array.from(whole).buffer)
}

function imageSources({ where, name, shape, data }: InputTensor): Source[] {
  if (typeof name !== 'string' || !imageInputs.includes(name)) {
    throw badRequest(`inputs[0].name must be one of ${imageInputs.join(', ')} for BYTES`)
  }
  const values = Buffer.isBuffer(data) ? splitBytes(data, where) : data
  const count = shape.reduce((product, size) => product * size, 1)
  const isColumn = shape.length === 1 || (shape.length === 2 && shape[1] === 1)
  if (!isColumn || values.length !== count) {
    throw badRequest(`inputs[0].shape must be [n] or [n, 1] for the ${values.length} images given, got [${shape}]`)
  }
  return values.map((value, index) => {
    const place = `${where}[${index}]`
    if (Buffer.isBuffer(value)) return { where: place, value: { bytes: () => value } }
    if (typeof value !== 'string') throw badRequest(`${place} must be a base64 image`)
    return { where: place, value: encodedImage(value, place) }
  })
}

function splitBytes(bytes: Buffer, where: string): Buffer[] {
  const elements: Buffer[] = []
  for (let start = 0; start < bytes.length; ) {
    const end = start + 4 + (start + 4 <= bytes.length ? bytes.readUInt32LE(start) : bytes.length)
    if (end > bytes.length) throw badRequest(`${where} ends within element ${elements.length}`)
    elements.push(bytes.subarray(start + 4, end))
    start = end
  }
  return elements
}

function readOutputs(model: Model, root: Json): WantedOutput[] {
  const known = [model.output.name, 'probabilities', 'label']
  const allBinary = isRecord(root.parameters) && root.parameters.binary_data_output === true
  if (root.outputs === undefined) return known.map((name) => ({ name, isBinary: allBinary }))
  if (!Array.isArray(root.outputs)) throw badRequest('outputs must be a list')
  return root.outputs.map((output: unknown, index) => {
    const name = isRecord(output) ? output.name : undefined
    if (typeof name !== 'string' || !known.includes(name)) {
      throw badRequest(`outputs[${index}].name must be one of ${known.join(', ')}`)
    }
    const parameters = (output as Json).parameters
    const isBinary = isRecord(parameters) ? parameters.binary_data : undefined
    return { name, isBinary: typeof isBinary === 'boolean' ? isBinary : allBinary }
  })
}

function isRecord(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
