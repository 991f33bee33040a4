import { setImmediate as breathe } from 'node:timers/promises'

/** dHashes of photographs of one thing differ in about this many of their 64 bits at most; those of others in dozens. */
export const nearBits = 3
/** Fewer or more bits than this are set in even surfaces, which all look alike. */
const evenBits = 8
/** Wider or narrower by more than this is another picture, however alike the hashes. */
const aspectTolerance = 0.03
/** Candidates that one image is compared with at most, so that hostile hashes cost no more than kind ones. */
const comparedMax = 256
const imagesPerBreath = 50_000

/** What an image looks like. */
export interface Look {
  /** dHash: 16 hexadecimal digits. */
  fingerprint: string
  width: number
  height: number
}

/**
 * For each image the first one before it that looks almost the same: their fingerprints differ in at most three bits.
 *
 * Five blocks of bits hold three differences, so two blocks at least are equal: sorting by each pair of blocks brings
 * all candidates together, and each of the ten orders is looked through once. Time grows as n log n, memory is some
 * fifty bytes per image.
 * @source G. S. Manku, A. Jain, A. Das Sarma, "Detecting Near-Duplicates for Web Crawling" (WWW 2007) §3
 */
export class NearDuplicates {
  #high: Uint32Array = new Uint32Array(1024)
  #low: Uint32Array = new Uint32Array(1024)
  #aspect: Float32Array = new Float32Array(1024)
  #count = 0

  /** Images come in the order in which the first of a pair is to be found. */
  add({ fingerprint, width, height }: Look): void {
    if (this.#count === this.#high.length) this.#grow()
    this.#high[this.#count] = Number.parseInt(fingerprint.slice(0, 8), 16)
    this.#low[this.#count] = Number.parseInt(fingerprint.slice(8), 16)
    this.#aspect[this.#count] = width / height
    this.#count++
  }

  #grow(): void {
    const size = this.#high.length * 2
    const [high, low, aspect] = [new Uint32Array(size), new Uint32Array(size), new Float32Array(size)]
    high.set(this.#high)
    low.set(this.#low)
    aspect.set(this.#aspect)
    ;[this.#high, this.#low, this.#aspect] = [high, low, aspect]
  }

  /** By the number of each image, from 0: the number of the earliest one that it looks like, or -1. */
  async find(): Promise<Int32Array> {
    const first = new Int32Array(this.#count).fill(-1)
    const distinct = await this.#findEqual(first)
    for (const [a, b] of pairsOfBlocks) {
      this.#findNear(distinct, first, a, b)
      await breathe()
    }
    // Those that are equal to one that looks like an earlier one look like that one too.
    for (let image = 0; image < this.#count; image++) {
      const equal = first[image]!
      if (equal >= 0 && first[equal]! >= 0 && this.#near(first[equal]!, image)) first[image] = first[equal]!
    }
    return first
  }

  /** Notes images with the fingerprint and shape of an earlier one; gives the others, even surfaces left out. */
  async #findEqual(first: Int32Array): Promise<number[]> {
    const seen = new Map<string, number>()
    const distinct: number[] = []
    for (let image = 0; image < this.#count; image++) {
      if (image % imagesPerBreath === 0) await breathe()
      const [high, low] = [this.#high[image]!, this.#low[image]!]
      const set = bitsOf(high) + bitsOf(low)
      if (set < evenBits || set > 64 - evenBits) continue
      const key = `${high}.${low}.${Math.round(Math.log(this.#aspect[image]!) / aspectTolerance)}`
      const before = seen.get(key)
      if (before !== undefined) first[image] = before
      else {
        seen.set(key, image)
        distinct.push(image)
      }
    }
    return distinct
  }

  #findNear(images: number[], first: Int32Array, a: Block, b: Block): void {
    // Block values and image number in one float, exact below 2⁵³: sorted by the one, then the other.
    const order = new Float64Array(images.length)
    for (let index = 0; index < images.length; index++) {
      const image = images[index]!
      const [high, low] = [this.#high[image]!, this.#low[image]!]
      order[index] = (a(high, low) * 2 ** 13 + b(high, low)) * 2 ** numberBits + image
    }
    order.sort()
    let start = 0
    for (let at = 1; at < order.length; at++) {
      const key = Math.floor(order[at]! / 2 ** numberBits)
      if (Math.floor(order[start]! / 2 ** numberBits) !== key) start = at
      const image = order[at]! % 2 ** numberBits
      for (let other = Math.max(start, at - comparedMax); other < at; other++) {
        const earlier = order[other]! % 2 ** numberBits
        if (first[image]! >= 0 && first[image]! <= earlier) break
        if (this.#near(earlier, image)) first[image] = earlier
      }
    }
  }

  #near(a: number, b: number): boolean {
    const bits = bitsOf(this.#high[a]! ^ this.#high[b]!) + bitsOf(this.#low[a]! ^ this.#low[b]!)
    const [wider, narrower] = [this.#aspect[a]!, this.#aspect[b]!]
    return bits <= nearBits && Math.abs(wider - narrower) <= aspectTolerance * Math.max(wider, narrower)
  }
}

/** Images have numbers below 2²⁶, blocks together at most 26 bits. */
const numberBits = 26

type Block = (high: number, low: number) => number

/** All 64 bits in five blocks of 12 or 13. */
const blocks: Block[] = [
  (high) => high >>> 19,
  (high) => (high >>> 6) & 0x1fff,
  (high, low) => ((high & 0x3f) << 7) | (low >>> 25),
  (_, low) => (low >>> 12) & 0x1fff,
  (_, low) => low & 0xfff,
]
const pairsOfBlocks = blocks.flatMap((a, index) => blocks.slice(index + 1).map((b): [Block, Block] => [a, b]))

function bitsOf(word: number): number {
  let bits = word - ((word >>> 1) & 0x55555555)
  bits = (bits & 0x33333333) + ((bits >>> 2) & 0x33333333)
  return (((bits + (bits >>> 4)) & 0x0f0f0f0f) * 0x01010101) >>> 24
}
