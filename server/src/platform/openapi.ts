import type { TSchema } from 'typebox'
import { impliedErrors } from './http/declared-errors.ts'
import { isRawContent, type Operation, type Responses } from './http/operation.ts'
import { documentPath } from './http/paths.ts'

type Json = Record<string, unknown>

const bodyTypes: Record<string, string> = {
  json: 'application/json',
  form: 'application/x-www-form-urlencoded',
  multipart: 'multipart/form-data',
  stream: 'application/octet-stream',
}

/** The OpenAPI 3.1 document of the running server. Schemas with a `title` become named components. @source service §9 */
export function openapiDocument(operations: Operation[], publicUrl: string): Json {
  const components: Record<string, unknown> = { ...errorComponents }
  const paths: Record<string, Json> = {}
  for (const operation of operations) {
    const path = documentPath(operation.path)
    paths[path] ??= {}
    paths[path][operation.method.toLowerCase()] = describe(operation, components)
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Model Operations Platform',
      version: '1.0.0',
      description:
        'From images on disk to a monitored model in production. Operations of a tenant need the header `X-Tenant` ' +
        '(or the query parameter `tenant`). Every error has the body `Error`.',
      license: { name: 'Apache-2.0' },
    },
    servers: [{ url: publicUrl }],
    tags: [...new Set(operations.map(tagOf))].map((name) => ({ name })),
    paths,
    components: {
      schemas: components,
      securitySchemes: {
        bearer: { type: 'http', scheme: 'bearer', bearerFormat: 'JWT' },
        cookie: { type: 'apiKey', in: 'cookie', name: 'platformauth' },
      },
    },
  }
}

const tagOf = (operation: Operation): string => operation.id.split('.')[0]!

function describe(operation: Operation, components: Json): Json {
  const { access } = operation
  return {
    operationId: operation.id,
    tags: [tagOf(operation)],
    summary: operation.summary,
    description: accessText(operation),
    ...(access.level === 'none' ? { security: [] } : { security: [{ bearer: [] }, { cookie: [] }] }),
    parameters: [
      ...parametersOf(operation, components),
      ...(access.level === 'tenant' ? tenantParameters(operation) : []),
    ],
    ...(operation.bodyKind === 'none' ? {} : { requestBody: requestBody(operation, components) }),
    responses: responsesOf(operation, components),
  }
}

function accessText({ access }: Operation): string {
  if (access.level === 'tenant') return `Needs the permission ${access.permission} in the chosen tenant.`
  if (access.level === 'superuser') return 'Needs a global administrator.'
  if (access.level === 'session') return 'Needs a login; no tenant.'
  return 'Needs no credential.'
}

function parametersOf(operation: Operation, components: Json): Json[] {
  const of = (place: 'path' | 'query', schema: TSchema | null): Json[] => {
    const { properties = {}, required = [] } = (schema ?? {}) as {
      properties?: Record<string, TSchema>
      required?: string[]
    }
    return Object.entries(properties).map(([name, property]) => {
      const { description, ...rest } = property as Json
      const optional = place === 'query' && (!required.includes(name) || 'default' in rest)
      return {
        name,
        in: place,
        required: !optional,
        ...(description ? { description } : {}),
        schema: hoist(rest, components),
      }
    })
  }
  return [...of('path', operation.params), ...of('query', operation.query)]
}

const tenantParameters = (operation: Operation): Json[] => [
  {
    name: 'X-Tenant',
    in: 'header',
    required: false,
    description: 'Code of the tenant; wins over the query.',
    schema: { type: 'string' },
  },
  ...(operation.query && 'tenant' in operation.query.properties
    ? []
    : [
        {
          name: 'tenant',
          in: 'query',
          required: false,
          description: 'Code of the tenant.',
          schema: { type: 'string' },
        },
      ]),
]

function requestBody(operation: Operation, components: Json): Json {
  const file = { type: 'object', required: ['file'], properties: { file: { type: 'string', format: 'binary' } } }
  const schema = operation.body
    ? hoist(operation.body as Json, components)
    : operation.bodyKind === 'multipart'
      ? file
      : { type: 'string', format: 'binary' }
  return { required: true, content: { [bodyTypes[operation.bodyKind]!]: { schema } } }
}

function responsesOf(operation: Operation, components: Json): Json {
  const answers = Object.entries(operation.responses as Responses).map(([status, schema]) => {
    const description = isRawContent(schema)
      ? schema.description
      : ((schema as Json | null)?.description ?? operation.summary)
    if (schema === null) return [status, { description }]
    if (isRawContent(schema))
      return [status, { description, content: { [schema.content]: { schema: { type: 'string' } } } }]
    return [status, { description, content: { 'application/json': { schema: hoist(schema as Json, components) } } }]
  })
  const errors = Object.entries({ ...impliedErrors(operation), ...operation.errors }).map(([status, description]) => [
    status,
    status === '304'
      ? { description }
      : {
          description,
          content: {
            'application/json': {
              schema: { $ref: `#/components/schemas/${status === '422' ? 'HTTPValidationError' : 'Error'}` },
            },
          },
        },
  ])
  return Object.fromEntries([...answers, ...errors])
}

/** The schema with every titled object replaced by a reference to its component. */
function hoist(schema: unknown, components: Json): unknown {
  if (Array.isArray(schema)) return schema.map((item) => hoist(item, components))
  if (typeof schema !== 'object' || schema === null) return schema
  const copy = Object.fromEntries(Object.entries(schema).map(([key, value]) => [key, hoist(value, components)]))
  const { title } = copy
  if (typeof title !== 'string' || copy.type !== 'object') return copy
  components[title] ??= copy
  return { $ref: `#/components/schemas/${title}` }
}

const nullableJson = { description: 'Anything that helps; may be null.' }
const errorProperties = {
  error_id: { type: 'string', description: 'Key of the line in the server log.' },
  code: { type: 'string', examples: ['bad_request', 'not_found'] },
  message: { type: 'string' },
  detail: nullableJson,
}
const required = ['error_id', 'code', 'message', 'detail']

const errorComponents = {
  Error: { type: 'object', required, properties: errorProperties },
  ValidationError: {
    type: 'object',
    required: ['loc', 'msg', 'type'],
    properties: {
      loc: { type: 'array', items: { anyOf: [{ type: 'string' }, { type: 'integer' }] } },
      msg: { type: 'string' },
      type: { type: 'string' },
      input: {},
    },
  },
  HTTPValidationError: {
    type: 'object',
    required,
    properties: {
      ...errorProperties,
      detail: { type: 'array', items: { $ref: '#/components/schemas/ValidationError' } },
    },
  },
}
