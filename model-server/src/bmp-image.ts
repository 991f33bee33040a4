/** A decoded image, upright, row by row. */
export interface BmpImage {
  width: number
  height: number
  channels: 3 | 4
  data: Buffer
  /** Numbers in the palette, where there is one: masks mean these. */
  indices: Uint8Array | null
}

interface Header {
  width: number
  height: number
  topDown: boolean
  bits: number
  compression: number
  paletteAt: number
  paletteEntryBytes: number
  paletteLength: number
  pixelsAt: number
  /** Bits of red, green, blue and alpha in a pixel of 16 or 32. */
  masks: number[]
}

/** Whether the bytes begin as such an image does; no other type that is decoded anywhere here does. */
export const isBmp = (content: Uint8Array): boolean => content[0] === 0x42 && content[1] === 0x4d

/**
 * Decodes an image of Windows or OS/2 of 1, 2, 4, 8, 16, 24 and 32 bits, run lengths included, for the model server and
 * for the platform, which must see the same pixels. Throws an `Error` in words for people.
 * @source Microsoft, "Bitmap Storage" and BITMAPV5HEADER; MS-WMF §2.2.2
 */
export function decodeBmp(content: Buffer, { pixelsMax }: { pixelsMax: number }): BmpImage {
  const header = readBmpHeader(content)
  const { width, height, bits, compression } = header
  if (width * height > pixelsMax) throw new Error('the image exceeds the pixel limit')
  if (bits <= 8) {
    const indices = compression === 0 ? unpackIndices(content, header) : expandRuns(content, header)
    return { width, height, channels: 3, data: coloured(content, header, indices), indices }
  }
  if (bits === 24) return { width, height, channels: 3, data: readTriples(content, header), indices: null }
  const channels = header.masks[3] ? 4 : 3
  return { width, height, channels, data: readMasked(content, header, channels), indices: null }
}

const unsupported = (what: string) => new Error(`the BMP image has ${what}, which is not supported`)

/** Size and layout. Throws an `Error` for what is no such image. */
export function readBmpHeader(content: Buffer): Header {
  if (content.length < 26) throw new Error('the BMP image ends early')
  const headerBytes = content.readUInt32LE(14)
  const old = headerBytes === 12
  if (!old && (headerBytes < 40 || content.length < 14 + headerBytes)) throw new Error('the BMP header is damaged')
  const width = old ? content.readUInt16LE(18) : content.readInt32LE(18)
  const rows = old ? content.readUInt16LE(20) : content.readInt32LE(22)
  const bits = content.readUInt16LE(old ? 24 : 28)
  const compression = old ? 0 : content.readUInt32LE(30)
  if (width < 1 || rows === 0 || rows === -0x80000000) throw new Error('the BMP image has no area')
  if (![1, 2, 4, 8, 16, 24, 32].includes(bits)) throw unsupported(`${bits} bits per pixel`)
  const fits = compression === 0 || (compression === 1 && bits === 8) || (compression === 2 && bits === 4)
  const masked = (compression === 3 || compression === 6) && (bits === 16 || bits === 32)
  if (!fits && !masked) throw unsupported(`compression ${compression}`)
  // The masks belong to the later headers and follow the oldest one.
  const afterHeader = 14 + headerBytes + (masked && headerBytes === 40 ? (compression === 6 ? 16 : 12) : 0)
  return {
    width,
    height: Math.abs(rows),
    topDown: rows < 0,
    bits,
    compression,
    paletteAt: afterHeader,
    paletteEntryBytes: old ? 3 : 4,
    paletteLength: bits > 8 ? 0 : (old ? 0 : content.readUInt32LE(46)) || 2 ** bits,
    pixelsAt: content.readUInt32LE(10),
    masks: masked
      ? masksIn(content, headerBytes, compression)
      : bits === 16
        ? [0x7c00, 0x3e0, 0x1f, 0]
        : [0xff0000, 0xff00, 0xff, 0],
  }
}

function masksIn(content: Buffer, headerBytes: number, compression: number): number[] {
  const withAlpha = headerBytes >= 56 || compression === 6
  if (content.length < (withAlpha ? 70 : 66)) throw new Error('the BMP image ends early')
  return [54, 58, 62, 66].map((at) => (at < 66 || withAlpha ? content.readUInt32LE(at) : 0))
}

/** Where each row of the upright image begins. Throws unless all of them are there. */
function rowsOf(content: Buffer, { width, height, topDown, bits, pixelsAt }: Header): (y: number) => number {
  const rowBytes = Math.floor((width * bits + 31) / 32) * 4
  if (pixelsAt + rowBytes * (height - 1) + Math.ceil((width * bits) / 8) > content.length)
    throw new Error('the BMP image ends early')
  return (y) => pixelsAt + rowBytes * (topDown ? y : height - 1 - y)
}

function unpackIndices(content: Buffer, header: Header): Uint8Array {
  const { width, height, bits } = header
  const rowAt = rowsOf(content, header)
  const indices = new Uint8Array(width * height)
  for (let y = 0; y < height; y++) {
    const start = rowAt(y)
    for (let x = 0; x < width; x++) {
      const bit = x * bits
      indices[y * width + x] = (content[start + (bit >> 3)]! >> (8 - bits - (bit & 7))) & ((1 << bits) - 1)
    }
  }
  return indices
}

/** Runs of one or two values, escapes, and stretches as they are. What is skipped stays 0. */
function expandRuns(content: Buffer, { width, height, topDown, bits, pixelsAt }: Header): Uint8Array {
  const indices = new Uint8Array(width * height)
  let [x, y, at] = [0, 0, pixelsAt]
  const put = (value: number) => {
    if (x < width && y < height) indices[(topDown ? y : height - 1 - y) * width + x] = value
    x++
  }
  const nibble = (byte: number, index: number) => (bits === 8 ? byte : index % 2 === 0 ? byte >> 4 : byte & 15)
  while (y < height) {
    if (at + 2 > content.length) throw new Error('the BMP image ends early')
    const [count, value] = [content[at]!, content[at + 1]!]
    at += 2
    if (count > 0) for (let i = 0; i < count; i++) put(nibble(value, i))
    else if (value === 0) [x, y] = [0, y + 1]
    else if (value === 1) break
    else if (value === 2) {
      if (at + 2 > content.length) throw new Error('the BMP image ends early')
      x += content[at]!
      y += content[at + 1]!
      at += 2
    } else {
      const bytes = bits === 8 ? value : Math.ceil(value / 2)
      if (at + bytes > content.length) throw new Error('the BMP image ends early')
      for (let i = 0; i < value; i++) put(nibble(content[at + (bits === 8 ? i : i >> 1)]!, i))
      at += bytes + (bytes % 2)
    }
  }
  return indices
}

function coloured(content: Buffer, header: Header, indices: Uint8Array): Buffer {
  const { paletteAt, paletteEntryBytes, paletteLength } = header
  const data = Buffer.alloc(indices.length * 3)
  for (let pixel = 0; pixel < indices.length; pixel++) {
    const entry = paletteAt + Math.min(indices[pixel]!, paletteLength - 1) * paletteEntryBytes
    for (let channel = 0; channel < 3; channel++) data[pixel * 3 + channel] = content[entry + 2 - channel]!
  }
  return data
}

function readTriples(content: Buffer, header: Header): Buffer {
  const { width, height } = header
  const rowAt = rowsOf(content, header)
  const data = Buffer.alloc(width * height * 3)
  for (let y = 0; y < height; y++) {
    const start = rowAt(y)
    for (let at = 0; at < width * 3; at += 3)
      for (let channel = 0; channel < 3; channel++)
        data[y * width * 3 + at + channel] = content[start + at + 2 - channel]!
  }
  return data
}

function readMasked(content: Buffer, header: Header, channels: 3 | 4): Buffer {
  const { width, height, bits, masks } = header
  const rowAt = rowsOf(content, header)
  const data = Buffer.alloc(width * height * channels)
  const parts = masks.slice(0, channels).map((mask) => {
    const shift = mask === 0 ? 0 : 31 - Math.clz32(mask & -mask)
    return { mask, shift, most: Math.max(1, mask >>> shift) }
  })
  for (let y = 0; y < height; y++) {
    const start = rowAt(y)
    for (let x = 0; x < width; x++) {
      const pixel = bits === 16 ? content.readUInt16LE(start + x * 2) : content.readUInt32LE(start + x * 4)
      // Cut off, not rounded: so does Pillow, whose pixels the models were trained on.
      for (const [channel, { mask, shift, most }] of parts.entries())
        data[(y * width + x) * channels + channel] = Math.floor((((pixel & mask) >>> shift) * 255) / most)
    }
  }
  return data
}
