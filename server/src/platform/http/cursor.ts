import { createHash, createHmac, timingSafeEqual } from 'node:crypto'
import { badRequest } from '../errors.ts'

/** Position in a list ordered by time, then id, newest first. */
export interface CursorPosition {
  time: Date
  id: string
}

const mac = (key: Buffer, text: string) => createHmac('sha256', key).update(text).digest().subarray(0, 12)
const filterHash = (filters: unknown) =>
  createHash('sha256').update(JSON.stringify(filters)).digest('base64url').slice(0, 12)

/** An opaque, signed cursor that only fits the filters it was made for. @source contract B4.7 */
export function encodeCursor(key: Buffer, position: CursorPosition, filters: unknown): string {
  const text = JSON.stringify([position.time.toISOString(), position.id, filterHash(filters)])
  return Buffer.concat([mac(key, text), Buffer.from(text)]).toString('base64url')
}

/** Throws `bad_request` for a cursor that is not ours, was changed, or belongs to other filters. */
export function decodeCursor(key: Buffer, cursor: string, filters: unknown): CursorPosition {
  const bytes = Buffer.from(cursor, 'base64url')
  const text = bytes.subarray(12).toString()
  if (bytes.length > 12 && timingSafeEqual(bytes.subarray(0, 12), mac(key, text))) {
    const [time, id, hash] = JSON.parse(text) as [string, string, string]
    if (hash === filterHash(filters)) return { time: new Date(time), id }
  }
  throw badRequest('cursor: give back next_cursor unchanged, with the same filters')
}
