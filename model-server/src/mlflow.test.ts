import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { bitmapOf, type Color, leftLit, softmax, solid, solidLogits, solidTensor } from '../test/images.ts'
import { probeClasses, probeGraph, writeModelFolder } from '../test/model-folders.ts'
import { type ServerProcess, startServer } from '../test/server-process.ts'

let server: ServerProcess
let modelDir: string
const color: Color = [200, 40, 90]
const expected = softmax(solidLogits(color))

beforeAll(async () => {
  modelDir = await writeModelFolder(probeGraph(), probeClasses)
  server = await startServer(modelDir, { MAX_INSTANCES: '20', MAX_IMAGE_PIXELS: '40000' })
})
afterAll(() => server?.stop())

type Prediction = { label: string; class_id: number; score: number; scores: Record<string, number>; top_k?: unknown[] }

async function predictions(response: Response): Promise<Prediction[]> {
  expect(response.status, await response.clone().text()).toBe(200)
  return ((await response.json()) as { predictions: Prediction[] }).predictions
}

async function fault(response: Response): Promise<string> {
  expect(response.status).toBe(400)
  const { error_code, message } = (await response.json()) as { error_code: string; message: string }
  expect(error_code).toBe('BAD_REQUEST')
  return message
}

const invoke = (body: unknown) => server.postJson('/invocations', body)
const invokeImage = async (image: Buffer): Promise<Prediction> => {
  const [prediction] = await predictions(
    await server.post('/invocations', 'application/octet-stream', Uint8Array.from(image)),
  )
  return prediction!
}

function expectScores(prediction: Prediction, scores: number[]): void {
  expect(Object.keys(prediction.scores)).toEqual(probeClasses)
  for (const [index, score] of Object.values(prediction.scores).entries()) expect(score).toBeCloseTo(scores[index]!, 5)
}

describe('POST /invocations', () => {
  test('200 gives label, class id, score and every score', async () => {
    const png = await solid(color).png().toBuffer()
    const response = await server.post('/invocations', 'image/png', Uint8Array.from(png))
    expect(response.headers.get('x-prediction-id')).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4/)
    const [prediction] = await predictions(response)
    expect(prediction).toMatchObject({ label: 'red', class_id: 0 })
    expect(prediction!.score).toBe(prediction!.scores.red)
    expectScores(prediction!, expected)
  })

  test('200 gives one answer for every way to send the same image', async () => {
    const b64 = (await solid(color).png().toBuffer()).toString('base64')
    const url = `data:image/png;base64,${b64}`
    const bodies = [
      { instances: [b64, url, { b64 }, { image: b64 }, { image: { b64 } }, solidTensor(color)] },
      { inputs: [b64] },
      { inputs: { image: [b64] } },
      { inputs: { images: [solidTensor(color)] } },
      { dataframe_split: { columns: ['image'], index: [7], data: [[b64], [url]] } },
      { dataframe_records: [{ image: b64 }] },
    ]
    for (const body of bodies) for (const found of await predictions(await invoke(body))) expectScores(found, expected)
    const csv = `image\r\n${b64}\n"${url}"\n`
    const rows = await predictions(await server.post('/invocations', 'text/csv; charset=UTF-8', csv))
    expect(rows).toHaveLength(2)
    for (const row of rows) expectScores(row, expected)
  })

  test('200 keeps the order of the instances', async () => {
    const colors: Color[] = [
      [255, 0, 0],
      [0, 255, 0],
      [0, 0, 255],
    ]
    const instances = await Promise.all(
      colors.map(async (item) => (await solid(item).png().toBuffer()).toString('base64')),
    )
    const found = await predictions(await invoke({ instances }))
    expect(found.map(({ label }) => label)).toEqual(['red', 'green', 'blue'])
  })

  test('200 params.top_k lists the best classes in order', async () => {
    const b64 = (await solid(color).png().toBuffer()).toString('base64')
    const [prediction] = await predictions(await invoke({ instances: [b64], params: { top_k: 2 } }))
    const ranked = expected.map((score, class_id) => ({ score, class_id })).sort((a, b) => b.score - a.score)
    expect(prediction!.scores).toBeUndefined()
    expect(prediction!.top_k).toMatchObject(
      ranked.slice(0, 2).map(({ class_id }) => ({ class_id, label: probeClasses[class_id] })),
    )
  })

  test('400 names the form, the field and the index', async () => {
    const b64 = (await solid(color).png().toBuffer()).toString('base64')
    const tensor = solidTensor(color)
    const shortRow = structuredClone(tensor)
    shortRow[1]![2]!.pop()
    const huge = structuredClone(tensor) as unknown[][][]
    huge[2]![1]![0] = 1e300
    const holed = structuredClone(tensor) as unknown[][][]
    holed[0]![5]![7] = null
    const cases: [unknown, string][] = [
      [{}, 'exactly one of instances, inputs, dataframe_split, dataframe_records'],
      [{ instances: [b64], inputs: [b64] }, 'exactly one of'],
      [{ instances: [b64], extra: 1 }, "unknown field 'extra'"],
      [[b64], 'must be a JSON object'],
      [{ instances: b64 }, 'instances must be a list'],
      [{ instances: [] }, 'holds no instance'],
      [{ instances: [b64, 5] }, 'instances[1] must be a base64 image'],
      [{ instances: [b64, ''] }, 'instances[1] is empty'],
      [{ instances: [b64, '§§'] }, 'instances[1] is not base64'],
      [{ instances: [b64, { b64: 'aGVsbG8gd29ybGQ=' }] }, 'instances[1].b64 is not a readable image'],
      [{ instances: ['data:text/plain,hello'] }, 'instances[0] must be base64'],
      [{ instances: [tensor, tensor.slice(1)] }, 'instances[1] must be a list of 3'],
      [{ instances: [shortRow] }, 'instances[0][1][2] must be a list of 8'],
      [{ instances: [huge] }, 'instances[0][2][1] holds a value that is no finite'],
      [{ instances: [holed] }, 'instances[0][0][5] holds a value that is no finite'],
      [{ instances: new Array(21).fill(b64) }, '21 instances, at most 20'],
      [{ instances: [b64], params: { top_k: 0 } }, 'params.top_k must be a positive integer'],
      [{ instances: [b64], params: { temperature: 1 } }, 'params.temperature is not known'],
      [{ dataframe_split: { columns: ['img'], data: [[b64]] } }, 'dataframe_split.columns must be ["image"]'],
      [{ dataframe_split: { columns: ['image'], data: [[b64], []] } }, 'dataframe_split.data[1]'],
      [{ dataframe_records: [{ image: b64 }, { picture: b64 }] }, 'dataframe_records[1]'],
      [{ inputs: { other: [b64] } }, 'inputs must be a list'],
    ]
    for (const [body, message] of cases) expect(await fault(await invoke(body))).toContain(message)
    const nan = '{"instances":[[NaN]]}'
    expect(await fault(await server.post('/invocations', 'application/json', nan))).toContain('not JSON')
    expect(await fault(await server.post('/invocations', 'text/csv', 'a,b\n1,2\n'))).toContain("one column 'image'")
    expect(await fault(await server.post('/invocations', 'image/png', ''))).toContain('empty')
  })

  test('400 refuses an image with too many pixels: a small file must not cost much memory', async () => {
    const bomb = await solid(color, { width: 201, height: 200 }).png().toBuffer()
    const message = await fault(await invoke({ instances: [bomb.toString('base64')] }))
    expect(message).toContain('pixel limit')
  })

  test('400 refuses SVG: the bytes come from strangers', async () => {
    const svg = '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><rect width="9" height="9"/></svg>'
    expect(await fault(await server.post('/invocations', 'image/svg+xml', svg))).toContain('not a readable image')
  })

  test('400 refuses a truncated image', async () => {
    const jpeg = await solid(color, { width: 160, height: 160 }).jpeg().toBuffer()
    const half = Uint8Array.from(jpeg.subarray(0, jpeg.length / 2))
    expect(await fault(await server.post('/invocations', 'image/jpeg', half))).toContain('not a readable image')
  })

  test('200 for a bitmap as for the same image in another type, 400 for half of one and for one with too many pixels', async () => {
    const png = await leftLit()
    const bitmap = await bitmapOf(png)
    expect((await invokeImage(bitmap)).scores).toEqual((await invokeImage(png)).scores)
    const post = (bytes: Buffer) => server.post('/invocations', 'image/bmp', Uint8Array.from(bytes))
    expect(await fault(await post(bitmap.subarray(0, 500)))).toContain('the BMP image ends early')
    bitmap.writeInt32LE(40_000, 18)
    expect(await fault(await post(bitmap))).toContain('pixel limit')
  })

  test('415 other types, charsets, parameters and encodings, as text', async () => {
    for (const type of ['text/html', 'application/json; charset=latin1', 'application/json; odd=1', '']) {
      const response = await server.post('/invocations', type, '{}')
      expect(response.status).toBe(415)
      expect(response.headers.get('content-type')).toContain('text/plain')
    }
    const headers = { 'content-type': 'application/json', 'content-encoding': 'gzip' }
    const gzipped = await fetch(`${server.url}/invocations`, { method: 'POST', headers, body: '{}' })
    expect(gzipped.status).toBe(415)
  })
})

describe('images become what the model was trained with', () => {
  test('every format of one picture is the same colour', async () => {
    for (const image of [
      solid(color).webp({ lossless: true }),
      solid(color).tiff({ compression: 'lzw' }),
      solid(color).gif(),
    ]) {
      expectScores(await invokeImage(await image.toBuffer()), expected)
    }
    const jpeg = await invokeImage(await solid(color).jpeg({ quality: 100 }).toBuffer())
    for (const [index, score] of Object.values(jpeg.scores).entries()) expect(score).toBeCloseTo(expected[index]!, 1)
  })

  test('alpha is dropped, the hidden colour stays', async () => {
    const image = solid(color).ensureAlpha(0.25)
    expectScores(await invokeImage(await image.png().toBuffer()), expected)
  })

  test('greyscale becomes three equal channels', async () => {
    const grey = await solid([128, 128, 128]).greyscale().png().toBuffer()
    expectScores(await invokeImage(grey), softmax(solidLogits([128, 128, 128])))
  })

  test('16 bits become 8', async () => {
    const image = await solid(color).toColourspace('rgb16').png().toBuffer()
    expectScores(await invokeImage(image), expected)
  })

  test('inks become light as they do in Pillow', async () => {
    // Recorded from Pillow 9.4: Image.new('CMYK', (4, 4), (155, 239, 100, 30)) as a TIFF, and its convert('RGB').
    const inks =
      'SUkqACIAAACAJt3mQPQKCQaCwOEweFQiHQ2IQyJQuKQiAgoAAAEDAAEAAAAEAAAAAQEDAAEAAAAEAAAAAgEDAAQAAACgAAAAAwEDAAEAAAAFAAAABgEDAAEAAAAFAAAAEQEEAAEAAAAIAAAAFQEDAAEAAAAEAAAAFgEDAAEAAAAEAAAAFwEEAAEAAAAaAAAAHAEDAAEAAAABAAAAAAAAAAgACAAIAAgA'
    const rgb: Color = [88, 14, 137]
    expectScores(await invokeImage(Buffer.from(inks, 'base64')), softmax(solidLogits(rgb)))
  })

  test('EXIF orientation is honoured', async () => {
    const sharp = (await import('sharp')).default
    const upright = await invokeImage(await leftLit())
    expect(upright.scores.left).toBeGreaterThan(upright.scores.top! * 2)
    const turned = await invokeImage(
      await sharp(await leftLit())
        .withMetadata({ orientation: 6 })
        .jpeg()
        .toBuffer(),
    )
    expect(turned.scores.top).toBeGreaterThan(turned.scores.left! * 2)
  })
})
