import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Color, softmax, solid, solidLogits, solidTensor } from '../test/images.ts'
import { probeClasses, probeGraph, writeModelFolder } from '../test/model-folders.ts'
import { type ServerProcess, startServer } from '../test/server-process.ts'

let server: ServerProcess
const color: Color = [30, 220, 90]
const logits = solidLogits(color)
const tensor = () => ({ name: 'images', datatype: 'FP32', shape: [1, 3, 6, 8], data: solidTensor(color).flat(2) })

beforeAll(async () => {
  const modelDir = await writeModelFolder(probeGraph(), probeClasses)
  server = await startServer(modelDir, { MODEL_NAME: 'probe', MODEL_VERSION: '7' })
})
afterAll(() => server?.stop())

const inferPath = '/v2/models/probe/infer'
const getJson = async (path: string) => (await fetch(server.url + path)).json()

type Tensor = { name: string; datatype: string; shape: number[]; data: unknown[] }
type Answer = { model_name: string; model_version: string; id?: string; outputs: Tensor[] }

async function infer(body: unknown, path = inferPath): Promise<Answer> {
  const response = await server.postJson(path, body)
  expect(response.status, await response.clone().text()).toBe(200)
  return (await response.json()) as Answer
}

function expectValues(found: unknown[], wanted: number[]): void {
  expect(found).toHaveLength(wanted.length)
  for (const [index, value] of wanted.entries()) expect(found[index]).toBeCloseTo(value, 4)
}

describe('GET /v2…', () => {
  test('200 describes the server and the model', async () => {
    expect(await getJson('/v2')).toMatchObject({
      name: 'platform-mlops-model-server',
      extensions: ['binary_tensor_data'],
    })
    const metadata = {
      name: 'probe',
      versions: ['7'],
      platform: 'onnxruntime_onnx',
      inputs: [{ name: 'images', datatype: 'FP32', shape: [-1, 3, 6, 8] }],
    }
    expect(await getJson('/v2/models/probe')).toMatchObject(metadata)
    expect(await getJson('/v2/models/probe/versions/7')).toMatchObject(metadata)
  })

  test('200 liveness and readiness', async () => {
    expect(await getJson('/v2/health/live')).toEqual({ live: true })
    expect(await getJson('/v2/health/ready')).toEqual({ ready: true })
    expect(await getJson('/v2/models/probe/ready')).toEqual({ name: 'probe', ready: true })
    expect(await getJson('/v2/models/probe/versions/7/ready')).toEqual({ name: 'probe', ready: true })
  })

  test('404 names another model or version', async () => {
    for (const path of ['/v2/models/other', '/v2/models/probe/versions/8', '/v2/models/probe%2Fready', '/v2/nothing']) {
      const response = await fetch(server.url + path)
      expect(response.status, path).toBe(404)
      expect(await response.json()).toHaveProperty('error')
    }
    expect((await server.postJson('/v2/models/probe/versions/8/infer', {})).status).toBe(404)
  })
})

describe('POST /v2/models/{model}/infer', () => {
  test('200 gives logits, probabilities and label, and echoes the id', async () => {
    const answer = await infer({ id: 'request-1', inputs: [tensor()] })
    expect(answer).toMatchObject({ model_name: 'probe', model_version: '7', id: 'request-1' })
    const [raw, likely, label] = answer.outputs
    expect(raw).toMatchObject({ name: 'logits', datatype: 'FP32', shape: [1, 5] })
    expectValues(raw!.data, logits)
    expectValues(likely!.data, softmax(logits))
    expect(label).toEqual({ name: 'label', datatype: 'BYTES', shape: [1], data: ['green'] })
  })

  test('200 flat and nested data are the same tensor, row-major', async () => {
    const other = solidTensor([250, 10, 20])
    const nested = { ...tensor(), shape: [2, 3, 6, 8], data: [solidTensor(color), other] }
    const flat = { ...nested, data: [solidTensor(color), other].flat(3) }
    const [fromNested, fromFlat] = [await infer({ inputs: [nested] }), await infer({ inputs: [flat] })]
    expect(fromNested).toEqual(fromFlat)
    expect(fromNested.outputs[2]!.data).toEqual(['green', 'red'])
    expect(fromNested).not.toHaveProperty('id')
  })

  test('200 gives only the outputs asked for, in that order, on the versioned path too', async () => {
    const body = { inputs: [tensor()], outputs: [{ name: 'label' }, { name: 'logits' }] }
    const answer = await infer(body, '/v2/models/probe/versions/7/infer')
    expect(answer.outputs.map(({ name }) => name)).toEqual(['label', 'logits'])
  })

  test('200 takes encoded images as BYTES', async () => {
    const data = [(await solid(color).png().toBuffer()).toString('base64')]
    const answer = await infer({ inputs: [{ name: 'image', datatype: 'BYTES', shape: [1, 1], data }] })
    expectValues(answer.outputs[0]!.data, logits)
  })

  test('200 takes and gives binary tensors', async () => {
    const post = async (header: unknown, ...binary: Uint8Array[]) => {
      const head = Buffer.from(JSON.stringify(header))
      const headers = { 'inference-header-content-length': String(head.length) }
      const body = Uint8Array.from(Buffer.concat([head, ...binary]))
      return fetch(server.url + inferPath, { method: 'POST', headers, body })
    }
    const floats = Buffer.from(Float32Array.from(tensor().data).buffer)
    const { data: _, ...shape } = tensor()
    const inputs = [{ ...shape, parameters: { binary_data_size: floats.length } }]
    const outputs = [{ name: 'logits', parameters: { binary_data: true } }, { name: 'label' }]
    const response = await post({ inputs, outputs }, floats)
    expect(response.status, await response.clone().text()).toBe(200)
    const bytes = Buffer.from(await response.arrayBuffer())
    const headLength = Number(response.headers.get('inference-header-content-length'))
    const head = JSON.parse(bytes.subarray(0, headLength).toString())
    expect(head.outputs[0]).toEqual({
      name: 'logits',
      datatype: 'FP32',
      shape: [1, 5],
      parameters: { binary_data_size: 20 },
    })
    expect(head.outputs[1].data).toEqual(['green'])
    expectValues(Array.from(new Float32Array(Uint8Array.from(bytes.subarray(headLength)).buffer)), logits)

    const png = await solid(color).png().toBuffer()
    const length = Buffer.alloc(4)
    length.writeUInt32LE(png.length)
    const image = { name: 'image', datatype: 'BYTES', shape: [1], parameters: { binary_data_size: png.length + 4 } }
    expect((await post({ inputs: [image] }, length, png)).status).toBe(200)
    length.writeUInt32LE(png.length + 1)
    expect((await post({ inputs: [image] }, length, png)).status).toBe(400)

    const broken = Float32Array.from(tensor().data)
    broken[5] = Number.NaN
    const refused = await post({ inputs, outputs }, Buffer.from(broken.buffer))
    expect(refused.status).toBe(400)
    expect(await refused.json()).toEqual({ error: 'inputs[0]: value 5 is not a finite 32-bit number' })
  })

  test('400 says what is wrong', async () => {
    const cases: [unknown, string][] = [
      [[], 'must be a JSON object'],
      [{ inputs: [] }, 'exactly one tensor'],
      [{ id: 5, inputs: [tensor()] }, 'id must be a string'],
      [{ inputs: [{ ...tensor(), name: 'pixels' }] }, "inputs[0] must be 'images' (FP32) or 'image' (BYTES)"],
      [{ inputs: [{ ...tensor(), datatype: 'FP64' }] }, 'FP32'],
      [{ inputs: [{ ...tensor(), shape: [1, 3, 8, 6] }] }, 'must be [n, 3, 6, 8], got [1,3,8,6]'],
      [{ inputs: [{ ...tensor(), shape: [2, 3, 6, 8] }] }, 'holds 144 values, its shape 288'],
      [{ inputs: [{ ...tensor(), shape: [-1, 3, 6, 8] }] }, 'shape must be a list of at most four sizes'],
      [{ inputs: [{ ...tensor(), shape: [0, 3, 6, 8], data: [] }] }, 'holds no instance'],
      [{ inputs: [{ ...tensor(), data: [...tensor().data.slice(1), 'x'] }] }, 'value 143 is not a finite'],
      [{ inputs: [tensor()], outputs: [{ name: 'boxes' }] }, 'outputs[0].name must be one of'],
      [{ inputs: [{ name: 'image', datatype: 'BYTES', shape: [2], data: ['AAAA'] }] }, 'for the 1 images given'],
      [
        { inputs: [{ name: 'image', datatype: 'BYTES', shape: [1], data: ['AAAA'] }] },
        'data[0] is not a readable image',
      ],
    ]
    for (const [body, message] of cases) {
      const response = await server.postJson(inferPath, body)
      expect(response.status, message).toBe(400)
      expect(((await response.json()) as { error: string }).error).toContain(message)
    }
  })

  test('400 for data nested deeper than any tensor: it must not exhaust the stack', async () => {
    const data = '['.repeat(50_000) + ']'.repeat(50_000)
    const input = JSON.stringify({ ...tensor(), data: 0 }).replace('"data":0', `"data":${data}`)
    const response = await server.post(inferPath, 'application/json', `{"inputs":[${input}]}`)
    expect([response.status, await response.json()]).toEqual([
      400,
      { error: 'inputs[0].data holds 1 values, its shape 144' },
    ])
  })

  test('500 for an image whose answer is not finite; the one beside it in the batch is answered', async () => {
    const graph = probeGraph()
    for (const [index, weight] of graph.initializers[0]!.data.entries()) graph.initializers[0]!.data[index] = weight * 4
    const strong = await startServer(await writeModelFolder(graph, probeClasses))
    try {
      const huge = { ...tensor(), data: new Array(144).fill(3e38) }
      const path = '/v2/models/model/infer'
      const [refused, answered] = await Promise.all([
        strong.postJson(path, { inputs: [huge] }),
        strong.postJson(path, { inputs: [tensor()] }),
      ])
      expect([refused.status, answered.status]).toEqual([500, 200])
      expect(await refused.json()).toEqual({ error: 'the model answered values that are not finite numbers' })
    } finally {
      await strong.stop()
    }
  })
})
