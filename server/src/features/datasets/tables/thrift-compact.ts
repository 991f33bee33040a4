/** A struct by the numbers of its fields. */
export type Struct = Map<number, Value>
export type Value = number | bigint | boolean | Buffer | Struct | Value[]

const nestingMax = 32

/** Reads Thrift's compact protocol; throws a `RangeError` for what is none. @source Thrift compact protocol specification */
export class CompactReader {
  /** Where the next byte is. */
  at = 0
  #bytes: Buffer
  #depth = 0

  constructor(bytes: Buffer) {
    this.#bytes = bytes
  }

  struct(): Struct {
    if (++this.#depth > nestingMax) throw new RangeError('nested too deeply')
    const fields: Struct = new Map()
    let id = 0
    for (let head = this.#byte(); head !== 0; head = this.#byte()) {
      id = head >> 4 ? id + (head >> 4) : Number(this.#zigzag())
      const type = head & 15
      fields.set(id, type === 1 || type === 2 ? type === 1 : this.#value(type))
    }
    this.#depth--
    return fields
  }

  #value(type: number): Value {
    if (type === 1 || type === 2) return this.#byte() === 1
    if (type === 3) return this.#byte()
    if (type >= 4 && type <= 6) return Number(this.#zigzag())
    if (type === 7) return this.#take(8).readDoubleLE()
    if (type === 8) return this.#take(Number(this.#varint()))
    if (type === 9 || type === 10) return this.#list()
    if (type === 12) return this.struct()
    throw new RangeError(`type ${type} is not known`)
  }

  #list(): Value[] {
    const head = this.#byte()
    const count = head >> 4 === 15 ? Number(this.#varint()) : head >> 4
    if (count > this.#bytes.length) throw new RangeError('a list is longer than what it is in')
    return Array.from({ length: count }, () => this.#value(head & 15))
  }

  #byte(): number {
    return this.#take(1)[0]!
  }

  #take(length: number): Buffer {
    if (this.at + length > this.#bytes.length) throw new RangeError('it ends early')
    this.at += length
    return this.#bytes.subarray(this.at - length, this.at)
  }

  #varint(): bigint {
    let value = 0n
    for (let shift = 0n; shift < 70n; shift += 7n) {
      const byte = this.#byte()
      value |= BigInt(byte & 127) << shift
      if (byte < 128) return value
    }
    throw new RangeError('a number is too long')
  }

  #zigzag(): bigint {
    const value = this.#varint()
    return (value >> 1n) ^ -(value & 1n)
  }
}
