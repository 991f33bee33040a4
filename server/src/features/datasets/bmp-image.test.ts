import { describe, expect, test } from 'vitest'
import { decodeBmp } from '../../../../model-server/src/bmp-image.ts'
import { inspectImage } from './image-inspection.ts'

interface Parts {
  width: number
  height: number
  bits: number
  compression?: number
  palette?: number[][]
  masks?: number[]
  pixels: number[]
}

/** A file with the common header of 40 bytes. */
function bmp({ width, height, bits, compression = 0, palette = [], masks = [], pixels }: Parts): Buffer {
  const header = Buffer.alloc(54)
  const tables = Buffer.alloc(masks.length * 4 + palette.length * 4)
  for (const [index, mask] of masks.entries()) tables.writeUInt32LE(mask, index * 4)
  for (const [index, [r, g, b]] of palette.entries()) tables.set([b!, g!, r!, 0], masks.length * 4 + index * 4)
  header.write('BM')
  header.writeUInt32LE(54 + tables.length, 10)
  header.writeUInt32LE(40, 14)
  header.writeInt32LE(width, 18)
  header.writeInt32LE(height, 22)
  header.writeUInt16LE(1, 26)
  header.writeUInt16LE(bits, 28)
  header.writeUInt32LE(compression, 30)
  header.writeUInt32LE(palette.length, 46)
  return Buffer.concat([header, tables, Buffer.from(pixels)])
}

const pixelsMax = 1_000_000
const decode = (parts: Parts) => decodeBmp(bmp(parts), { pixelsMax })

describe('decodeBmp', () => {
  test('24 bits: rows from the bottom up, padded to four bytes', () => {
    const image = decode({ width: 1, height: 2, bits: 24, pixels: [1, 2, 3, 0, 4, 5, 6, 0] })
    expect(image).toMatchObject({ width: 1, height: 2, channels: 3, indices: null })
    expect([...image.data]).toEqual([6, 5, 4, 3, 2, 1])
  })

  test('a negative height: rows from the top down', () => {
    const image = decode({ width: 1, height: -2, bits: 24, pixels: [1, 2, 3, 0, 4, 5, 6, 0] })
    expect([...image.data]).toEqual([3, 2, 1, 6, 5, 4])
  })

  test('1 and 4 bits: colours of the palette, and their numbers', () => {
    const palette = [
      [10, 20, 30],
      [40, 50, 60],
      [70, 80, 90],
    ]
    const one = decode({ width: 3, height: 1, bits: 1, palette: palette.slice(0, 2), pixels: [0b01000000, 0, 0, 0] })
    expect([...one.data]).toEqual([10, 20, 30, 40, 50, 60, 10, 20, 30])
    const four = decode({ width: 3, height: 1, bits: 4, palette, pixels: [0x20, 0x10, 0, 0] })
    expect([...four.indices!]).toEqual([2, 0, 1])
    expect([...four.data.subarray(0, 3)]).toEqual([70, 80, 90])
  })

  test('run lengths, as in the example of the specification', () => {
    const runs = '03 04 05 06 00 03 45 56 67 00 02 78 00 02 05 01 02 78 00 00 09 1e 00 01'
    const pixels = runs.split(' ').map((byte) => Number.parseInt(byte, 16))
    const image = decode({ width: 20, height: 3, bits: 8, compression: 1, palette: [[0, 0, 0]], pixels })
    const row = (y: number) => Buffer.from(image.indices!.subarray(y * 20, (y + 1) * 20)).toString('hex')
    expect(row(2)).toBe('0404040606060606455667787800000000000000')
    expect(row(1)).toBe(`${'00'.repeat(18)}7878`)
    expect(row(0)).toBe(`${'1e'.repeat(9)}${'00'.repeat(11)}`)
  })

  test('16 bits with masks, and 32 bits with alpha', () => {
    const masks = [0xf800, 0x7e0, 0x1f]
    expect([
      ...decode({ width: 2, height: 1, bits: 16, compression: 3, masks, pixels: [0, 0xf8, 0x1f, 0] }).data,
    ]).toEqual([255, 0, 0, 0, 0, 255])
    const grey = [3 | (3 << 5) | (3 << 10), 0].flatMap((value) => [value & 255, value >> 8])
    expect([...decode({ width: 1, height: 1, bits: 16, pixels: grey }).data], '3 of 31 is cut to 24').toEqual([
      24, 24, 24,
    ])
    const wide = { width: 1, height: 1, bits: 32, compression: 6, masks: [0xff000000, 0xff0000, 0xff00, 0xff] }
    expect(decode({ ...wide, pixels: [9, 3, 2, 1] })).toMatchObject({ channels: 4, data: Buffer.from([1, 2, 3, 9]) })
  })

  test('says what is wrong with others', () => {
    const good = { width: 2, height: 2, bits: 24, pixels: [] }
    expect(() => decode(good)).toThrow(/ends early/)
    expect(() => decode({ ...good, width: 0 })).toThrow(/no area/)
    expect(() => decode({ ...good, bits: 7 })).toThrow(/7 bits per pixel/)
    expect(() => decode({ ...good, compression: 4 })).toThrow(/compression 4/)
    expect(() => decode({ ...good, width: 100_000, height: 100_000 })).toThrow(/pixel limit/)
    expect(() => decodeBmp(Buffer.from('BM'), { pixelsMax })).toThrow(/ends early/)
  })
})

describe('inspectImage', () => {
  test('looks into a BMP as into any image', async () => {
    const pixels = Array.from({ length: 20 * 16 * 4 }, (_, index) => (index * 7) % 256)
    const content = bmp({ width: 20, height: 16, bits: 32, pixels })
    expect(await inspectImage('a.bmp', content)).toMatchObject({ status: 'VALID', width: 20, height: 16, fault: null })
    expect(await inspectImage('a.bmp', content.subarray(0, 200))).toMatchObject({
      status: 'INVALID',
      faultCode: 'unreadable_image',
      fault: 'the BMP image ends early',
    })
  })
})
