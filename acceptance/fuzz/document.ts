/** A JSON Schema as the description of the interface holds it. */
// biome-ignore lint/suspicious/noExplicitAny: schemas are read key by key
export type Schema = Record<string, any>

export interface Parameter {
  name: string
  place: 'path' | 'query' | 'header'
  required: boolean
  schema: Schema
}

/** What the description says of one operation, with its schemas closed over the components they refer to. */
export interface DescribedOperation {
  id: string
  method: string
  path: string
  /** False when anybody may call it. */
  guarded: boolean
  /** Whether it works in a chosen tenant. */
  ofTenant: boolean
  /** Whether it is for global administrators alone. */
  global: boolean
  parameters: Parameter[]
  body: { type: string; schema: Schema } | null
  /** Status → media type and schema; null for no body. */
  responses: Record<number, { type: string; schema: Schema } | null>
}

/** Reads /openapi.json. Throws for a document that does not describe what a fuzzer needs. */
export function readDocument(document: Schema): DescribedOperation[] {
  const { components } = document
  const whole = (schema: Schema): Schema => ({ ...schema, components })
  const content = (value: Schema | undefined) => {
    const [entry] = Object.entries((value ?? {}) as Record<string, { schema: Schema }>)
    return entry ? { type: entry[0], schema: whole(entry[1].schema) } : null
  }
  return Object.entries(document.paths as Record<string, Record<string, Schema>>).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, described]) => {
      const parameters = ((described.parameters ?? []) as Schema[]).map((parameter) => ({
        name: parameter.name,
        place: parameter.in,
        required: parameter.required,
        schema: whole(parameter.schema),
      }))
      return {
        id: described.operationId,
        method: method.toUpperCase(),
        path,
        guarded: described.security.length > 0,
        ofTenant: parameters.some(({ name, place }) => place === 'header' && name === 'X-Tenant'),
        global: /global administrator/.test(described.description),
        parameters: parameters.filter(({ place }) => place !== 'header'),
        body: content(described.requestBody?.content),
        responses: Object.fromEntries(
          Object.entries(described.responses as Record<string, Schema>).map(([status, response]) => [
            Number(status),
            content(response.content),
          ]),
        ),
      }
    }),
  )
}

/** The schema itself in place of a reference to it. */
export function resolved(schema: Schema, components: Schema): Schema {
  const name = typeof schema.$ref === 'string' ? schema.$ref.split('/').at(-1) : null
  return name ? resolved(components.schemas[name], components) : schema
}
