import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { Fault } from './faults.ts'
import type { Metrics } from './metrics.ts'
import { type BodyReader, createBodyReader } from './request-body.ts'
import { type Answer, json, type Route, type RouteRequest, text } from './routes.ts'

export type HttpServer = {
  server: Server
  inFlight(): number
  /** Resolves when no request is left; new ones are still answered meanwhile. */
  idle(): Promise<void>
}

type CompiledRoute = Route & { segments: string[] }
type Context = { routes: CompiledRoute[]; metrics: Metrics; readBody: BodyReader }

const unknownRoute = 'unknown'

export function createHttpServer(routes: Route[], metrics: Metrics, maxBodyBytes: number): HttpServer {
  const context: Context = {
    routes: routes.map((route) => ({ ...route, segments: route.path.split('/') })),
    metrics,
    readBody: createBodyReader(maxBodyBytes),
  }
  let inFlight = 0
  let wakeIdle: (() => void) | undefined
  // A proxy keeps its connections for less than this, so it never sends into one that is just being closed.
  const server = createServer({ keepAliveTimeout: 75_000, requestTimeout: 60_000 }, (request, response) => {
    inFlight += 1
    metrics.requestsInFlight.set(inFlight)
    response.once('close', () => {
      inFlight -= 1
      metrics.requestsInFlight.set(inFlight)
      if (inFlight === 0) wakeIdle?.()
    })
    void respond(context, request, response)
  })
  return {
    server,
    inFlight: () => inFlight,
    idle: () =>
      new Promise((resolve) => {
        wakeIdle = resolve
        if (inFlight === 0) resolve()
      }),
  }
}

async function respond(context: Context, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const startedAt = performance.now()
  const path = (request.url ?? '/').split('?', 1)[0]!
  const method = request.method === 'HEAD' ? 'GET' : request.method
  const matches = context.routes.flatMap((route) => {
    const params = matchPath(route.segments, path)
    return params ? [{ route, params }] : []
  })
  const match = matches.find(({ route }) => route.method === method)
  const routeLabel = matches[0]?.route.path ?? unknownRoute
  const client = new AbortController()
  response.once('close', () => client.abort())
  let release = (): void => {}
  const routeRequest = (params: Record<string, string>): RouteRequest => ({
    headers: request.headers,
    params,
    signal: client.signal,
    readBody: async () => {
      const held = await context.readBody(request)
      release = held.release
      return held.body
    },
  })
  let answer: Answer
  try {
    if (!match) throw missing(matches.map(({ route }) => route.method))
    answer = await match.route.handle(routeRequest(match.params))
  } catch (error) {
    answer = presentFault(path, error)
  } finally {
    release()
  }
  send(request, response, answer)
  context.metrics.requests.inc({ route: routeLabel, status: answer.status })
  context.metrics.requestSeconds.observe({ route: routeLabel }, (performance.now() - startedAt) / 1000)
}

/** Parameters of a path that matches the template, or nothing; a parameter is one decoded segment. */
function matchPath(template: string[], path: string): Record<string, string> | undefined {
  const segments = path.split('/')
  if (segments.length !== template.length) return undefined
  const params: Record<string, string> = {}
  for (const [index, part] of template.entries()) {
    const segment = segments[index]!
    if (!part.startsWith('{')) {
      if (segment !== part) return undefined
      continue
    }
    try {
      params[part.slice(1, -1)] = decodeURIComponent(segment)
    } catch {
      return undefined
    }
  }
  return params
}

function missing(allowed: string[]): Fault {
  if (allowed.length === 0) return new Fault(404, 'there is nothing at this path')
  const allow = [...allowed, ...(allowed.includes('GET') ? ['HEAD'] : [])].join(', ')
  return new Fault(405, `only ${allow} is allowed here`, { allow })
}

const errorCodes: Record<number, string> = {
  400: 'BAD_REQUEST',
  404: 'NOT_FOUND',
  405: 'METHOD_NOT_ALLOWED',
  413: 'REQUEST_TOO_LARGE',
  499: 'CLIENT_CLOSED_REQUEST',
  503: 'TEMPORARILY_UNAVAILABLE',
}

function presentFault(path: string, error: unknown): Answer {
  if (!(error instanceof Fault)) console.error(error)
  const fault = error instanceof Fault ? error : new Fault(500, 'internal error')
  const { status, message, headers } = fault
  if (path === '/v2' || path.startsWith('/v2/')) return json(status, { error: message }, headers)
  if (status === 415) return text(status, message, headers)
  return json(status, { error_code: errorCodes[status] ?? 'INTERNAL_ERROR', message }, headers)
}

function send(request: IncomingMessage, response: ServerResponse, answer: Answer): void {
  // What is left of a refused body is read and dropped: closing now would reset the client before it reads the answer.
  if (!request.complete) request.resume()
  const { status, headers, body } = answer
  response.writeHead(status, { ...headers, 'content-length': Buffer.byteLength(body) })
  response.end(request.method === 'HEAD' ? undefined : body)
}
