import { bodyFor } from './bodies.ts'
import type { Actor } from './cast.ts'
import type { DescribedOperation } from './document.ts'
import type { Memory } from './memory.ts'
import type { Random } from './random.ts'
import { oddText, validValue } from './values.ts'
import type { WireRequest } from './wire.ts'

/** A request with what was meant by it. */
export interface Attempt {
  operation: DescribedOperation
  actor: Actor
  params: Record<string, string>
  wire: WireRequest
  /** The JSON body that was sent, when it was one. */
  json?: unknown
  /** Method and target are those of the operation, so that its declared answers are all there may be. */
  faithful: boolean
  /** The thing addressed belongs to another tenant than the one chosen. */
  foreign: boolean
}

const proxied = ['ping', 'health', 'version', 'v2', 'v2/health/ready', 'invocations', 'v2/models/probe', '../../x']

/** One request of that actor to that operation: what it needs comes from memory where possible. */
export function compose(random: Random, operation: DescribedOperation, actor: Actor, memory: Memory): Attempt {
  const known = memory.address(random, operation.path)
  return build(random, operation, actor, memory, known, false)
}

/** A request of a stranger for a thing of another tenant; null when none is known. */
export function composeForeign(
  random: Random,
  operation: DescribedOperation,
  stranger: Actor,
  memory: Memory,
): Attempt | null {
  const known = operation.ofTenant && !/user_id/.test(operation.path) && memory.ownAddress(random, operation.path)
  return known ? build(random, operation, stranger, memory, known, true) : null
}

function build(
  random: Random,
  operation: DescribedOperation,
  actor: Actor,
  memory: Memory,
  known: Record<string, string>,
  foreign: boolean,
): Attempt {
  const recall = (name: string) => memory.recall(random, name)
  const params: Record<string, string> = {}
  for (const { name, place, schema } of operation.parameters) {
    if (place !== 'path') continue
    const value = name === 'path' ? random.pick(proxied) : (known[name] ?? validValue(random, schema, recall, name))
    params[name] = !foreign && random.chance(0.06) ? oddText(random).slice(0, 600) : String(value)
  }
  const body = bodyFor(random, operation, recall)
  const headers: Record<string, string | string[]> = { ...body.headers }
  if (actor.token) headers.authorization = `Bearer ${actor.token}`
  if (body.type) headers['content-type'] = body.type
  const query = queryOf(random, operation, recall)
  if (operation.ofTenant) chooseTenant(random, actor, headers, query, foreign)
  if (random.chance(0.08)) Object.assign(headers, oddHeaders(random))
  const search = query.map(([name, value]) => `${encoded(name)}=${encoded(value)}`).join('&')
  const path = operation.path.replace(/\{(\w+)\}/g, (_all, name: string) => pathText(name, params[name]!))
  const wire = { method: operation.method, target: search ? `${path}?${search}` : path, headers, body: body.bytes }
  // An empty parameter makes another address.
  const faithful = Object.values(params).every((text) => text !== '')
  const attempt = { operation, actor, params, wire, json: body.json, faithful, foreign }
  return foreign || random.chance(0.95) ? attempt : twisted(random, attempt)
}

const encoded = (text: string) => encodeURIComponent(text.toWellFormed())

const pathText = (name: string, text: string) => (name === 'path' ? encodeURI(text.toWellFormed()) : encoded(text))

function queryOf(random: Random, { parameters }: DescribedOperation, recall: (name: string) => unknown) {
  const query: [string, string][] = []
  const share = random.pick([0, 0.2, 0.6])
  for (const { name, place, required, schema } of parameters) {
    if (place !== 'query' || name === 'tenant') continue
    if (!(required ? random.chance(0.97) : random.chance(share))) continue
    const value = random.chance(0.15) ? oddText(random).slice(0, 3000) : validValue(random, schema, recall, name)
    for (const one of [value].flat()) query.push([name, String(one)])
    if (random.chance(0.03)) query.push([name, String(value)])
  }
  if (random.chance(0.03)) query.push([oddText(random).slice(0, 50), 'x'])
  return query
}

function chooseTenant(
  random: Random,
  { tenant }: Actor,
  headers: Record<string, string | string[]>,
  query: [string, string][],
  surely: boolean,
): void {
  const way = surely ? 0 : random.next()
  if (way < 0.85) headers['x-tenant'] = tenant
  else if (way < 0.95) query.push(['tenant', tenant])
  else if (way < 0.98)
    headers['x-tenant'] = random.pick(['', 'none', 'x'.repeat(500), '__proto__', `${tenant}, default`])
}

const oddHeaders = (random: Random): Record<string, string | string[]> =>
  random.pick<Record<string, string | string[]>>([
    { range: 'bytes=0-0' },
    { range: 'bytes=-1' },
    { range: 'bytes=5-1' },
    { range: 'bytes=99999999999999999999-' },
    { range: 'bytes=0-1,3-4' },
    { 'content-range': 'bytes 0-9/10' },
    { 'content-range': 'bytes 5-1/0' },
    { 'content-range': 'bytes 0-9/99999999999999999999999' },
    { 'if-none-match': '*' },
    { 'if-match': '"none"' },
    { 'if-match': '*' },
    { 'if-range': 'x' },
    { accept: 'application/xml' },
    { accept: 'text/csv' },
    { 'last-event-id': '-1' },
    { 'x-request-id': 'x'.repeat(5000) },
    { 'x-forwarded-for': 'not an address' },
    { 'x-forwarded-proto': 'gopher' },
    { cookie: 'platformauth=; platformauth=%00; a' },
    { cookie: 'x'.repeat(8000) },
    { authorization: 'Basic bm9uZQ==' },
    { authorization: 'Bearer a.b.c' },
    { authorization: 'Bearer' },
    { origin: 'null' },
    { 'sec-fetch-site': 'cross-site' },
    { 'x-http-method-override': 'DELETE' },
    { expect: '100-continue' },
    { 'x-tenant': ['default', 'none'] },
  ])

/** Another method, or an address that nobody should write. */
function twisted(random: Random, attempt: Attempt): Attempt {
  const { wire } = attempt
  if (random.chance(0.5)) {
    const method = random.pick([
      'HEAD',
      'OPTIONS',
      'PUT',
      'PATCH',
      'DELETE',
      'POST',
      'GET',
      'TRACE',
      'PROPFIND',
      'QUERY',
    ])
    return { ...attempt, faithful: false, wire: { ...wire, method } }
  }
  const { target } = wire
  const target_ = random.pick([
    ...[`${target}/`, `/${target}`, `${target}%`, `${target}%zz`, `${target}%ff`, `${target}%00`, `${target}?`],
    ...[`${target}?&&=&a`, `${target}#x`, `${target}?${'a=1&'.repeat(4000)}`, target.replace('/', '/./'), '*'],
    ...[
      `http://evil.example${target}`,
      target.replaceAll('/', '%2f'),
      `${target}/../../openapi.json`,
      `${target}:none`,
    ],
    ...[target.toUpperCase(), `${target}/${'x'.repeat(9000)}`, `${target}?page=1&page=2`, '/', '/%', '//', '/api/v1'],
  ])
  return { ...attempt, faithful: false, wire: { ...wire, target: target_ } }
}
