import type { IncomingHttpHeaders } from 'node:http'
import { badRequest, Fault } from './faults.ts'
import type { Model } from './model-folder.ts'
import { probabilities, ranking, type Source } from './predictor.ts'
import { encodedImage, sourceFromJson } from './source-values.ts'

const forms = ['instances', 'inputs', 'dataframe_split', 'dataframe_records'] as const

export type Invocation = { sources: Source[]; topK: number | undefined }

/** Media type of a request for `/invocations`; any other type, charset or parameter is a fault 415. */
export function invocationType(headers: IncomingHttpHeaders): string {
  const [type = '', ...parameters] = (headers['content-type'] ?? '').split(';').map((part) => part.trim().toLowerCase())
  if (parameters.some((parameter) => !/^charset="?utf-?8"?$/.test(parameter))) {
    throw new Fault(
      415,
      `unsupported content type parameter; only charset=utf-8 is allowed, got '${parameters.join('; ')}'`,
    )
  }
  const encoding = headers['content-encoding'] ?? 'identity'
  if (encoding !== 'identity') throw new Fault(415, `unsupported content encoding '${encoding}'`)
  const isKnown =
    ['application/json', 'text/csv', 'application/octet-stream'].includes(type) || type.startsWith('image/')
  if (isKnown) return type
  throw new Fault(415, `send application/json, text/csv, application/octet-stream or image/*, not '${type}'`)
}

/**
 * Reads a scoring request; faults 400 name the index and field.
 * @source MLflow scoring protocol; contract B11.3
 */
export function parseInvocation(model: Model, type: string, body: Buffer): Invocation {
  if (type === 'application/json') return fromJson(model, body.toString('utf8'))
  if (type === 'text/csv') return { sources: fromCsv(body.toString('utf8')), topK: undefined }
  if (body.length === 0) throw badRequest('the body is empty')
  return { sources: [{ where: 'the body', value: { bytes: () => body } }], topK: undefined }
}

/** The `predictions` of one answer: label, class id and score, with every score or the `topK` best. */
export function presentPrediction(model: Model, logits: Float32Array, topK: number | undefined) {
  const scores = probabilities(model, logits)
  const ranked = ranking(scores)
  const entry = (classId: number) => ({ label: model.classes[classId]!, class_id: classId, score: scores[classId]! })
  const best = entry(ranked[0]!)
  if (topK !== undefined) return { ...best, top_k: ranked.slice(0, topK).map(entry) }
  return { ...best, scores: Object.fromEntries(model.classes.map((label, classId) => [label, scores[classId]!])) }
}

function fromJson(model: Model, text: string): Invocation {
  const root = parseObject(text)
  const given = forms.filter((form) => form in root)
  const [form] = given
  if (given.length !== 1 || !form) throw badRequest(`the body must hold exactly one of ${forms.join(', ')}`)
  const unknown = Object.keys(root).find((key) => key !== form && key !== 'params')
  if (unknown !== undefined) throw badRequest(`unknown field '${unknown}'`)
  const topK = readTopK(root.params, model.classes.length)
  const values = {
    instances: tensorForm,
    inputs: tensorForm,
    dataframe_split: splitForm,
    dataframe_records: recordsForm,
  }
  const found = values[form](root[form], form, model)
  return { sources: found.map(([where, value]) => sourceFromJson(model, value, where)), topK }
}

function parseObject(text: string): Record<string, unknown> {
  let root: unknown
  try {
    root = JSON.parse(text)
  } catch (error) {
    throw badRequest(`the body is not JSON: ${(error as Error).message}`)
  }
  if (isRecord(root)) return root
  throw badRequest('the body must be a JSON object')
}

function readTopK(params: unknown, classCount: number): number | undefined {
  if (params === undefined || params === null) return undefined
  if (!isRecord(params)) throw badRequest('params must be an object')
  const unknown = Object.keys(params).find((key) => key !== 'top_k')
  if (unknown !== undefined) throw badRequest(`params.${unknown} is not known; only top_k is`)
  const { top_k: topK } = params
  if (topK === undefined) return undefined
  if (typeof topK === 'number' && Number.isInteger(topK) && topK >= 1) return Math.min(topK, classCount)
  throw badRequest('params.top_k must be a positive integer')
}

type Placed = [where: string, value: unknown]

function tensorForm(value: unknown, where: string, model: Model): Placed[] {
  if (Array.isArray(value)) return value.map((item, index) => [`${where}[${index}]`, item])
  if (isRecord(value)) {
    const [[key, list] = [], ...others] = Object.entries(value)
    const isColumn = key === 'image' || key === model.input.name
    if (isColumn && others.length === 0 && Array.isArray(list)) return tensorForm(list, `${where}.${key}`, model)
  }
  throw badRequest(`${where} must be a list of instances, or {"image": [ … ]}`)
}

function splitForm(value: unknown, where: string): Placed[] {
  if (!isRecord(value) || !Array.isArray(value.columns) || !Array.isArray(value.data)) {
    throw badRequest(`${where} must hold columns and data`)
  }
  const { columns, data } = value
  if (columns.length !== 1 || columns[0] !== 'image') throw badRequest(`${where}.columns must be ["image"]`)
  return data.map((row, index): Placed => {
    if (Array.isArray(row) && row.length === 1) return [`${where}.data[${index}][0]`, row[0]]
    throw badRequest(`${where}.data[${index}] must be a list of one value`)
  })
}

function recordsForm(value: unknown, where: string): Placed[] {
  if (!Array.isArray(value)) throw badRequest(`${where} must be a list of records`)
  return value.map((row, index): Placed => {
    if (isRecord(row) && Object.keys(row).length === 1 && 'image' in row) return [`${where}[${index}].image`, row.image]
    throw badRequest(`${where}[${index}] must be a record with the one column 'image'`)
  })
}

function fromCsv(text: string): Source[] {
  const [header = '', ...rows] = text.split(/\r?\n/).filter((line) => line !== '')
  if (unquote(header) !== 'image') throw badRequest("text/csv must have the one column 'image' and a header line")
  return rows.map((row, index) => {
    const where = `row ${index} column image`
    return { where, value: encodedImage(unquote(row), where) }
  })
}

function unquote(cell: string): string {
  return cell.length > 1 && cell.startsWith('"') && cell.endsWith('"') ? cell.slice(1, -1) : cell
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
