import { inflateSync } from 'node:zlib'

export interface Indices {
  /** One value per pixel, row by row. */
  values: Uint8Array
  width: number
  height: number
}

const pixelsMax = 500_000_000

/**
 * The palette indices of a PNG of colour type 3, which image libraries turn into colours and lose; null for any other
 * image, interlaced ones included. @source PNG Specification (Third Edition) §9, §11
 */
export function readPaletteIndices(png: Buffer): Indices | null {
  if (png.length < 33 || png.readUInt32BE(0) !== 0x89504e47) return null
  const [width, height] = [png.readUInt32BE(16), png.readUInt32BE(20)]
  const [depth, colourType, interlace] = [png[24]!, png[25]!, png[28]!]
  if (colourType !== 3 || interlace !== 0 || width * height > pixelsMax) return null
  const rowBytes = Math.ceil((width * depth) / 8)
  const raw = inflateSync(Buffer.concat(imageData(png)), { maxOutputLength: (rowBytes + 1) * height })
  if (raw.length < (rowBytes + 1) * height) return null
  const values = new Uint8Array(width * height)
  let above: Uint8Array = new Uint8Array(rowBytes)
  for (let y = 0; y < height; y++) {
    const start = y * (rowBytes + 1)
    const row = raw.subarray(start + 1, start + 1 + rowBytes)
    unfilter(raw[start]!, row, above)
    for (let x = 0; x < width; x++) values[y * width + x] = depth === 8 ? row[x]! : bits(row, x, depth)
    above = row
  }
  return { values, width, height }
}

function imageData(png: Buffer): Buffer[] {
  const parts: Buffer[] = []
  for (let at = 8; at + 12 <= png.length; ) {
    const length = png.readUInt32BE(at)
    if (png.toString('latin1', at + 4, at + 8) === 'IDAT') parts.push(png.subarray(at + 8, at + 8 + length))
    at += 12 + length
  }
  return parts
}

const bits = (row: Uint8Array, x: number, depth: number): number =>
  (row[(x * depth) >> 3]! >> (8 - depth - ((x * depth) & 7))) & ((1 << depth) - 1)

/** In place; a palette image has one byte per step. */
function unfilter(filter: number, row: Uint8Array, above: Uint8Array): void {
  for (let x = 0; x < row.length; x++) {
    const [left, up, corner] = [x > 0 ? row[x - 1]! : 0, above[x]!, x > 0 ? above[x - 1]! : 0]
    if (filter === 1) row[x]! += left
    else if (filter === 2) row[x]! += up
    else if (filter === 3) row[x]! += (left + up) >> 1
    else if (filter === 4) row[x]! += paeth(left, up, corner)
  }
}

function paeth(left: number, up: number, corner: number): number {
  const guess = left + up - corner
  const [a, b, c] = [Math.abs(guess - left), Math.abs(guess - up), Math.abs(guess - corner)]
  if (a <= b && a <= c) return left
  return b <= c ? up : corner
}
