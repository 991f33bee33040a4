import { isMap, isScalar, LineCounter, parseDocument, type YAMLMap } from 'yaml'
import { type FieldFault, invalid } from '../../platform/errors.ts'
import type { CatalogModel } from './catalogue.ts'

export type HyperparameterValue = number | string | boolean
/** Values by key, groups of them one level down. */
export interface Hyperparameters {
  [key: string]: HyperparameterValue | Hyperparameters
}

/**
 * The hyperparameters of a training: the model's own, overlaid with what the text names. Empty text changes nothing.
 * Throws a 422 whose `loc` is `body.hyperparameters` and then the key, with the line and the column in the message.
 * The ranges are the trainer's to check: it declares them.
 */
export function resolveHyperparameters(model: CatalogModel, text: string): Hyperparameters {
  const defaults = parse(model.hyperparameters_yaml).document.toJS() as Hyperparameters
  const { document, counter } = parse(text)
  const [error] = document.errors
  if (error) throw invalid(fault([], `is not valid YAML: ${error.message.split('\n')[0]}`, 'yaml_invalid'))
  if (document.contents === null) return checkedSize(model, defaults)
  if (!isMap(document.contents)) throw invalid(fault([], 'must be a mapping of keys to values', 'mapping_type'))
  const faults: FieldFault[] = []
  const values = overlay(defaults, document.contents, [], { faults, counter })
  if (faults.length > 0) throw invalid(faults)
  return checkedSize(model, values)
}

/** `early_stopping.patience` instead of a group in a group, all as text: what the tracker keeps. */
export function flattened(values: Hyperparameters, prefix = ''): Record<string, string> {
  const entries = Object.entries(values).flatMap(([key, value]) =>
    typeof value === 'object' ? Object.entries(flattened(value, `${prefix}${key}.`)) : [[prefix + key, String(value)]],
  )
  return Object.fromEntries(entries)
}

function parse(text: string) {
  const counter = new LineCounter()
  return { document: parseDocument(text, { lineCounter: counter, schema: 'core', merge: false }), counter }
}

interface Reading {
  faults: FieldFault[]
  counter: LineCounter
}

function overlay(defaults: Hyperparameters, map: YAMLMap, path: string[], reading: Reading): Hyperparameters {
  const values: Hyperparameters = { ...defaults }
  for (const { key: keyNode, value: node } of map.items) {
    const key = String(isScalar(keyNode) ? keyNode.value : keyNode)
    const at = [...path, key]
    const known = Object.hasOwn(defaults, key) ? defaults[key] : undefined
    const tell = (msg: string, type: string, input?: unknown) =>
      reading.faults.push(fault(at, `${msg}${place(keyNode, reading.counter)}`, type, input))
    if (known === undefined) tell(`is not known; allowed: ${Object.keys(defaults).join(', ')}`, 'extra_forbidden')
    else if (typeof known === 'object') {
      if (isMap(node)) values[key] = overlay(known, node, at, reading)
      else tell(`must be a group with the keys ${Object.keys(known).join(', ')}`, 'mapping_type')
    } else {
      const value = isScalar(node) ? node.value : undefined
      if (typeof value === typeof known && Number.isFinite(value as number) === Number.isFinite(known as number))
        values[key] = value as HyperparameterValue
      else tell(`must be a ${typeof known === 'string' ? 'text' : typeof known}`, `${typeof known}_type`, value)
    }
  }
  return values
}

function checkedSize(model: CatalogModel, values: Hyperparameters): Hyperparameters {
  const { minimum_image_size: minimum, image_size_multiple: multiple } = model
  const size = values.image_size
  if (typeof size !== 'number') return values
  if (size < minimum)
    throw invalid(fault(['image_size'], `must be at least ${minimum} for ${model.key}`, 'greater_than_equal', size))
  if (size % multiple)
    throw invalid(fault(['image_size'], `must be a multiple of ${multiple} for ${model.key}`, 'multiple_of', size))
  return values
}

function place(node: unknown, counter: LineCounter): string {
  const start = (node as { range?: [number, number, number] | null } | null)?.range?.[0]
  if (start === undefined) return ''
  const { line, col } = counter.linePos(start)
  return ` (line ${line}, column ${col})`
}

function fault(path: string[], msg: string, type: string, input?: unknown): FieldFault {
  const scalar = ['string', 'number', 'boolean'].includes(typeof input)
  return { loc: ['body', 'hyperparameters', ...path], msg, type, ...(scalar ? { input } : {}) }
}
