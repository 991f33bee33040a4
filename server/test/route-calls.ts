import { Agent, type OutgoingHttpHeaders, request } from 'node:http'
import type { TSchema } from 'typebox'
import type { Operation } from '../src/platform/http/operation.ts'

export interface RouteReply {
  status: number
  text: string
  // biome-ignore lint/suspicious/noExplicitAny: tests look into answers of every shape
  body: any
}

const agent = new Agent({ keepAlive: true, maxSockets: 16 })

/** Address of an operation with made-up parameters that pass its own description. */
export function addressOf(operation: Operation, query = ''): string {
  const path = operation.path.replace(/\{(\w+)\+?\}/g, (_all, name: string) =>
    encodeURIComponent(sampleOf(operation.params.properties[name]!)),
  )
  return query ? `${path}?${query}` : path
}

function sampleOf(schema: TSchema): string {
  const { format, enum: values, type, examples, minimum } = schema as Record<string, unknown>
  if (Array.isArray(examples)) return String(examples[0])
  if (Array.isArray(values)) return String(values[0])
  if (format === 'uuid') return '00000000-0000-7000-8000-000000000000'
  if (type === 'integer' || type === 'number') return String(minimum ?? 1)
  return 'none'
}

const contentTypes = {
  none: null,
  json: 'application/json',
  form: 'application/x-www-form-urlencoded',
  multipart: 'multipart/form-data; boundary=b',
  stream: 'application/octet-stream',
} as const

/** Text that breaks what does not expect it: control characters, wildcards, other scripts, paths, length. */
export const oddTexts = [
  '\'"\\%_',
  'a\r\nb',
  '\u202e\ufeff😀',
  '../../etc/passwd',
  'x'.repeat(5000),
  '\0',
  'a\u0000b',
  '\ud800',
]

/** The same address with every parameter that is free text replaced. */
export function oddAddressOf(operation: Operation, text: string): string {
  const path = operation.path.replace(/\{(\w+)\+?\}/g, (_all, name: string) =>
    isFreeText(operation.params.properties[name]!)
      ? encodeURIComponent(text.toWellFormed().slice(0, 400))
      : encodeURIComponent(sampleOf(operation.params.properties[name]!)),
  )
  const names = Object.entries(operation.query?.properties ?? {}).filter(([, schema]) => isFreeText(schema))
  const query = names.map(([name]) => `${name}=${encodeURIComponent(text.toWellFormed().slice(0, 1000))}`)
  return [path, ...(query.length ? [query.join('&')] : [])].join('?')
}

/** A JSON body in which every free text is odd; what is no text is as the description wants it. */
export function oddBodyOf(schema: TSchema | null, text: string): unknown {
  const { type, properties, items, enum: values, anyOf, format, minimum } = (schema ?? {}) as Record<string, never>
  if (Array.isArray(anyOf)) return oddBodyOf(anyOf[0]!, text)
  if (Array.isArray(values)) return values[0]
  if (properties) {
    return Object.fromEntries(Object.entries(properties).map(([key, part]) => [key, oddBodyOf(part as TSchema, text)]))
  }
  if (type === 'object') return { [text]: text }
  if (type === 'array') return [oddBodyOf(items ?? null, text)]
  if (type === 'boolean') return true
  if (type === 'integer' || type === 'number') return minimum ?? 1
  return format === 'uuid' ? '00000000-0000-7000-8000-000000000000' : text
}

const isFreeText = (schema: TSchema): boolean => {
  const { type, enum: values, format } = schema as Record<string, unknown>
  return type === 'string' && !values && !format
}

/** Calls an operation with an empty body of its kind; of an event stream it takes the head and goes. */
export function callRoute(
  url: string,
  operation: Operation,
  headers: OutgoingHttpHeaders,
  given: { query?: string; address?: string; json?: unknown } = {},
): Promise<RouteReply> {
  const type = operation.method === 'GET' ? null : contentTypes[operation.bodyKind]
  const body = type === 'application/json' ? JSON.stringify(given.json ?? {}) : ''
  const length = type ? { 'content-type': type, 'content-length': Buffer.byteLength(body) } : {}
  const options = { method: operation.method, agent, headers: { ...headers, ...length } }
  return new Promise((resolve, reject) => {
    const sent = request(url + (given.address ?? addressOf(operation, given.query)), options, (response) => {
      const status = response.statusCode!
      if (response.headers['content-type'] === 'text/event-stream') {
        resolve({ status, text: '', body: null })
        sent.destroy()
        return
      }
      let text = ''
      response.setEncoding('utf8')
      response.on('data', (piece: string) => {
        text += piece
      })
      response.on('end', () => resolve({ status, text, body: parsed(text) }))
      response.on('error', reject)
    })
    sent.on('error', reject)
    sent.end(type ? body : undefined)
  })
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}

/** Looks at every operation, some at a time, and collects what is wrong with it. */
export async function faultsOf(
  operations: Operation[],
  look: (operation: Operation) => Promise<string | null>,
): Promise<string[]> {
  const faults: string[] = []
  const waiting = [...operations]
  await Promise.all(
    Array.from({ length: 8 }, async () => {
      for (let operation = waiting.shift(); operation; operation = waiting.shift()) {
        const fault = await look(operation)
        if (fault) faults.push(`${operation.id} ${operation.method} ${operation.path}: ${fault}`)
      }
    }),
  )
  return faults.sort()
}

/** A fault unless the answer has this status and the envelope of an error with this code. */
export function refusal(reply: RouteReply, status: number, code: string): string | null {
  if (reply.status !== status) return `${reply.status} in place of ${status}: ${reply.text.slice(0, 200)}`
  const keys = Object.keys(reply.body ?? {}).join()
  if (keys !== 'error_id,code,message,detail') return `its envelope is ${keys || reply.text.slice(0, 80)}`
  return reply.body.code === code ? null : `its code is ${reply.body.code}`
}
