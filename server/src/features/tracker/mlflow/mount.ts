import type { FastifyInstance, FastifyPluginCallback, FastifyReply, FastifyRequest } from 'fastify'
import { writeAudit } from '../../../platform/audit.ts'
import type { Services } from '../../../platform/context.ts'
import { Answer } from '../../../platform/http/answer.ts'
import { ContentAnswer, sendContent } from '../../../platform/http/content.ts'
import { transaction } from '../../../platform/transaction.ts'
import type { Fields } from './fields.ts'
import { MlflowError, mlflowError, mlflowStatuses } from './mlflow-errors.ts'
import type { MlflowRoute } from './mlflow-route.ts'
import { passTokenGate } from './token-gate.ts'

/** Schemas and profiles of data sets are the largest things that come as JSON. */
const jsonLimitBytes = 32 << 20

interface JsonBody {
  fields: Fields
  bytes: number
}

/** Puts the protocol under `/tracker`, with its own credentials, its own errors and nothing of the REST API. */
export async function mountMlflow(app: FastifyInstance, services: Services, routes: MlflowRoute[]): Promise<void> {
  const mount: FastifyPluginCallback = (scope, _options, done) => {
    scope.setErrorHandler((error, request, reply) => sendError(request, reply, error))
    scope.setNotFoundHandler((request, reply) => {
      const message = `There is no ${request.method} ${request.url.split('?')[0]} here.`
      sendError(request, reply, new MlflowError('ENDPOINT_NOT_FOUND', message))
    })
    scope.register(uploads)
    scope.register(documents)
    done()
  }
  /** Files come as they are and are never held. */
  const uploads: FastifyPluginCallback = (scope, _options, done) => {
    scope.removeAllContentTypeParsers()
    scope.addContentTypeParser('*', (_request, payload, parsed) => parsed(null, payload))
    for (const route of routes) if (route.method === 'PUT') addRoute(scope, services, route)
    done()
  }
  const documents: FastifyPluginCallback = (scope, _options, done) => {
    scope.removeAllContentTypeParsers()
    scope.addContentTypeParser('*', { parseAs: 'buffer', bodyLimit: jsonLimitBytes }, parseBody)
    for (const route of routes) if (route.method !== 'PUT') addRoute(scope, services, route)
    done()
  }
  await app.register(mount, { prefix: '/tracker' })
}

function addRoute(scope: FastifyInstance, services: Services, route: MlflowRoute): void {
  // Pages of the stock server say "ajax-api" for the same thing.
  const paths = route.path.startsWith('/api/') ? [route.path, route.path.replace('/api/', '/ajax-api/')] : [route.path]
  for (const path of paths) {
    scope.route({
      method: route.method,
      url: path.replace(/\{\w+\+\}/, '*').replace(/\{(\w+)\}/g, ':$1'),
      config: { operationId: `tracker ${route.method} ${route.path}` },
      onRequest: async (request) => {
        request.ctx = await passTokenGate(services, request, route)
      },
      handler: (request, reply) => answer(route, request, reply),
    })
  }
}

async function answer(route: MlflowRoute, request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
  const ctx = request.ctx
  if (ctx?.kind !== 'tenant') throw new Error('the gate was not passed')
  const body = request.body as JsonBody | undefined
  const fields = route.method === 'GET' ? (request.query as Fields) : (body?.fields ?? {})
  const params = request.params as Record<string, string>
  const result = await route.handler(ctx, { fields, params, bodyBytes: body?.bytes ?? 0, request })
  if (ctx.audit && !ctx.audit.written) await transaction(ctx, (tx) => writeAudit(tx, ctx, 'success'))
  if (result instanceof ContentAnswer) return sendContent(reply, result)
  if (result instanceof Answer) {
    return reply
      .code(result.status ?? 200)
      .headers(result.headers)
      .send(result.body ?? undefined)
  }
  return reply.type('application/json').send(JSON.stringify(result ?? {}))
}

/** Old clients send JSON inside a JSON text; none at all is an empty message. */
async function parseBody(_request: FastifyRequest, body: Buffer): Promise<JsonBody> {
  if (body.length === 0) return { fields: {}, bytes: 0 }
  let value: unknown = JSON.parse(body.toString('utf8'))
  if (typeof value === 'string') value = JSON.parse(value)
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new MlflowError('BAD_REQUEST', 'The body must be a JSON object.')
  }
  return { fields: value as Fields, bytes: body.length }
}

function sendError(request: FastifyRequest, reply: FastifyReply, thrown: unknown): void {
  const error = mlflowError(thrown)
  const status = mlflowStatuses[error.code]
  const line = { error_code: error.code, err: error.cause }
  if (status >= 500 && error.code !== 'NOT_IMPLEMENTED') request.log.error(line, error.message)
  else request.log.info(line, error.message)
  if (status === 401) void reply.header('www-authenticate', 'Basic realm="MLOps tracker"')
  void reply
    .code(status)
    .type('application/json')
    .send(JSON.stringify({ error_code: error.code, message: error.message }))
}
