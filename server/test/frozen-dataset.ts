import { createHash } from 'node:crypto'
import { Readable } from 'node:stream'
import sharp from 'sharp'
import type { Services } from '../src/platform/context.ts'
import { transaction } from '../src/platform/db/transaction.ts'
import { newId } from '../src/platform/ids.ts'

const colours = { blue: [40, 60, 220], green: [40, 190, 60], red: [220, 50, 40] } as const
const size = 24

export interface FrozenDataset {
  id: string
  digest: string
  classes: string[]
}

export interface FrozenDatasetOptions {
  /** Images of each class for training; a quarter as many for the test. */
  perClass?: number
  state?: 'FROZEN' | 'READY'
  tasks?: string[]
  /** Of blue, green and red; all of them when absent. */
  classes?: (keyof typeof colours)[]
  /** Bytes that take the place of an image; null keeps it. */
  instead?: (label: string, index: number) => Buffer | null
}

/** A frozen dataset of plain coloured images in the database and the blob store, without any upload. */
export async function insertFrozenDataset(
  services: Pick<Services, 'db' | 'blobs'>,
  tenantId: string,
  id: string,
  options: FrozenDatasetOptions = {},
): Promise<FrozenDataset> {
  const { perClass = 16, state = 'FROZEN', tasks = ['image_classification'], instead } = options
  const { classes = Object.keys(colours) as (keyof typeof colours)[] } = options
  const wanted = classes.flatMap((label) =>
    Array.from({ length: perClass + Math.ceil(perClass / 4) }, (_, index) => ({ label, index })),
  )
  const files = await Promise.all(
    wanted.map(async ({ label, index }) => {
      const split = index < perClass ? ('train' as const) : ('test' as const)
      const bytes = instead?.(label, index) ?? (await drawImage(colours[label], index))
      const { digest } = await services.blobs.put(Readable.from([bytes]))
      return { path: `${split}/${label}/${index}.png`, label, split, digest, size: bytes.length }
    }),
  )
  const digest = `sha256:${createHash('sha256').update(JSON.stringify(files)).digest('hex')}`
  const sizeBytes = files.reduce((sum, file) => sum + file.size, 0)
  const splits = { train: classes.length * perClass, test: files.length - classes.length * perClass }
  await transaction(services.db, { tenantId }, async (tx) => {
    await tx
      .insertInto('datasets')
      .values({
        tenantId,
        id,
        name: `Colours ${id}`,
        state,
        classes: JSON.stringify(classes),
        tasks,
        splits: JSON.stringify(splits),
        fileCount: files.length,
        sizeBytes,
        digest,
        frozenAt: state === 'FROZEN' ? new Date() : null,
        createdBy: 'test',
      })
      .execute()
    const rows = files.map((file) => ({
      tenantId,
      datasetId: id,
      id: newId(),
      ...file,
      mediaType: 'image/png',
      kind: 'image',
      origin: 'upload',
      status: 'VALID',
    }))
    await tx.insertInto('datasetFiles').values(rows).execute()
  })
  return { id, digest, classes }
}

/** A plain colour with a shade and a stripe of its own, so that no two images are equal. */
function drawImage(colour: readonly number[], index: number): Promise<Buffer> {
  const pixels = Buffer.alloc(size * size * 3)
  for (let place = 0; place < size * size; place++) {
    const shade = (index % 7) * 4 - (place % size === index % size ? 25 : 0)
    for (let channel = 0; channel < 3; channel++)
      pixels[place * 3 + channel] = Math.max(0, Math.min(255, colour[channel]! + shade))
  }
  return sharp(pixels, { raw: { width: size, height: size, channels: 3 } })
    .png()
    .toBuffer()
}
