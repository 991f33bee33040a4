import { isMap, isScalar, LineCounter, parseDocument, type YAMLMap } from 'yaml'
import { type FieldFault, invalid } from '../../platform/errors.ts'
import type { CatalogModel, HyperparameterRule, HyperparameterRules } from './catalogue.ts'

export type HyperparameterValue = number | string
/** Values by key, groups of them one level down. */
export interface Hyperparameters {
  [key: string]: HyperparameterValue | Hyperparameters
}

/**
 * The hyperparameters of a training: the model's own, overlaid with what the text names. Empty text changes nothing.
 * Throws a 422 whose `loc` is `body.hyperparameters` and then the key, with the line and the column in the message.
 */
export function resolveHyperparameters(rules: HyperparameterRules, model: CatalogModel, text: string): Hyperparameters {
  const defaults = parse(model.hyperparameters_yaml).document.toJS() as Hyperparameters
  const { document, counter } = parse(text)
  const [error] = document.errors
  if (error)
    throw invalid(fault([], `is not valid YAML: ${error.message.split('\n')[0]!.replace(/:$/, '')}`, 'yaml_invalid'))
  if (document.contents === null) return checkedSize(model, defaults)
  if (!isMap(document.contents)) throw invalid(fault([], 'must be a mapping of keys to values', 'mapping_type'))
  const faults: FieldFault[] = []
  const values = overlay(defaults, rules, document.contents, [], { faults, counter })
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

function overlay(
  defaults: Hyperparameters,
  rules: HyperparameterRules,
  map: YAMLMap,
  path: string[],
  reading: Reading,
): Hyperparameters {
  const values: Hyperparameters = { ...defaults }
  for (const { key: keyNode, value: node } of map.items) {
    const key = String(isScalar(keyNode) ? keyNode.value : keyNode)
    const at = [...path, key]
    const rule = Object.hasOwn(rules.properties, key) ? rules.properties[key] : undefined
    const tell = ({ msg, type, input }: Refusal) =>
      reading.faults.push(fault(at, `${msg}${place(keyNode, reading.counter)}`, type, input))
    if (rule?.type === 'object' && isMap(node))
      values[key] = overlay(defaults[key] as Hyperparameters, rule, node, at, reading)
    else {
      const value = isScalar(node) ? node.value : undefined
      const refusal = rule ? refusalOf(rule, value) : unknownKey(rules)
      if (refusal) tell({ ...refusal, input: value })
      else values[key] = value as HyperparameterValue
    }
  }
  return values
}

interface Refusal {
  msg: string
  type: string
  input?: unknown
}

const unknownKey = ({ properties }: HyperparameterRules): Refusal => ({
  msg: `is not known; allowed: ${Object.keys(properties).join(', ')}`,
  type: 'extra_forbidden',
})

/** Why a value is none that the trainer takes; null when it is one. */
function refusalOf(rule: HyperparameterRule, value: unknown): Refusal | null {
  if (rule.type === 'object')
    return { msg: `must be a group with the keys ${Object.keys(rule.properties).join(', ')}`, type: 'mapping_type' }
  if (rule.type === 'string') {
    if (rule.enum.includes(value as string)) return null
    return { msg: `must be one of ${rule.enum.join(', ')}`, type: 'enum' }
  }
  const whole = rule.type === 'integer'
  if (typeof value !== 'number' || !Number.isFinite(value) || (whole && !Number.isInteger(value)))
    return { msg: whole ? 'must be a whole number' : 'must be a number', type: `${rule.type}_type` }
  const { minimum, maximum } = rule
  if (value >= minimum && value <= maximum) return null
  const type = value < minimum ? 'greater_than_equal' : 'less_than_equal'
  return { msg: `must lie between ${minimum} and ${maximum}`, type }
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
