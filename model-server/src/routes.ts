import { randomUUID } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import { badRequest, Fault } from './faults.ts'
import { binaryTensor, modelMetadata, outputTensors, parseInfer } from './inference-v2.ts'
import type { Metrics } from './metrics.ts'
import { invocationType, parseInvocation, presentPrediction } from './mlflow.ts'
import type { Model } from './model-folder.ts'
import type { Predictor } from './predictor.ts'

export type Answer = { status: number; headers: Record<string, string>; body: string | Buffer }
export type RouteRequest = {
  headers: IncomingHttpHeaders
  params: Record<string, string>
  signal: AbortSignal
  readBody(): Promise<Buffer>
}
export type Route = {
  method: 'GET' | 'POST'
  /** A template such as `/v2/models/{model}`; also the label of the route in the metrics. */
  path: string
  handle(request: RouteRequest): Answer | Promise<Answer>
}

/** What the routes answer from; everything but the identity appears once the model is loaded. */
export type Served = {
  name: string
  version: string
  serverVersion: string
  metrics: Metrics
  model(): { model: Model; predictor: Predictor } | undefined
  isDraining(): boolean
}

const predictionHeader = 'x-prediction-id'
const headerLengthHeader = 'inference-header-content-length'

export function json(status: number, value: unknown, headers: Record<string, string> = {}): Answer {
  return { status, headers: { 'content-type': 'application/json', ...headers }, body: JSON.stringify(value) }
}

export function text(status: number, body: string, headers: Record<string, string> = {}): Answer {
  return { status, headers: { 'content-type': 'text/plain; charset=utf-8', ...headers }, body }
}

/** Every route of the server. @source contract B11 */
export function createRoutes(served: Served): Route[] {
  const isReady = (): boolean => !served.isDraining() && served.model()?.predictor.ready() === true
  const health = (): Answer => (isReady() ? text(200, '\n') : text(503, 'not ready\n'))
  const loaded = () => {
    const model = served.model()
    if (model && !served.isDraining()) return model
    throw new Fault(503, model ? 'the server is stopping' : 'the model is not loaded yet', { 'retry-after': '1' })
  }
  const checkModel = ({ params }: RouteRequest): void => {
    if (params.model !== served.name) throw new Fault(404, `unknown model '${params.model}'`)
    if (params.version !== undefined && params.version !== served.version) {
      throw new Fault(404, `unknown version '${params.version}' of model '${served.name}'`)
    }
  }
  const metadata = (request: RouteRequest): Answer => {
    checkModel(request)
    return json(200, modelMetadata(loaded().model, served.name, served.version))
  }
  const modelReady = (request: RouteRequest): Answer => {
    checkModel(request)
    return json(isReady() ? 200 : 503, { name: served.name, ready: isReady() })
  }
  const infer = (request: RouteRequest): Promise<Answer> => {
    checkModel(request)
    const { model, predictor } = loaded()
    return inferV2(served, model, predictor, request)
  }
  const server = {
    name: 'platform-mlops-model-server',
    version: served.serverVersion,
    extensions: ['binary_tensor_data'],
  }
  const { registry } = served.metrics
  return [
    { method: 'GET', path: '/ping', handle: health },
    { method: 'GET', path: '/health', handle: health },
    { method: 'GET', path: '/version', handle: () => text(200, served.serverVersion) },
    {
      method: 'GET',
      path: '/metrics',
      handle: async () => ({
        status: 200,
        headers: { 'content-type': registry.contentType },
        body: await registry.metrics(),
      }),
    },
    { method: 'POST', path: '/invocations', handle: (request) => invoke(loaded(), request) },
    { method: 'GET', path: '/v2', handle: () => json(200, server) },
    { method: 'GET', path: '/v2/health/live', handle: () => json(200, { live: true }) },
    { method: 'GET', path: '/v2/health/ready', handle: () => json(isReady() ? 200 : 503, { ready: isReady() }) },
    ...['/v2/models/{model}', '/v2/models/{model}/versions/{version}'].flatMap((path): Route[] => [
      { method: 'GET', path, handle: metadata },
      { method: 'GET', path: `${path}/ready`, handle: modelReady },
      { method: 'POST', path: `${path}/infer`, handle: infer },
    ]),
  ]
}

async function invoke({ model, predictor }: { model: Model; predictor: Predictor }, request: RouteRequest) {
  const type = invocationType(request.headers)
  const { sources, topK } = parseInvocation(model, type, await request.readBody())
  const logits = await predictor.predict(sources, request.signal)
  const predictions = logits.map((row) => presentPrediction(model, row, topK))
  return json(200, { predictions }, { [predictionHeader]: randomUUID() })
}

async function inferV2(served: Served, model: Model, predictor: Predictor, request: RouteRequest): Promise<Answer> {
  const body = await request.readBody()
  const headerLength = Number(request.headers[headerLengthHeader] ?? body.length)
  if (!Number.isInteger(headerLength) || headerLength < 0 || headerLength > body.length) {
    throw badRequest('Inference-Header-Content-Length must be the size of the JSON part in bytes')
  }
  const { id, sources, outputs } = parseInfer(model, body, headerLength)
  const tensors = outputTensors(model, await predictor.predict(sources, request.signal), outputs)
  const binary = tensors.map((tensor, index) => (outputs[index]!.isBinary ? binaryTensor(tensor) : undefined))
  const answer = {
    model_name: served.name,
    model_version: served.version,
    id,
    outputs: tensors.map(({ data, ...tensor }, index) => {
      const bytes = binary[index]
      return bytes ? { ...tensor, parameters: { binary_data_size: bytes.length } } : { ...tensor, data }
    }),
  }
  const headers = { [predictionHeader]: randomUUID() }
  const parts = binary.filter((bytes) => bytes !== undefined)
  if (parts.length === 0) return json(200, answer, headers)
  const head = Buffer.from(JSON.stringify(answer))
  return {
    status: 200,
    headers: { ...headers, 'content-type': 'application/octet-stream', [headerLengthHeader]: String(head.length) },
    body: Buffer.concat([head, ...parts]),
  }
}
