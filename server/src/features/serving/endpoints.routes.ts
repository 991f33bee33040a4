import { invalid } from '../../platform/errors.ts'
import { tenant } from '../../platform/http/access.ts'
import { requireMatch } from '../../platform/http/etag.ts'
import { listView } from '../../platform/http/lists.ts'
import { type Operation, operation } from '../../platform/http/operation.ts'
import { listOf } from '../../platform/schema.ts'
import { tailLogs } from './endpoint-logs.service.ts'
import { endpointView } from './endpoints.present.ts'
import {
  CreateEndpointBody,
  Endpoint,
  EndpointLogs,
  EndpointParams,
  LogsQuery,
  UpdateEndpointBody,
} from './endpoints.schema.ts'
import {
  changeServed,
  checkEndpoint,
  createEndpoint,
  findEndpoints,
  getEndpoint,
  removeEndpoint,
  startEndpoint,
  stopEndpoint,
} from './endpoints.service.ts'
import type { Situation } from './reconcile.ts'

const deleting = 'It is being deleted (detail.reason deleting).'

/** @source service §4.6, contract SV-01…SV-08, SV-11 */
export const endpointRoutes: Operation[] = [
  operation({
    id: 'serving.listEndpoints',
    method: 'GET',
    path: '/api/v1/serving/endpoints',
    summary: 'Endpoints, newest first.',
    access: tenant('VIEW'),
    responses: { 200: listOf(Endpoint) },
    handler: async (ctx) => listView((await findEndpoints(ctx)).map(endpointView)),
  }),
  operation({
    id: 'serving.createEndpoint',
    method: 'POST',
    path: '/api/v1/serving/endpoints',
    summary: 'Serve an image; the endpoint is RUNNING when all its replicas answer.',
    access: tenant('DEPLOY'),
    audit: 'endpoint.create',
    body: CreateEndpointBody,
    responses: { 201: Endpoint },
    errors: { 409: 'detail.reason: name_taken, image_not_ready, model_deleted or no_gpu_share.' },
    handler: async (ctx, { body }) => endpointView(await createEndpoint(ctx, body)),
  }),
  operation({
    id: 'serving.getEndpoint',
    method: 'GET',
    path: '/api/v1/serving/endpoints/{name}',
    summary: 'One endpoint with its replicas.',
    access: tenant('VIEW'),
    params: EndpointParams,
    etag: true,
    responses: { 200: Endpoint },
    handler: async (ctx, { params }) => endpointView(await getEndpoint(ctx, params.name)),
  }),
  operation({
    id: 'serving.updateEndpoint',
    method: 'PATCH',
    path: '/api/v1/serving/endpoints/{name}',
    summary: 'Scale an endpoint, or roll it over to another image.',
    access: tenant('OPERATE'),
    audit: 'endpoint.update',
    params: EndpointParams,
    body: UpdateEndpointBody,
    responses: { 200: Endpoint },
    errors: {
      409: `detail.reason: stopped, image_not_ready, model_deleted. ${deleting}`,
      412: 'It was changed since it was read (If-Match).',
    },
    handler: async (ctx, { params, body, request }) => {
      if (body.replicas !== undefined && body.replicas < 1) throw useStop(body.replicas)
      const precondition = (present: Situation) => requireMatch(request, endpointView(present))
      return endpointView(await changeServed(ctx, params.name, body, precondition))
    },
  }),
  operation({
    id: 'serving.deleteEndpoint',
    method: 'DELETE',
    path: '/api/v1/serving/endpoints/{name}',
    summary: 'Delete an endpoint; what it has taken it still answers.',
    access: tenant('DEPLOY'),
    audit: 'endpoint.delete',
    params: EndpointParams,
    responses: { 200: Endpoint },
    handler: async (ctx, { params }) => endpointView(await removeEndpoint(ctx, params.name)),
  }),
  operation({
    id: 'serving.stopEndpoint',
    method: 'POST',
    path: '/api/v1/serving/endpoints/{name}/stop',
    summary: 'Take an endpoint out of service and end its replicas.',
    access: tenant('OPERATE'),
    audit: 'endpoint.stop',
    params: EndpointParams,
    responses: { 200: Endpoint },
    errors: { 409: deleting },
    handler: async (ctx, { params }) => endpointView(await stopEndpoint(ctx, params.name)),
  }),
  operation({
    id: 'serving.startEndpoint',
    method: 'POST',
    path: '/api/v1/serving/endpoints/{name}/start',
    summary: 'Put a stopped endpoint into service with as many replicas as before.',
    access: tenant('OPERATE'),
    audit: 'endpoint.start',
    params: EndpointParams,
    responses: { 200: Endpoint },
    errors: { 409: deleting },
    handler: async (ctx, { params }) => endpointView(await startEndpoint(ctx, params.name)),
  }),
  operation({
    id: 'serving.readEndpointLogs',
    method: 'GET',
    path: '/api/v1/serving/endpoints/{name}/logs',
    summary: 'The last lines that the replicas wrote.',
    access: tenant('VIEW'),
    params: EndpointParams,
    query: LogsQuery,
    responses: { 200: EndpointLogs },
    handler: async (ctx, { params, query }) => ({
      endpoint: params.name,
      replicas: await tailLogs(ctx, params.name, query.lines),
    }),
  }),
  operation({
    id: 'serving.checkEndpoint',
    method: 'POST',
    path: '/api/v1/serving/endpoints/{name}/heartbeat',
    summary: 'Look at every replica now and bring the state up to date.',
    access: tenant('OPERATE'),
    audit: 'endpoint.check',
    params: EndpointParams,
    responses: { 200: Endpoint },
    handler: async (ctx, { params }) => endpointView(await checkEndpoint(ctx, params.name)),
  }),
]

const useStop = (input: number) =>
  invalid({ loc: ['body', 'replicas'], msg: 'must be 1 or more; for 0 use stop', type: 'greater_than_equal', input })
