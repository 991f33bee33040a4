import { isRawContent, type Operation } from './operation.ts'
import { validator } from './validation.ts'

/** In the tests an answer that does not fit its declared schema is a failure, and so is one that says more. */
export function answerCheck(operation: Operation, strict: boolean): (status: number, body: unknown) => void {
  if (!strict) return () => undefined
  const checks = new Map(
    Object.entries(operation.responses).flatMap(([status, schema]) =>
      schema && !isRawContent(schema) ? [[Number(status), validator('body', closed(schema))] as const] : [],
    ),
  )
  return (status, body) => {
    if (!(status in operation.responses)) throw new Error(`${operation.id} answers ${status} without declaring it`)
    try {
      checks.get(status)?.(JSON.parse(JSON.stringify(body ?? null)))
    } catch (error) {
      throw new Error(`${operation.id} answers another shape than it declares: ${(error as Error).message}`)
    }
  }
}

/** The schema with every described object closed to further keys. */
function closed<T>(schema: T): T {
  if (Array.isArray(schema)) return schema.map(closed) as T
  if (typeof schema !== 'object' || schema === null) return schema
  const copy = Object.fromEntries(
    Object.entries(schema).map(([key, value]) => [
      key,
      key === 'default' || key === 'examples' ? value : closed(value),
    ]),
  )
  if (copy.type === 'object' && copy.properties && !('additionalProperties' in copy)) copy.additionalProperties = false
  return copy as T
}
