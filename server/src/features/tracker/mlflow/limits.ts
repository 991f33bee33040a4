import { posix } from 'node:path'
import type { MetricPoint } from '../metrics.store.ts'
import {
  type Fields,
  invalidValue,
  missing,
  optionalInteger,
  optionalText,
  requiredDouble,
  requiredText,
} from './fields.ts'
import { invalidParameter } from './mlflow-errors.ts'

/** Longest values by what carries the tag. @source contract B10.6 (runs); what MLflow 3 clients may send (others) */
const longestTag = { run: 5000, experiment: 20_000, model: 100_000 } as const

export type TagOwner = keyof typeof longestTag

const longestKey = 250
const longestParam = 6000

/** @source contract B10.6 */
export const batchLimits = { bytes: 1_000_000, metrics: 1000, params: 100, tags: 100, entities: 1000 } as const

export function checkLength(what: string, value: string, most: number): void {
  if (value.length > most) {
    throw invalidParameter(
      `${what} '${value.slice(0, 50)}...' had length ${value.length}, which exceeded length limit of ${most}`,
    )
  }
}

/** Keys become paths in other stores: they must be clean ones. */
export function checkKey(key: string, path: string): void {
  if (!/^[/\p{L}\p{N}_.\- :]+$/u.test(key)) {
    const allowed =
      'Names may only contain alphanumerics, underscores (_), dashes (-), periods (.), spaces ( ), colon(:) and slashes (/).'
    throw invalidValue(path, key, allowed)
  }
  if (posix.normalize(key) !== key || key === '.' || key.startsWith('..') || key.startsWith('/')) {
    throw invalidValue(
      path,
      key,
      'Names may be treated as files in certain cases, and must not resolve to other names when treated as such.',
    )
  }
  if (key.length > longestKey) {
    throw invalidValue(path, key, `it had length ${key.length}, which exceeded length limit of ${longestKey}`)
  }
}

export function checkTag(key: string, value: string, owner: TagOwner, path = 'key'): void {
  checkKey(key, path)
  checkLength('Tag value', value, longestTag[owner])
}

/** Labels of a list of `{key, value}`; the last one of a key counts. */
export function tagsOf(list: Fields[], owner: TagOwner, path = 'tags'): Record<string, string> {
  return Object.fromEntries(
    list.map((tag, place) => {
      const key = requiredText(tag, 'key')
      const value = optionalText(tag, 'value') ?? ''
      checkTag(key, value, owner, `${path}[${place}].key`)
      return [key, value]
    }),
  )
}

/** Parameters of a list; the same key twice must have the same value. */
export function paramsOf(list: Fields[], path = 'params'): [key: string, value: string][] {
  const params = new Map<string, string>()
  for (const [place, param] of list.entries()) {
    const { key, value } = paramOf(param, list.length === 1 && path === '' ? 'key' : `${path}[${place}].key`)
    if ((params.get(key) ?? value) !== value) {
      throw invalidParameter(`Duplicate parameter keys have been submitted: ${key}`)
    }
    params.set(key, value)
  }
  return [...params]
}

function paramOf(param: Fields, path: string): { key: string; value: string } {
  const key = requiredText(param, 'key')
  const value = optionalText(param, 'value') ?? ''
  checkKey(key, path)
  checkLength('Param value', value, longestParam)
  return { key, value }
}

/** A metric point; without a step it is step 0. */
export function metricOf(fields: Fields, path = ''): MetricPoint {
  const key = requiredText(fields, 'key')
  checkKey(key, path ? `${path}.name` : 'name')
  const at = (name: string) => (path ? `${path}.${name}` : name)
  const timestampMs = optionalInteger(fields, 'timestamp', at('timestamp'))
  if (timestampMs === null) throw missing(at('timestamp'))
  if (timestampMs < 0) {
    throw invalidValue(at('timestamp'), timestampMs, 'Timestamp must be a nonnegative long (64-bit integer)')
  }
  const value = requiredDouble(fields, 'value', at('value'))
  return { key, value, timestampMs, step: optionalInteger(fields, 'step', at('step')) ?? 0 }
}
