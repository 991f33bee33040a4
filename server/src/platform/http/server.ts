import { randomUUID } from 'node:crypto'
import Fastify, {
  type FastifyBaseLogger,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  LogController,
} from 'fastify'
import { writeAudit } from '../audit.ts'
import type { Services } from '../context.ts'
import { PlatformError, serviceUnavailable } from '../errors.ts'
import type { HttpMetrics } from '../metrics.ts'
import { transaction } from '../transaction.ts'
import { Answer } from './answer.ts'
import { answerCheck } from './answer-check.ts'
import { endSlowBody, takeBodies } from './bodies.ts'
import { ContentAnswer, matchesEtag, sendContent } from './content.ts'
import type { Authenticator } from './credentials.ts'
import { declaresError } from './declared-errors.ts'
import { publicError, refuseBrokenRequest, sendError } from './envelope.ts'
import { jsonEtag } from './etag.ts'
import { EventStream, sendEventStream } from './event-stream.ts'
import { passGate } from './gate.ts'
import { lostGround } from './lost-ground.ts'
import type { BodyKind, Operation } from './operation.ts'
import { greedyParameter, pathPattern, routerPath, slashEncoder } from './paths.ts'
import { securityHeaders } from './security-headers.ts'
import { dropEmpty, normaliseBooleans, unknownKeysDropper, validator } from './validation.ts'

export interface HttpOptions {
  services: Services
  operations: Operation[]
  authenticator: Authenticator
  metrics: HttpMetrics
  /** Turns an undeclared status or shape of an answer into a 500: for the tests. Otherwise it is only logged. */
  strict?: boolean
}

/** A connection on which nothing moves for so long is dead; the quietest answer, an event stream, pings far more often. */
const silentConnectionMs = 600_000
const requestIdHeader = /^[\w.-]{1,64}$/

/** The web server with every operation; it does not listen yet. @source house.md §4, contract B1 */
export async function buildServer(options: HttpOptions): Promise<FastifyInstance> {
  const { services, operations } = options
  const closing = new AbortController()
  const encodeSlashes = slashEncoder(operations.map(({ path }) => path))
  const app = Fastify({
    rewriteUrl: (raw) => encodeSlashes(raw.url!),
    loggerInstance: services.log as FastifyBaseLogger,
    logController: new LogController({ disableRequestLogging: true }),
    trustProxy: services.config.trustProxy,
    requestIdHeader: false,
    genReqId: (raw) => {
      const given = raw.headers['x-request-id']
      return typeof given === 'string' && requestIdHeader.test(given) ? given : randomUUID()
    },
    bodyLimit: 1 << 20,
    forceCloseConnections: 'idle',
    return503OnClosing: false,
    connectionTimeout: silentConnectionMs,
    frameworkErrors: (error, request, reply) => {
      void reply.headers({ ...securityHeaders, 'x-request-id': request.id })
      sendError(request, reply, error)
    },
    clientErrorHandler: refuseBrokenRequest,
    routerOptions: { maxParamLength: 512, ignoreTrailingSlash: false },
  })
  app.setValidatorCompiler(() => () => true)
  app.setSerializerCompiler(() => (data) => JSON.stringify(data))
  app.decorateRequest('ctx', null)
  app.decorateRequest('deniedCtx', null)
  app.addHook('onRequest', async (request, reply) => {
    void reply.headers({ ...securityHeaders, 'x-request-id': request.id })
    if (closing.signal.aborted)
      throw serviceUnavailable('This server is shutting down.', { headers: { 'retry-after': '5' } })
  })
  app.addHook('onResponse', async (request, reply) => {
    observe(options.metrics, request, reply)
    // What was under way has been answered; its connection would hold up the end.
    if (closing.signal.aborted) request.raw.socket.end()
  })
  app.addHook('preClose', async () => closing.abort())
  app.setErrorHandler((error, request, reply) => sendError(request, reply, error))
  app.setNotFoundHandler(notFoundHandler(operations))

  const kinds = [...new Set(operations.map((o) => o.bodyKind))] as (BodyKind | 'none')[]
  for (const kind of kinds) {
    await app.register((scope, _options, done) => {
      takeBodies(scope, kind, services.config.maxUploadBytes)
        .then(() => {
          for (const operation of operations) {
            if (operation.bodyKind === kind) addRoute(scope, operation, options, closing.signal)
          }
        })
        .then(() => done(), done)
    })
  }
  return app
}

function addRoute(scope: FastifyInstance, operation: Operation, options: HttpOptions, closing: AbortSignal): void {
  const { services, authenticator } = options
  const greedy = greedyParameter(operation.path)
  const checkParams = validator('path', operation.params)
  const checkQuery = operation.query && validator('query', operation.query)
  const checkBody =
    operation.body && operation.bodyKind !== 'stream' && operation.bodyKind !== 'multipart'
      ? validator('body', operation.body)
      : null
  const dropUnknown = checkBody && unknownKeysDropper(operation.body!)
  const checkAnswer = answerCheck(operation, options.strict ?? false)

  scope.route({
    method: operation.method,
    url: routerPath(operation.path),
    config: { operationId: operation.id },
    onRequest: async (request) => {
      request.ctx = await passGate(services, authenticator, operation, request)
    },
    ...(checkBody ? { preParsing: endSlowBody } : {}),
    preValidation: async (request) => {
      const params = request.params as Record<string, unknown>
      if (greedy) {
        params[greedy] = params['*']
        delete params['*']
      }
      checkParams(params)
      const query = dropEmpty(request.query as Record<string, unknown>)
      if (operation.query) normaliseBooleans(query, operation.query)
      checkQuery?.(query)
      request.query = query
      checkBody?.(request.body)
      dropUnknown?.(request.body)
    },
    handler: async (request, reply) => {
      const ctx = request.ctx!
      const gone = new AbortController()
      reply.raw.once('close', () => reply.raw.writableFinished || gone.abort())
      const { params, query, body } = request
      const result = await operation.handler(ctx, { params, query, body, request, signal: gone.signal })
      if (ctx.audit && !ctx.audit.written) await transaction(ctx, (tx) => writeAudit(tx, ctx, 'success'))
      if (result instanceof EventStream) {
        const stillAllowed = () => passGate(services, authenticator, operation, request).then(() => true)
        sendEventStream(request, reply, result, services.events, stillAllowed, closing)
        return reply
      }
      if (result instanceof ContentAnswer) return sendContent(reply, result)
      return sendResult(operation, request, reply, result, checkAnswer)
    },
    errorHandler: async (thrown, request, reply) => {
      const error = await lostGround(thrown, () => passGate(services, authenticator, operation, request))
      const known = publicError(error)
      if (request.deniedCtx) await auditDenial(request)
      if (options.strict && !declaresError(operation, known.status)) {
        const message = `${operation.id} answers ${known.status} without declaring it: ${known.message}`
        return sendError(request, reply, new PlatformError('internal_error', message, { cause: error }))
      }
      if (!declaresError(operation, known.status))
        request.log.error({ operation: operation.id, status: known.status }, 'undeclared status')
      sendError(request, reply, error)
    },
  })
}

function sendResult(
  operation: Operation,
  request: FastifyRequest,
  reply: FastifyReply,
  result: unknown,
  checkAnswer: (status: number, body: unknown) => void,
): FastifyReply {
  const answer = result instanceof Answer ? result : null
  const status = answer?.status ?? operation.success
  const body = answer ? answer.body : result
  void reply.code(status)
  if (answer) void reply.headers(answer.headers)
  if (answer && (body === null || typeof body === 'string' || Buffer.isBuffer(body) || isStream(body)))
    return reply.send(body ?? undefined)
  checkAnswer(status, body)
  if (status === 204 || operation.responses[status] === null) return reply.send()
  if (!answer?.headers['cache-control'])
    void reply.header('cache-control', operation.etag ? 'private, no-cache' : 'no-store')
  void reply.type('application/json; charset=utf-8')
  const text = JSON.stringify(body)
  if (operation.etag) {
    const etag = jsonEtag(text)
    void reply.header('etag', etag)
    if (matchesEtag(request.headers['if-none-match'], etag)) return reply.code(304).send()
  }
  return reply.send(text)
}

const isStream = (body: unknown): boolean => typeof (body as { pipe?: unknown } | null)?.pipe === 'function'

async function auditDenial(request: FastifyRequest): Promise<void> {
  const ctx = request.deniedCtx!
  if (!ctx.audit) return
  ctx.audit.detail = { path: request.url.split('?')[0] }
  try {
    await transaction({ ...ctx, audit: null } as never, (tx) => writeAudit(tx, ctx, 'denied'))
  } catch (error) {
    request.log.error({ err: error }, 'a denial could not be audited')
  }
}

function notFoundHandler(operations: Operation[]) {
  const patterns = operations.map((o) => ({ pattern: pathPattern(o.path), method: o.method }))
  return (request: FastifyRequest, reply: FastifyReply) => {
    const path = request.url.split('?')[0]!
    const allowed = [...new Set(patterns.filter((p) => p.pattern.test(path)).map((p) => p.method))]
    // A method that the address takes came here for what stands in the address: an id that nothing can have.
    if (allowed.length === 0 || allowed.includes(request.method as never))
      return sendError(request, reply, new PlatformError('not_found', 'There is nothing at this address.'))
    const headers = { allow: [...allowed, ...(allowed.includes('GET') ? ['HEAD'] : [])].join(', ') }
    sendError(request, reply, new PlatformError('method_not_allowed', undefined, { headers }))
  }
}

function observe(metrics: HttpMetrics, request: FastifyRequest, reply: FastifyReply): void {
  const operation = request.routeOptions.config.operationId ?? 'none'
  metrics.observe(operation, request.method, reply.statusCode, reply.elapsedTime / 1000)
  request.log.info(
    {
      method: request.method,
      path: request.url.split('?')[0],
      status: reply.statusCode,
      ms: Math.round(reply.elapsedTime * 10) / 10,
      operation,
    },
    'request',
  )
}

declare module 'fastify' {
  interface FastifyContextConfig {
    operationId?: string
  }
}
