/** Writes small ONNX models by hand, so that tests need no Python. @source onnx.proto3, IR version 8, opset 13 */
export type Initializer = { name: string; dims: number[]; data: Float32Array }
export type Node = { type: string; inputs: string[]; outputs: string[]; attributes?: Record<string, number | number[]> }
export type Graph = {
  input: { name: string; dims: (number | 'batch')[] }
  output: { name: string; dims: (number | 'batch')[] }
  nodes: Node[]
  initializers: Initializer[]
}

const attributeTypes = { float: 1, integer: 2, integers: 7 }
const float32 = 1

export function encodeOnnx(graph: Graph): Buffer {
  return message(
    integerField(1, 8),
    bytesField(
      7,
      message(
        ...graph.nodes.map((node) => bytesField(1, nodeMessage(node))),
        textField(2, 'test'),
        ...graph.initializers.map((initializer) => bytesField(5, tensorMessage(initializer))),
        bytesField(11, valueMessage(graph.input)),
        bytesField(12, valueMessage(graph.output)),
      ),
    ),
    bytesField(8, integerField(2, 13)),
  )
}

function nodeMessage({ type, inputs, outputs, attributes = {} }: Node): Buffer {
  return message(
    ...inputs.map((name) => textField(1, name)),
    ...outputs.map((name) => textField(2, name)),
    textField(4, type),
    ...Object.entries(attributes).map(([name, value]) => bytesField(5, attributeMessage(name, value))),
  )
}

function attributeMessage(name: string, value: number | number[]): Buffer {
  if (Array.isArray(value)) {
    const items = value.map((item) => integerField(8, item))
    return message(textField(1, name), ...items, integerField(20, attributeTypes.integers))
  }
  return message(textField(1, name), integerField(3, value), integerField(20, attributeTypes.integer))
}

function tensorMessage({ name, dims, data }: Initializer): Buffer {
  const sizes = dims.map((size) => integerField(1, size))
  return message(...sizes, integerField(2, float32), textField(8, name), bytesField(9, Buffer.from(data.buffer)))
}

function valueMessage({ name, dims }: Graph['input']): Buffer {
  const shape = dims.map((size) => bytesField(1, size === 'batch' ? textField(2, size) : integerField(1, size)))
  const tensorType = message(integerField(1, float32), bytesField(2, message(...shape)))
  return message(textField(1, name), bytesField(2, bytesField(1, tensorType)))
}

const message = (...fields: Buffer[]): Buffer => Buffer.concat(fields)
const textField = (field: number, text: string): Buffer => bytesField(field, Buffer.from(text))
const integerField = (field: number, value: number): Buffer => message(varint(field << 3), varint(value))
const bytesField = (field: number, bytes: Buffer): Buffer =>
  message(varint((field << 3) | 2), varint(bytes.length), bytes)

function varint(value: number): Buffer {
  const bytes: number[] = []
  let rest = value
  while (rest > 127) {
    bytes.push((rest % 128) | 128)
    rest = Math.floor(rest / 128)
  }
  return Buffer.from([...bytes, rest])
}
