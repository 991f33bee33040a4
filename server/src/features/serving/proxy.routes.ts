import type { IncomingMessage } from 'node:http'
import { finished } from 'node:stream'
import type { FastifyRequest } from 'fastify'
import type { TenantCtx } from '../../platform/context.ts'
import { badGateway, notFound, PlatformError, serviceUnavailable } from '../../platform/errors.ts'
import { tenant } from '../../platform/http/access.ts'
import { Answer } from '../../platform/http/answer.ts'
import { bodyLength, bodyStream } from '../../platform/http/bodies.ts'
import { type Operation, operation, raw } from '../../platform/http/operation.ts'
import { EndpointParams } from './endpoints.schema.ts'
import { answerHeaders, bodyMaxBytes, forward, NotConnected, requestHeaders, tooLarge } from './forward.ts'
import { proxiedPath } from './proxy-paths.ts'
import type { Route, RouteTable, Target } from './route-table.ts'
import type { TrafficRecorder } from './traffic-recorder.ts'

interface ProxyInput {
  params: { name: string }
  request: FastifyRequest
  signal: AbortSignal
}

const ownFailures = {
  502: 'The inference server broke off, or cannot be reached.',
  503: 'No replica takes requests; detail.state is the state of the endpoint.',
  504: 'The inference server took longer than 60 s.',
}

/** @source service §4.6, contract SV-14, SV-15, B11 */
export const proxyRoutes = (routes: RouteTable, traffic: TrafficRecorder): Operation[] => [
  operation({
    id: 'proxy.read',
    method: 'GET',
    path: '/api/v1/serving/endpoints/{name}/proxy/{path}',
    summary: 'Ask an inference server: ping, health, version, v2 and its metadata.',
    access: tenant('VIEW'),
    params: EndpointParams,
    responses: { 200: raw('*/*', 'The answer of the inference server, as it is, whatever its status.') },
    errors: ownFailures,
    handler: (ctx, input) => proxy(ctx, input as unknown as ProxyInput, 'GET', routes, traffic),
  }),
  operation({
    id: 'proxy.predict',
    method: 'POST',
    path: '/api/v1/serving/endpoints/{name}/proxy/{path}',
    summary: 'Send an inference request: invocations, or v2/models/{model}/infer.',
    access: tenant('VIEW'),
    params: EndpointParams,
    bodyKind: 'stream',
    responses: { 200: raw('*/*', 'The answer of the inference server, as it is, whatever its status.') },
    errors: { 413: 'The body is larger than 64 MiB.', ...ownFailures },
    handler: (ctx, input) => proxy(ctx, input as unknown as ProxyInput, 'POST', routes, traffic),
  }),
]

async function proxy(
  ctx: TenantCtx,
  { params, request, signal }: ProxyInput,
  kind: 'GET' | 'POST',
  routes: RouteTable,
  traffic: TrafficRecorder,
): Promise<Answer> {
  const path = proxiedPath(kind, request.raw.url ?? '')
  if (path === null) throw notFound('The proxy leads to no such address.')
  const route = await routes.find(ctx, params.name)
  if (!route) throw notFound('There is no such endpoint.')
  if ((bodyLength(request) ?? 0) > bodyMaxBytes) throw tooLarge()
  const end = traffic.begin(ctx.tenant, route)
  try {
    const { answer, release } = await send(route, request, path, signal)
    finished(answer, (error) => {
      release()
      end(error && !signal.aborted ? 502 : (answer.statusCode ?? 502))
    })
    return new Answer({ status: answer.statusCode, headers: answerHeaders(answer.headers), body: answer })
  } catch (error) {
    end(error instanceof PlatformError ? error.status : 502)
    throw error
  }
}

/** Sends to the replica that is least busy, and to the next one when no connection to it comes about. */
async function send(
  route: Route,
  request: FastifyRequest,
  path: string,
  signal: AbortSignal,
): Promise<{ answer: IncomingMessage; release: () => void }> {
  const { state } = route.endpoint
  const body = request.method === 'POST' ? bodyStream(request) : null
  const headers = requestHeaders(request.headers, request.id)
  const left = [...route.targets]
  if (left.length === 0) throw serviceUnavailable('No replica takes requests now.', { detail: { state } })
  for (let target = takeLeastBusy(left); target; target = takeLeastBusy(left)) {
    const release = hold(target)
    try {
      return { answer: await forward(target.address, { method: request.method, path, headers, body, signal }), release }
    } catch (error) {
      release()
      if (!(error instanceof NotConnected)) throw error
    }
  }
  throw badGateway('The inference server cannot be reached.', { detail: { state } })
}

/** Removes the one it returns; among equals the choice is random, so that processes do not all choose the same. */
function takeLeastBusy(targets: Target[]): Target | undefined {
  const least = Math.min(...targets.map(({ busy }) => busy))
  const candidates = targets.filter(({ busy }) => busy === least)
  const chosen = candidates[Math.floor(Math.random() * candidates.length)]
  if (chosen) targets.splice(targets.indexOf(chosen), 1)
  return chosen
}

function hold(target: Target): () => void {
  target.busy += 1
  let released = false
  return () => {
    if (!released) target.busy -= 1
    released = true
  }
}
