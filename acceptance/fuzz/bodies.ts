import { gzipSync } from 'node:zlib'
import type { DescribedOperation } from './document.ts'
import type { Random } from './random.ts'
import { oddText, type Recall, spoiled, validValue } from './values.ts'

export interface Body {
  type: string | null
  bytes: Buffer | null
  /** The JSON that was meant, when the bytes are just that. */
  json?: unknown
  headers?: Record<string, string>
}

/** Never more: each is a process. */
const most: Record<string, number> = { 'serving.createEndpoint.replicas': 2, 'serving.updateEndpoint.replicas': 2 }

/** Values that lead further than what the schema alone allows, or that keep the machine usable. */
const hints: Record<string, readonly unknown[]> = {
  'datasets.createUpload.size': [1, 10, 100],
  'datasets.createUpload.filename': ['a.png', 'train/red/b.png', 'data.csv', 'a.zip', 'labels.json'],
  'registry.createImport.size_bytes': [10, 100, 1000],
  'serving.createEndpoint.gpu': [0],
  'models.setStage.stage': ['None', 'Staging', 'Archived', 'Production'],
  'experiments.create.task': ['image_classification'],
  'experiments.create.framework': ['torchvision'],
  'experiments.create.model': ['small_cnn'],
  'experiments.create.hyperparameters': ['epochs: 1\n'],
  'images.build.builder_tag': [null],
}

const samples = [
  Buffer.from('a,b\n1,2\n'),
  Buffer.from('{"images": [], "annotations": [], "categories": []}'),
  Buffer.from(
    'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
    'base64',
  ),
  Buffer.from('PK\x05\x06'.padEnd(22, '\0'), 'latin1'),
  Buffer.from('PK\x03\x04broken', 'latin1'),
  Buffer.alloc(1),
  Buffer.alloc(10, 'x'),
  Buffer.alloc(100, 0xff),
  Buffer.alloc(1000, '{'),
  Buffer.alloc(0),
]

/** A body for the operation: mostly one it takes, at times a spoiled one. */
export function bodyFor(random: Random, operation: DescribedOperation, recall: Recall): Body {
  if (!operation.body) return random.chance(0.03) ? oddBody(random, '{}') : { type: null, bytes: null }
  const { type, schema } = operation.body
  const spoil = random.chance(0.3)
  if (type === 'application/octet-stream') return { type, bytes: random.pick(samples) }
  if (type === 'multipart/form-data') return spoil && random.chance(0.5) ? oddBody(random, '{}') : multipart(random)
  const meant = validValue(random, schema, (name) => hinted(random, operation.id, name) ?? recall(name), '')
  const good = withHints(random, operation.id, meant)
  const value = spoil ? spoiled(random, good) : good
  if (type !== 'application/json') return { type, bytes: Buffer.from(formText(value)) }
  const json = JSON.stringify(value) ?? ''
  if (random.chance(0.07)) return oddBody(random, json)
  return { type, bytes: Buffer.from(json), json: JSON.parse(json) }
}

const hinted = (random: Random, id: string, name: string): unknown => {
  const values = hints[`${id}.${name}`]
  return values && random.chance(0.9) ? random.pick(values) : undefined
}

function withHints(random: Random, id: string, value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value
  const sane = (key: string, old: unknown) =>
    typeof old === 'number' ? Math.min(old, most[`${id}.${key}`] ?? Number.POSITIVE_INFINITY) : old
  return Object.fromEntries(Object.entries(value).map(([key, old]) => [key, hinted(random, id, key) ?? sane(key, old)]))
}

function formText(value: unknown): string {
  const entries = Object.entries((value ?? {}) as Record<string, unknown>)
  const pairs = entries.map(([key, part]) => [key, String(part).toWellFormed()] as [string, string])
  return new URLSearchParams(pairs).toString()
}

function multipart(random: Random): Body {
  const name = random.pick(['a.png', 'train/red/1.png', 'data.csv', 'a.zip', '../x', 'ä.png', '', oddText(random)])
  const field = random.chance(0.9) ? 'file' : oddText(random).slice(0, 50)
  const head = `--b\r\ncontent-disposition: form-data; name="${field}"; filename="${name.toWellFormed()}"\r\n\r\n`
  const end = random.chance(0.9) ? '\r\n--b--\r\n' : ''
  const bytes = Buffer.concat([Buffer.from(head), random.pick(samples), Buffer.from(end)])
  return { type: `multipart/form-data${random.chance(0.95) ? '; boundary=b' : ''}`, bytes }
}

/** Bytes and content types that no client of ours would send. */
function oddBody(random: Random, json: string): Body {
  const type = 'application/json'
  const bytes = Buffer.from(json)
  return random.pick<() => Body>([
    () => ({ type, bytes: Buffer.alloc(0) }),
    () => ({ type, bytes: bytes.subarray(0, bytes.length - 1) }),
    () => ({ type, bytes: Buffer.from(json.replace('{', '{"name":1,"name":2,')) }),
    () => ({ type, bytes: Buffer.from(`${'['.repeat(100_000)}`) }),
    () => ({ type, bytes: Buffer.from(`${'{"a":'.repeat(20_000)}1${'}'.repeat(20_000)}`) }),
    () => ({ type, bytes: Buffer.from(JSON.stringify({ name: 'x'.repeat(2 << 20) })) }),
    () => ({ type, bytes: Buffer.from([0xff, 0xfe, 0x7b, 0x7d, 0xc3, 0x28]) }),
    () => ({ type, bytes: Buffer.from(`\ufeff${json}`) }),
    () => ({ type, bytes: Buffer.from('{"__proto__":{"a":1},"constructor":{"prototype":{}}}') }),
    () => ({ type, bytes: Buffer.from('{"a":1e999,"b":-1e999,"c":12345678901234567890123}') }),
    () => ({ type, bytes: gzipSync(bytes), headers: { 'content-encoding': 'gzip' } }),
    () => ({ type: 'application/json; charset=utf-16', bytes }),
    () => ({ type: 'text/plain', bytes }),
    () => ({
      type: 'application/xml',
      bytes: Buffer.from('<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><a>&b;</a>'),
    }),
    () => ({ type: 'application/x-www-form-urlencoded', bytes: Buffer.from('a[__proto__][b]=c&a=%ff&%00=%zz') }),
    () => ({ type: 'multipart/form-data', bytes }),
    () => ({ type: 'multipart/form-data; boundary=', bytes }),
    () => ({ type: ';;;', bytes }),
    () => ({ type: null, bytes }),
  ])()
}
