import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Services } from '../../../platform/context.ts'
import { Answer } from '../../../platform/http/answer.ts'
import { takeBodies } from '../../../platform/http/bodies.ts'
import { ContentAnswer, sendContent } from '../../../platform/http/content.ts'
import { sendError } from '../../../platform/http/envelope.ts'
import { answerBlob } from './blobs.protocol.ts'
import { answerCatalog, answerReferrers, answerTags } from './lists.protocol.ts'
import { answerManifest } from './manifests.protocol.ts'
import { authenticate, authorize, type OciCall } from './oci-call.ts'
import { ociErrorBody, toOciError } from './oci-errors.ts'
import { type OciRoute, parseOciPath } from './oci-paths.ts'
import { type OciRegistry, openOciRegistry } from './oci-registry.ts'
import { answerUpload, startUpload } from './uploads.protocol.ts'

const methods = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE']

const apiVersion = { 'docker-distribution-api-version': 'registry/2.0' }

/** Everything below `/v2`: the OCI Distribution Specification 1.1. @source service §4.11, contract B9 */
export async function registerOciProtocol(app: FastifyInstance, services: Services): Promise<OciRegistry> {
  const registry = await openOciRegistry(services)
  app.addHook('onClose', () => registry.close())
  // biome-ignore lint/nursery/noMisusedPromises: Fastify awaits what a plugin returns
  await app.register(async (scope) => {
    await takeBodies(scope, 'stream', services.config.maxUploadBytes)
    scope.addHook('onRequest', async (_request, reply) => {
      void reply.headers(apiVersion)
    })
    for (const url of ['/v2', '/v2/*']) {
      scope.route({
        method: methods,
        url,
        exposeHeadRoute: false,
        config: { operationId: 'registry.protocol' },
        handler: async (request, reply) => send(reply, await answer(registry, request)),
        errorHandler: (error, request, reply) => sendOciError(request, reply, error),
      })
    }
  })
  return registry
}

/** `GET /v2/`, by which clients learn how to sign in; errors in the registry's form. @source contract B9.1 */
export async function answerPing(registry: OciRegistry, request: FastifyRequest): Promise<Answer> {
  try {
    const { status, headers, body } = await answer(registry, request)
    return new Answer({ status: status ?? 200, headers: { ...headers, ...apiVersion }, body })
  } catch (thrown) {
    const error = toOciError(thrown)
    if (!error) throw thrown
    const headers = { 'content-type': 'application/json', ...error.headers, ...apiVersion }
    return new Answer({ status: error.status, headers, body: JSON.stringify(ociErrorBody(error)) })
  }
}

async function answer(registry: OciRegistry, request: FastifyRequest): Promise<Answer> {
  const call = await authenticate(registry, request)
  const path = request.url.split('?', 1)[0]!.slice('/v2'.length)
  const route = parseOciPath(request.method, path)
  return answerRoute(await authorize(call, route), route)
}

async function answerRoute(call: OciCall, route: OciRoute): Promise<Answer> {
  switch (route.kind) {
    case 'ping':
      return new Answer({ headers: { 'content-length': '0' } })
    case 'catalog':
      return answerCatalog(call)
    case 'tags':
      return answerTags(call, route.name)
    case 'referrers':
      return answerReferrers(call, route.name, route.digest)
    case 'manifest':
      return answerManifest(call, route)
    case 'blob':
      return answerBlob(call, route)
    case 'uploads':
      return startUpload(call, route.name)
    case 'upload':
      return answerUpload(call, route)
  }
}

function send(reply: FastifyReply, answered: Answer): FastifyReply {
  if (answered instanceof ContentAnswer) return sendContent(reply, answered)
  const { status, headers, body } = answered
  return reply
    .code(status ?? 200)
    .headers(headers)
    .send(body ?? undefined)
}

function sendOciError(request: FastifyRequest, reply: FastifyReply, thrown: unknown): void {
  drain(request)
  const error = toOciError(thrown)
  if (!error) {
    sendError(request, reply, thrown)
    return
  }
  request.log.info({ code: error.code, err: error.cause }, error.message)
  void reply.code(error.status).headers(error.headers).type('application/json')
  void reply.send(request.method === 'HEAD' ? undefined : JSON.stringify(ociErrorBody(error)))
}

/** Reads past what is left of a refused body: a client that is still sending would not see the answer otherwise. */
function drain({ raw }: FastifyRequest): void {
  if (raw.complete) return
  raw.removeAllListeners('readable')
  raw.on('error', () => undefined)
  raw.resume()
}
