import { isUtf8 } from 'node:buffer'
import type { Stored } from './parquet-encodings.ts'
import type { Meaning, ParquetColumn } from './parquet-footer.ts'

const daySeconds = 86_400
/** Day number that the dates of the oldest writers count from. @source Julian day of 1 January 1970 */
const julianEpoch = 2_440_588n

/** What a stored value stands for, as JSON can carry it: times in ISO 8601, integers beyond 2⁵³ as text. */
export function shownValue(stored: Stored, { type, meaning }: ParquetColumn): unknown {
  if (type === 3) return int96((stored as Buffer).readBigInt64LE(0), BigInt((stored as Buffer).readInt32LE(8)))
  if (meaning.as === 'decimal') return decimal(stored, meaning.scale)
  if (meaning.as === 'date') return iso(BigInt(stored as number) * BigInt(daySeconds), 1).slice(0, 10)
  if (meaning.as === 'timestamp') return iso(BigInt(stored as number | bigint), meaning.perSecond)
  if (meaning.as === 'time') return iso(BigInt(stored as number | bigint), meaning.perSecond).slice(11, -1)
  if (typeof stored === 'number') return meaning.as === 'unsigned' && type === 1 ? stored >>> 0 : finite(stored)
  if (typeof stored === 'bigint') return integer(meaning.as === 'unsigned' ? BigInt.asUintN(64, stored) : stored)
  return typeof stored === 'boolean' ? stored : bytesShown(stored, meaning)
}

/** Type of a column as the manifest names it. */
export function dtypeOf({ type, meaning, repetitionMax }: ParquetColumn): string {
  if (repetitionMax > 0) return 'list'
  if (type === 3 || ['date', 'time', 'timestamp'].includes(meaning.as)) return 'time'
  if (meaning.as === 'decimal' || meaning.as === 'half') return 'number'
  return ['boolean', 'integer', 'integer', 'time', 'number', 'number', 'text', 'text'][type]!
}

const integer = (value: bigint): number | string => {
  const number = Number(value)
  return Number.isSafeInteger(number) ? number : String(value)
}

/** JSON has no NaN and no infinities. */
const finite = (value: number): number | string => (Number.isFinite(value) ? value : String(value))

function bytesShown(bytes: Buffer, { as }: Meaning): unknown {
  if (as === 'uuid') return bytes.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')
  if (as === 'half') return finite(half(bytes.readUInt16LE()))
  return as === 'text' || isUtf8(bytes) ? bytes.toString('utf8') : `${bytes.length} bytes`
}

function decimal(stored: Stored, scale: number): number | string {
  const unscaled = Buffer.isBuffer(stored)
    ? BigInt.asIntN(stored.length * 8, BigInt(`0x${stored.toString('hex') || '0'}`))
    : BigInt(stored)
  return finite(Number(`${unscaled}e${-scale}`))
}

/** @source IEEE 754-2019 §3.6, binary16 */
function half(bits: number): number {
  const [sign, exponent, fraction] = [bits >> 15 ? -1 : 1, (bits >> 10) & 31, bits & 1023]
  if (exponent === 31) return fraction ? Number.NaN : sign * Number.POSITIVE_INFINITY
  return sign * (exponent === 0 ? fraction * 2 ** -24 : (1 + fraction / 1024) * 2 ** (exponent - 15))
}

const int96 = (nanoseconds: bigint, day: bigint) =>
  iso((day - julianEpoch) * BigInt(daySeconds) * 1_000_000_000n + nanoseconds, 1_000_000_000)

/** An instant since 1970; beyond what dates can carry, the number itself. */
function iso(count: bigint, perSecond: number): string {
  const units = BigInt(perSecond)
  const seconds = count >= 0n ? count / units : -((-count + units - 1n) / units)
  const date = new Date(Number(seconds) * 1000)
  if (Number.isNaN(date.getTime())) return String(count)
  const fraction = String(count - seconds * units)
    .padStart(String(perSecond).length - 1, '0')
    .replace(/0+$/, '')
  return `${date.toISOString().slice(0, 19)}${fraction && perSecond > 1 ? `.${fraction}` : ''}Z`
}
