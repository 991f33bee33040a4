import { statfs } from 'node:fs/promises'
import type { TenantCtx } from '../../platform/context.ts'
import { read } from '../../platform/transaction.ts'
import { countBuilding } from './images.store.ts'

export interface BuilderCheck {
  name: string
  ok: boolean
  message: string
}

/** Room that a build needs beside the model itself, for layers not made yet. */
const freeBytesNeeded = 1024 ** 3

/** Whether an image can be built here and now, each reason looked at for real. */
export async function checkBuilder(ctx: TenantCtx): Promise<BuilderCheck[]> {
  const { imageBuilder } = ctx.adapters
  const building = await read(ctx, (tx) => countBuilding(tx, ctx.tenant.id))
  return [
    await outcome('builder', imageBuilder.check(), `The builder ${imageBuilder.driver} works.`),
    await outcome('storage', ctx.blobs.check(), 'The blob store can be written.'),
    await diskCheck(ctx.config.dataDir),
    { name: 'queue', ok: true, message: building === 0 ? 'No build is under way.' : `${building} under way.` },
  ]
}

const outcome = (name: string, work: Promise<void>, fine: string): Promise<BuilderCheck> =>
  work.then(
    () => ({ name, ok: true, message: fine }),
    (error: Error) => ({ name, ok: false, message: error.message || 'It does not work.' }),
  )

async function diskCheck(folder: string): Promise<BuilderCheck> {
  const { bavail, bsize } = await statfs(folder)
  const free = bavail * bsize
  const message = `${(free / 1e9).toFixed(1)} GB are free, ${(freeBytesNeeded / 1e9).toFixed(1)} GB are needed.`
  return { name: 'disk', ok: free >= freeBytesNeeded, message }
}
