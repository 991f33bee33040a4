import sharp from 'sharp'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startTestPlatform, type TestClient, type TestPlatform } from '../../../test/harness.ts'
import { makeImage, uploadDataset } from './datasets.fixture.ts'

let platform: TestPlatform
let developer: TestClient
beforeAll(async () => {
  platform = await startTestPlatform()
  developer = await platform.member('default', 'DEVELOPER')
})
afterAll(() => platform?.stop())

/** A picture with some light and shade, as raw pixels. */
function scene(width: number, height: number): Buffer {
  const pixels = Buffer.alloc(width * height * 3)
  for (let y = 0; y < height; y++)
    for (let x = 0; x < width; x++) {
      const light = 128 + 60 * Math.sin((9 * x) / width) + 60 * Math.cos((7 * y) / height + (4 * x) / width)
      pixels.fill(Math.round(light), (y * width + x) * 3, (y * width + x + 1) * 3)
    }
  return pixels
}

const [width, height] = [160, 120]
const picture = () => sharp(scene(width, height), { raw: { width, height, channels: 3 } })

/** 24 bits, rows from the bottom up; a row of 160 pixels needs no padding. */
function bitmap(): Buffer {
  const header = Buffer.alloc(54)
  header.write('BM')
  for (const [at, value] of [
    [10, 54],
    [14, 40],
    [18, width],
    [22, height],
  ] as const)
    header.writeUInt32LE(value, at)
  header.writeUInt16LE(1, 26)
  header.writeUInt16LE(24, 28)
  const rows = scene(width, height)
  const upsideDown = Array.from({ length: height }, (_, y) =>
    rows.subarray((height - 1 - y) * width * 3).subarray(0, width * 3),
  )
  return Buffer.concat([header, ...upsideDown])
}

test('almost the same image is told whatever its file, twice when it stands in two splits; a BMP has a preview', async () => {
  const id = await uploadDataset(developer, {
    'train/a/fine.jpg': await picture().jpeg({ quality: 95 }).toBuffer(),
    'train/a/other.jpg': await makeImage({ width, height }),
    'train/b/coarse.jpg': await picture().resize(80).jpeg({ quality: 40 }).toBuffer(),
    'test/b/bitmap.bmp': bitmap(),
    'test/a/other.jpg': await makeImage({ width, height }),
  })
  const { body } = await developer.get(`/api/v1/datasets/${id}`)
  const told = (code: string) =>
    body.validation.issues
      .filter((issue: { code: string }) => issue.code === code)
      .map(({ path, message }: { path: string; message: string }) => [path, message])
  expect(told('near_duplicate_image')).toEqual([
    ['train/a/fine.jpg', 'Looks like test/b/bitmap.bmp.'],
    ['train/b/coarse.jpg', 'Looks like test/b/bitmap.bmp.'],
  ])
  expect(told('leakage_between_splits')[0]).toEqual([
    'train/a/fine.jpg',
    'Almost the same image stands in test and train: test/b/bitmap.bmp, train/a/fine.jpg.',
  ])
  const { items } = (await developer.get(`/api/v1/datasets/${id}/files?q=bitmap`)).body
  expect(items).toMatchObject([{ path: 'test/b/bitmap.bmp', status: 'VALID', width, height, media_type: 'image/bmp' }])
  const content = `/api/v1/datasets/${id}/files/${items[0].file_id}/content`
  const preview = await developer.get(`${content}?variant=preview`)
  expect([preview.status, preview.headers.get('content-type')]).toEqual([200, 'image/webp'])
})
