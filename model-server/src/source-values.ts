import { badRequest } from './faults.ts'
import type { Model } from './model-folder.ts'
import type { EncodedImage, Source } from './predictor.ts'

/** An image as base64 text, with or without a `data:` URL around it. */
export function encodedImage(text: string, where: string): EncodedImage {
  const start = text.startsWith('data:') ? text.indexOf(',') + 1 : 0
  if (start === 0 && text.startsWith('data:')) throw badRequest(`${where} is a data URL without data`)
  if (start > 0 && !text.slice(0, start - 1).endsWith(';base64')) throw badRequest(`${where} must be base64 encoded`)
  if (text.length === start) throw badRequest(`${where} is empty`)
  if (!/^[A-Za-z0-9+/_-]{1,16}/.test(text.slice(start, start + 16))) throw badRequest(`${where} is not base64`)
  return { bytes: () => Buffer.from(text.slice(start), 'base64') }
}

/**
 * One instance of a JSON request: base64 text, `{"b64": …}`, `{"image": …}`, or a preprocessed [3][height][width]
 * tensor of finite numbers.
 */
export function sourceFromJson(model: Model, value: unknown, where: string): Source {
  if (typeof value === 'string') return { where, value: encodedImage(value, where) }
  if (Array.isArray(value)) return { where, value: nestedTensor(model, value, where) }
  if (typeof value === 'object' && value !== null) {
    const [[key, inner] = [], ...others] = Object.entries(value)
    if (others.length === 0 && (key === 'b64' || key === 'image')) {
      if (typeof inner === 'string') return { where: `${where}.${key}`, value: encodedImage(inner, `${where}.${key}`) }
      if (key === 'image' && Array.isArray(inner)) return sourceFromJson(model, inner, `${where}.${key}`)
      if (key === 'image' && isB64Record(inner)) return sourceFromJson(model, inner, `${where}.${key}`)
    }
  }
  const { width, height } = model.input
  throw badRequest(
    `${where} must be a base64 image, {"b64": …}, {"image": …} or numbers of shape [3][${height}][${width}]`,
  )
}

function isB64Record(value: unknown): boolean {
  return typeof value === 'object' && value !== null && 'b64' in value
}

function nestedTensor(model: Model, value: unknown[], where: string): Float32Array {
  const { width, height } = model.input
  const tensor = new Float32Array(3 * height * width)
  const listOf = (part: unknown, size: number, ...path: number[]): unknown[] => {
    if (Array.isArray(part) && part.length === size) return part
    const place = [where, ...path.map((index) => `[${index}]`)].join('')
    throw badRequest(`${place} must be a list of ${size}: the shape of an instance is [3][${height}][${width}]`)
  }
  let next = 0
  for (const [channel, plane] of listOf(value, 3).entries()) {
    for (const [row, line] of listOf(plane, height, channel).entries()) {
      for (const number of listOf(line, width, channel, row)) {
        if (!isFloat(number))
          throw badRequest(`${where}[${channel}][${row}] holds a value that is no finite 32-bit number`)
        tensor[next] = number
        next += 1
      }
    }
  }
  return tensor
}

/** Whether a JSON value is a number that stays finite as a 32-bit float. */
export function isFloat(value: unknown): value is number {
  return typeof value === 'number' && Number.isFinite(Math.fround(value))
}
