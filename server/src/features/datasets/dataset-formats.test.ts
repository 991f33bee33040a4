import sharp from 'sharp'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startTestPlatform, type TestClient, type TestPlatform } from '../../../test/harness.ts'
import { makeImage, uploadDataset } from './datasets.fixture.ts'
import { parquetFiles } from './tables/parquet.fixture.ts'

let platform: TestPlatform
let developer: TestClient
beforeAll(async () => {
  platform = await startTestPlatform()
  developer = await platform.member('default', 'DEVELOPER')
})
afterAll(() => platform?.stop())

async function validated(files: Record<string, Buffer | string>) {
  const id = await uploadDataset(developer, files)
  const { body } = await developer.get(`/api/v1/datasets/${id}`)
  const counts = Object.fromEntries(
    body.validation.counts.map(({ code, count }: { code: string; count: number }) => [code, count]),
  )
  const objectsOf = async (path: string) => {
    const { items } = (await developer.get(`/api/v1/datasets/${id}/files?q=${path}`)).body
    return (await developer.get(`/api/v1/datasets/${id}/files/${items[0].file_id}`)).body.objects
  }
  return { id, body, counts, objectsOf }
}

describe('COCO', () => {
  const images = [
    { id: 1, file_name: 'a.jpg' },
    { id: 2, file_name: 'b.jpg' },
    { id: 3, file_name: 'gone.jpg' },
    { id: 4, file_name: 'empty.jpg' },
  ]
  const annotations = [
    { id: 1, image_id: 1, category_id: 7, bbox: [1, 2, 10, 5], iscrowd: 0 },
    { id: 2, image_id: 1, category_id: 9, segmentation: [[0, 0, 8, 0, 8, 6, 0, 6]], bbox: [0, 0, 8, 6] },
    { id: 3, image_id: 2, category_id: 7, segmentation: { counts: [5, 3, 1192], size: [30, 40] }, bbox: [0, 5, 1, 3] },
    { id: 4, image_id: 2, category_id: 7, keypoints: [3, 4, 2, 0, 0, 0], num_keypoints: 1, bbox: [1, 1, 4, 4] },
    { id: 5, image_id: 2, category_id: 7, bbox: [30, 20, 30, 20] },
    { id: 6, image_id: 3, category_id: 7, bbox: [1, 1, 2, 2] },
    { id: 7, image_id: 99, category_id: 7, bbox: [1, 1, 2, 2] },
  ]
  const categories = [
    { id: 7, name: 'nut "}]' },
    { id: 9, name: 'fig' },
  ]

  test('reads boxes, polygons, run lengths and keypoints, in any order of the arrays', async () => {
    for (const document of [
      { info: { note: ['annotations', { images: [1] }] }, annotations, categories, images },
      { images, categories, annotations },
    ]) {
      const { body, counts, objectsOf } = await validated({
        'annotations/instances_val2017.json': JSON.stringify(document, null, 1),
        'val2017/a.jpg': await makeImage(),
        'val2017/b.jpg': await makeImage(),
        'val2017/empty.jpg': await makeImage(),
        'val2017/unnamed.jpg': await makeImage(),
      })
      expect(body).toMatchObject({ format: 'coco', splits: { val: 3 }, classes: ['nut "}]', 'fig'] })
      expect(body.tasks).toEqual(['object_detection', 'instance_segmentation', 'keypoint_detection'])
      expect(body.statistics).toMatchObject({
        objects: 5,
        objects_by_shape: { box: 2, polygon: 1, mask: 1, keypoints: 1 },
        annotated_images: 3,
      })
      expect(body.validation.match_rate).toBe(0.75)
      expect(counts).toEqual({
        annotation_without_image: 3,
        box_outside_image: 1,
        empty_annotation: 1,
        image_without_annotation: 1,
      })
      expect(await objectsOf('a.jpg')).toMatchObject([
        { class: 'nut "}]', shape: 'box', geometry: { box: [1, 2, 10, 5] } },
        { class: 'fig', shape: 'polygon', geometry: { polygons: [[0, 0, 8, 0, 8, 6, 0, 6]] } },
      ])
    }
  })

  test('names file and line of what is wrong', async () => {
    const text = JSON.stringify(
      { images, categories, annotations: [{ image_id: 1, category_id: 5, bbox: [1, 1, 2, 2] }] },
      null,
      1,
    )
    const { body } = await validated({ 'coco.json': text, 'a.jpg': await makeImage() })
    const issue = body.validation.issues.find(({ code }: { code: string }) => code === 'unknown_class')
    expect(issue).toMatchObject({ severity: 'error', path: 'coco.json', message: 'Category 5 is not in the list.' })
    expect(text.split('\n')[issue.line - 1]).toContain('{')
    const torn = await validated({ 'coco.json': text.slice(0, -20), 'a.jpg': await makeImage() })
    expect(torn.counts).toMatchObject({ unreadable_annotation: 1 })
    expect(torn.body.status).toBe('INVALID')
  })
})

describe('Pascal VOC', () => {
  const xml = (name: string, objects: string) =>
    `<?xml version="1.0"?>\n<!-- a < b -->\n<annotation><filename>${name}</filename>${objects}</annotation>`
  const box = (name: string, corners: number[]) =>
    `<object><name>${name}</name><part><name>head</name><bndbox><xmin>1</xmin></bndbox></part><bndbox>${[
      'xmin',
      'ymin',
      'xmax',
      'ymax',
    ]
      .map((key, index) => `<${key}>${corners[index]}</${key}>`)
      .join('')}</bndbox></object>`

  test('reads boxes and lists of splits, and names what is wrong', async () => {
    const { body, counts, objectsOf } = await validated({
      'VOC/JPEGImages/1.jpg': await makeImage(),
      'VOC/JPEGImages/2.jpg': await makeImage(),
      'VOC/Annotations/1.xml': xml('1.jpg', box('cat &amp; dog', [1, 2, 11, 12]) + box('cow', [5, 5, 5, 9])),
      'VOC/Annotations/2.xml': xml('other-name.jpg', box('cow', [9, 9, 5, 5])),
      'VOC/Annotations/3.xml': xml('3.jpg', ''),
      'VOC/Annotations/4.xml': '<annotation><object></annotation>',
      'VOC/ImageSets/Main/train.txt': '1\n',
      'VOC/ImageSets/Main/test.txt': '2\n1\n',
      'VOC/ImageSets/Main/trainval.txt': '1\n2\n',
    })
    expect(body).toMatchObject({ format: 'pascal_voc', splits: { test: 2 }, tasks: ['object_detection'] })
    expect(body.classes).toEqual(['cat & dog', 'cow'])
    expect(await objectsOf('1.jpg')).toMatchObject([
      { class: 'cat & dog', geometry: { box: [1, 2, 10, 10] } },
      { class: 'cow', geometry: { box: [5, 5, 0, 4] } },
    ])
    expect(counts).toMatchObject({
      invalid_geometry: 1,
      unreadable_annotation: 1,
      annotation_without_image: 1,
      leakage_between_splits: 1,
      empty_shape: 1,
      empty_annotation: 1,
    })
  })
})

describe('YOLO', () => {
  const yolo = async (labels: string, yaml: string) => ({
    'data.yaml': yaml,
    'train/images/a.jpg': await makeImage({ width: 100, height: 50 }),
    'train/labels/a.txt': labels,
    'valid/images/b.jpg': await makeImage({ width: 100, height: 50 }),
    'valid/labels/b.txt': '',
  })

  test('reads boxes in pixels, with names from data.yaml', async () => {
    const { body, counts, objectsOf } = await validated(
      await yolo('0 0.5 0.5 0.2 0.4\n1 0.9 0.5 0.4 0.2\n2 0.5 0.5 0.1 0.1\nnot a row\n', 'names: {0: ball, 1: bat}'),
    )
    expect(body).toMatchObject({ format: 'yolo', classes: ['ball', 'bat'], splits: { train: 1, val: 1 } })
    expect(body.tasks).toEqual(['object_detection'])
    expect(await objectsOf('a.jpg')).toMatchObject([
      { class: 'ball', shape: 'box', geometry: { box: [40, 15, 20, 20] } },
      { class: 'bat', shape: 'box' },
    ])
    expect(counts).toMatchObject({
      unknown_class: 1,
      unreadable_annotation: 1,
      box_outside_image: 1,
      empty_annotation: 1,
    })
    expect(body.validation.issues.find(({ code }: { code: string }) => code === 'unknown_class').line).toBe(3)
  })

  test.each([
    [
      'polygon',
      'instance_segmentation',
      '0 0.1 0.1 0.5 0.1 0.5 0.5\n0 0.1 0.1 0.5 0.1 0.5 0.5 0.1 0.5\n',
      'names: [a]',
    ],
    ['oriented_box', 'oriented_object_detection', '0 0.1 0.1 0.5 0.1 0.5 0.5 0.1 0.5\n', 'names: [a]'],
    ['keypoints', 'keypoint_detection', '0 0.5 0.5 0.2 0.2 0.1 0.2 2 0.3 0.4 1\n', 'names: [a]\nkpt_shape: [2, 3]'],
  ])('reads %s', async (shape, task, labels, yaml) => {
    const { body, objectsOf } = await validated(await yolo(labels, yaml))
    expect(body.tasks).toContain(task)
    const [object] = await objectsOf('a.jpg')
    expect(object).toMatchObject({ class: 'a', shape })
    if (shape === 'keypoints') expect(object.geometry.keypoints.map(Math.round)).toEqual([10, 10, 2, 30, 20, 1])
    else expect(object.geometry.box).toEqual([10, 5, 40, 20])
  })
})

describe('masks', () => {
  const grey = (values: number[]) =>
    sharp(Buffer.from(values), { raw: { width: 4, height: 2, channels: 1 } })
      .png()
      .toBuffer()

  test('counts classes by pixel values, grey and by palette, and finds what does not fit', async () => {
    const palette = await sharp(Buffer.from([0, 0, 0, 9, 9, 9, 0, 0, 0, 9, 9, 9].flatMap((v) => [v])), {
      raw: { width: 4, height: 1, channels: 3 },
    })
      .png({ palette: true, colours: 2 })
      .toBuffer()
    const { body, counts, objectsOf } = await validated({
      'classes.txt': 'sky\nroad',
      'train/images/1.jpg': await makeImage({ width: 4, height: 2 }),
      'train/masks/1.png': await grey([0, 0, 1, 1, 0, 0, 1, 255]),
      'train/images/2.jpg': await makeImage({ width: 4, height: 2 }),
      'train/masks/2.png': await grey([0, 0, 0, 0, 0, 0, 0, 7]),
      'train/images/3.jpg': await makeImage({ width: 4, height: 1 }),
      'train/masks/3_mask.png': palette,
      'train/images/4.jpg': await makeImage({ width: 9, height: 9 }),
      'train/masks/4.png': await grey([0, 0, 0, 0, 0, 0, 0, 0]),
      'train/masks/5.png': await grey([0, 0, 0, 0, 0, 0, 0, 1]),
    })
    expect(body).toMatchObject({ format: 'masks', tasks: ['semantic_segmentation'], classes: ['sky', 'road'] })
    expect(body.record_count).toBe(4)
    expect(await objectsOf('1.jpg')).toMatchObject([
      { class: 'sky', shape: 'mask', geometry: { area: 4, box: [0, 0, 2, 2] } },
      { class: 'road', shape: 'mask', geometry: { area: 3, box: [2, 0, 2, 2], mask: 'train/masks/1.png' } },
    ])
    expect((await objectsOf('3.jpg')).map((object: { geometry: { area: number } }) => object.geometry.area)).toEqual([
      2, 2,
    ])
    expect(counts).toMatchObject({ unknown_class: 1, invalid_geometry: 1, annotation_without_image: 1 })
  })
})

describe('texts that no database can keep', () => {
  test('NUL and half characters in an annotation file are replaced, and the report is made', async () => {
    const document = {
      images: [
        { id: 1, file_name: 'a.jpg' },
        { id: 2, file_name: 'b\0.jpg' },
      ],
      categories: [{ id: 1, name: 'c\0\ud800t' }],
      annotations: [{ id: 1, image_id: 1, category_id: 1, bbox: [1, 1, 5, 5] }],
    }
    const { body, counts } = await validated({ 'coco.json': JSON.stringify(document), 'a.jpg': await makeImage() })
    expect(body.classes).toEqual(['c\uFFFD\uFFFDt'])
    expect(body.statistics.classes).toMatchObject([{ objects: 1, samples: 1 }])
    expect(counts).toEqual({ annotation_without_image: 1 })
  })
})

describe('tables', () => {
  test('reads CSV with quotes and line breaks, and profiles its columns', async () => {
    const rows = [
      'id,price,label,note',
      '1,2.5,cat,"a ""quoted"" note',
      'over two lines"',
      '2,,dog,b',
      '3,-1,cat,',
      '4,7,cat,x',
      'too,few',
    ]
    const { id, body, counts } = await validated({ 'pets.csv': `\uFEFF${rows.join('\r\n')}\r\n` })
    expect(body).toMatchObject({ format: 'tables', record_count: 4, classes: ['cat', 'dog'] })
    expect(body.variables).toMatchObject([
      { name: 'id', dtype: 'integer', min: 1, max: 4, missing_rate: 0 },
      { name: 'price', dtype: 'number', min: -1, max: 7, missing_rate: 0.25 },
      { name: 'label', dtype: 'category', role: 'label', categories: ['cat', 'dog'] },
      { name: 'note', dtype: 'text' },
    ])
    expect(body.statistics.classes).toMatchObject([
      { name: 'cat', samples: 3 },
      { name: 'dog', samples: 1 },
    ])
    expect(counts).toEqual({ unreadable_table: 1 })
    expect(body.validation.issues[0]).toMatchObject({ path: 'pets.csv', line: 7 })
    const sample = await developer.get(`/api/v1/datasets/${id}/sample?limit=1`)
    expect(sample.body).toEqual({
      columns: ['id', 'price', 'label', 'note'],
      items: [{ id: '1', price: '2.5', label: 'cat', note: 'a "quoted" note\r\nover two lines' }],
      total: 1,
    })
  })

  test('reads JSON lines, whose rows may lack columns', async () => {
    const { body, counts } = await validated({ 'a.jsonl': '{"x":1}\n\n{"x":2,"y":true}\nnonsense\n[1]' })
    expect(body).toMatchObject({ record_count: 2 })
    expect(body.variables).toMatchObject([
      { name: 'x', dtype: 'integer', missing_rate: 0 },
      { name: 'y', dtype: 'boolean', missing_rate: 0.5 },
    ])
    expect(counts).toEqual({ unreadable_table: 2 })
  })

  test('shows whatever stands in a table: text that is none, and values of any depth', async () => {
    const deep = `${'['.repeat(500)}1${']'.repeat(500)}`
    const lines = [`{"a\\u0000":"b\\u0000","c":["\\ud800"],"deep":${deep}}`, '{"a\\u0000":"d"}']
    const { id, body, counts } = await validated({ 'a.jsonl': lines.join('\n') })
    console.log(JSON.stringify(body).slice(0, 3000), counts)
    const sample = await developer.get(`/api/v1/datasets/${id}/sample`)
    expect(sample.status).toBe(200)
    expect(sample.body.columns).toEqual(['a\ufffd', 'c', 'deep'])
    expect(sample.body.items[0]).toMatchObject({ 'a\ufffd': 'b\ufffd', c: ['\ufffd'] })
    expect(JSON.stringify(sample.body.items[0].deep)).toMatch(/^\[{32}"…"\]{32}$/)
  })

  test('reads every value of a Parquet file, and shows its first rows', async () => {
    const { id, body } = await validated({ 'a.parquet': Buffer.from(parquetFiles.snappyDictionary, 'base64') })
    expect(body).toMatchObject({ format: 'tables', record_count: 12, classes: ['dog', '고양이'] })
    expect(body.variables).toMatchObject([
      { name: 'id', dtype: 'integer', min: 0, missing_rate: 0 },
      { name: 'score', dtype: 'number', min: 0, max: 5.5, missing_rate: 0.25, nullable: true },
      { name: 'label', dtype: 'category', role: 'label', categories: ['dog', '고양이'] },
      { name: 'day', dtype: 'time' },
      { name: 'at', dtype: 'time' },
      { name: 'price', dtype: 'number', min: -1.75, max: 12 },
      { name: 'tags', dtype: 'list' },
      { name: 'ok', dtype: 'boolean', categories: ['false', 'true'] },
      { name: 'raw' },
    ])
    const sample = await developer.get(`/api/v1/datasets/${id}/sample?limit=9`)
    expect(sample.body.total).toBe(9)
    expect(sample.body.items[8]).toMatchObject({ label: '고양이', day: '1970-01-07', tags: ['t0', 't1'], price: 8.25 })
  })

  test('says what is wrong with a damaged Parquet file', async () => {
    const noFooter = Buffer.concat([Buffer.alloc(40), Buffer.from('\xff\0\0\0PAR1', 'latin1')])
    expect((await validated({ 'a.parquet': noFooter })).counts).toEqual({ unreadable_table: 1 })
    const badPage = Buffer.from(parquetFiles.snappyDictionary, 'base64').fill(0xff, 10, 60)
    const { id, counts, body } = await validated({ 'a.parquet': badPage })
    expect(counts).toEqual({ unreadable_table: 1 })
    expect(body.validation.issues[0].message).toMatch(/^column "id" can not be read/)
    expect((await developer.get(`/api/v1/datasets/${id}/sample`)).body).toMatchObject({ items: [], total: 0 })
  })
})
