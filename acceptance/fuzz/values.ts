import { resolved, type Schema } from './document.ts'
import type { Random } from './random.ts'

/** Gives something that was seen under that name before, or undefined. */
export type Recall = (name: string) => unknown

const words = [
  ...['a', 'a1', 'default', 'fuzz-1', 'x.y_z', '1', '2', '0', 'Staging', 'VIEWER', 'accuracy', 'v1', 'team/app'],
  ...['fuzz@example.com', 'a@b', '2026-01-01T00:00:00Z', '2024-02-29', '24h', '7d', '15s', '1h30m', 'latest'],
  ...[
    'image_classification',
    'torchvision',
    'small_cnn',
    'probe',
    'train/red/1.png',
    'epochs: 1\n',
    'a b',
    'ä',
    '한국어',
  ],
  ...['00000000-0000-7000-8000-000000000000', '0'.repeat(32), '0'.repeat(64), `sha256:${'0'.repeat(64)}`],
]

const formats: Record<string, readonly string[]> = {
  uuid: ['00000000-0000-7000-8000-000000000000', 'ffffffff-ffff-ffff-ffff-ffffffffffff'],
  'date-time': ['2026-01-01T00:00:00Z', '2020-02-29T23:59:59.999999+14:00', '1970-01-01T00:00:00Z'],
  email: ['fuzz@example.com'],
  uri: ['http://127.0.0.1:9/none'],
  binary: ['bytes'],
}

/** A value that the schema takes, as far as its patterns can be met from a list of words; often at a limit. */
export function validValue(random: Random, schema: Schema, recall: Recall, name: string, depth = 0): unknown {
  const known = name && random.chance(0.7) ? recall(name) : undefined
  const { components } = schema
  const described: Schema = { ...resolved(schema, components), components }
  if (known !== undefined && typeof known === typeName(described)) return known
  const inner = (part: Schema, key: string) => validValue(random, { ...part, components }, recall, key, depth + 1)
  if ('const' in described) return described.const
  if (described.enum) return random.pick(described.enum)
  const branches = described.anyOf ?? described.oneOf
  if (branches) return inner(random.pick(branches), name)
  if (described.examples && random.chance(0.4)) return random.pick(described.examples)
  if (described.type === 'object') return validObject(random, described, inner, depth)
  if (described.type === 'array') {
    const most = Math.min(described.maxItems ?? 3, 3)
    const count = Math.max(described.minItems ?? 0, depth > 6 ? 0 : random.below(most + 1))
    return Array.from({ length: count }, () => inner(described.items ?? {}, ''))
  }
  if (described.type === 'integer' || described.type === 'number') return validNumber(random, described)
  if (described.type === 'boolean') return random.chance(0.5)
  if (described.type === 'null') return null
  if (described.type === 'string') return validText(random, described)
  return random.pick<unknown>([null, true, 0, -1.5, 'text', [], [1, [2]], {}, { a: { b: 'c' } }])
}

const typeName = (schema: Schema): string => (schema.type === 'integer' ? 'number' : String(schema.type ?? 'string'))

type Inner = (part: Schema, key: string) => unknown

function validObject(random: Random, schema: Schema, inner: Inner, depth: number): unknown {
  const required = new Set<string>(schema.required ?? [])
  const entries = Object.entries((schema.properties ?? {}) as Record<string, Schema>)
  const share = depth > 4 ? 0 : random.pick([0, 0.3, 1])
  const chosen = entries.filter(([key]) => required.has(key) || random.chance(share))
  const extra = Object.values((schema.patternProperties ?? {}) as Record<string, Schema>)[0]
  return {
    ...Object.fromEntries(chosen.map(([key, part]) => [key, inner(part, key)])),
    ...(extra && random.chance(0.6) ? { [random.pick(words)]: inner(extra, '') } : {}),
  }
}

function validNumber(random: Random, schema: Schema): number {
  const whole = schema.type === 'integer'
  const low = schema.minimum ?? (schema.exclusiveMinimum === undefined ? -1e6 : schema.exclusiveMinimum + 1)
  const high = schema.maximum ?? (schema.exclusiveMaximum === undefined ? Math.max(1e6, low) : low)
  const near = low + random.below(Math.min(10, high - low + 1))
  const unbounded = schema.maximum === undefined ? [2 ** 31, 2 ** 53 - 1] : []
  return random.pick([low, near, near, near, high, ...unbounded, ...(whole ? [] : [low + 0.1])])
}

function validText(random: Random, schema: Schema): string {
  if (schema.format && formats[schema.format]) return random.pick(formats[schema.format]!)
  const [least, most] = [schema.minLength ?? 0, schema.maxLength ?? 1000]
  const pattern = schema.pattern ? new RegExp(schema.pattern) : null
  const long = ['a', '1', 'é', '😀'].map((letter) => letter.repeat(Math.min(most, 5000)))
  const candidates = [...words, ...words, `w${random.below(100_000)}`, ...(random.chance(0.15) ? long : [])].filter(
    (word) => [...word].length >= least && [...word].length <= most && (!pattern || pattern.test(word)),
  )
  return candidates.length ? random.pick(candidates) : 'a'.repeat(least)
}

const deep = (levels: number): unknown => JSON.parse(`${'[{"a":'.repeat(levels)}1${'}]'.repeat(levels)}`)

/** What a careful server has to refuse, or to survive. */
const oddValues: readonly unknown[] = [
  ...['', ' ', '\0', 'a\0b', '\ud800', '\udc00x', '\u202e\ufeff', '😀'.repeat(300), 'x'.repeat(100_000), 'a\r\nb: c'],
  ...["'; drop table users; --", '%', '%00', '_%\\', '../../../etc/passwd', '..', '.', '/', '\\', '<script>', '$(id)'],
  ...['{{7*7}}', '__proto__', 'constructor', 'null', 'true', 'NaN', '-0', '1e400', '9'.repeat(400), '0x10', '１'],
  ...['2026-13-45', '275760-09-13T00:00:00Z', '-271821-04-20', '+010000-01-01T00:00:00Z', '0000-00-00', '99999999d'],
  ...['0001-01-01T00:00:00Z', '9999-12-31T23:59:59Z', '9999-12-31T23:59:59-23:59', '9007199254740993m'],
  ...[
    null,
    true,
    false,
    0,
    -0,
    -1,
    0.1,
    1e308,
    -1e308,
    1e-320,
    2 ** 31,
    2 ** 32,
    2 ** 53,
    2 ** 63,
    2 ** 64,
    -(2 ** 63),
  ],
  ...[[], [[]], {}, [null], { '': '' }, { '\0': 1 }, deep(60)],
  Array.from({ length: 2000 }, (_, index) => index),
  JSON.parse('{"__proto__": {"isSuperuser": true}, "constructor": {"prototype": {"a": 1}}}'),
]

export const oddValue = (random: Random): unknown => random.pick(oddValues)
export const oddText = (random: Random): string => {
  const value = oddValue(random)
  return typeof value === 'string' ? value : (JSON.stringify(value) ?? '')
}

/** The value with one place in it changed: replaced by something odd, left out, or added. */
export function spoiled(random: Random, value: unknown): unknown {
  if (typeof value !== 'object' || value === null || random.chance(0.05)) return oddValue(random)
  if (Array.isArray(value)) {
    if (value.length === 0) return [oddValue(random)]
    const at = random.below(value.length)
    return value.map((item, index) => (index === at ? spoiled(random, item) : item))
  }
  const keys = Object.keys(value)
  if (keys.length === 0 || random.chance(0.1)) return { ...value, [oddText(random).slice(0, 100)]: oddValue(random) }
  const key = random.pick(keys)
  const { [key]: old, ...rest } = value as Record<string, unknown>
  if (random.chance(0.2)) return rest
  return { ...value, [key]: random.chance(0.5) ? spoiled(random, old) : oddValue(random) }
}
