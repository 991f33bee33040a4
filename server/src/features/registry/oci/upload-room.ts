import { advanceUpload, type OpenUpload, reserveUpload } from '../uploads.store.ts'
import type { OciCall } from './oci-call.ts'
import { type OciError, ociError } from './oci-errors.ts'

/** How many bytes of a body may come, and how to ask for more. */
export interface Room {
  maxBytes: number
  extend?: (bytes: number) => Promise<number>
}

const firstStepBytes = 1024 * 1024
const stepMaxBytes = 64 * 1024 * 1024

/**
 * Takes a body with the room there is for it. Under a quota the room is reserved as the bytes come, as much again as has
 * come, so that uploads at the same time never exceed it together and none keeps much from the others. Throws DENIED.
 */
export async function withRoom<T>(
  call: OciCall,
  upload: OpenUpload,
  announced: number | null,
  receive: (room: Room) => Promise<T>,
): Promise<T> {
  const { ctx } = call
  const { id, leftBytes, receivedBytes } = upload
  const mostBytes = ctx.config.maxUploadBytes - receivedBytes
  if (leftBytes === null) return receive({ maxBytes: mostBytes })
  if (leftBytes < (announced ?? 1)) throw overQuota()
  let reserved = false
  const extend = async (bytes: number) => {
    const step = Math.min(Math.max(bytes, firstStepBytes), stepMaxBytes)
    const wanted = Math.min(bytes + step, announced ?? mostBytes, mostBytes)
    reserved = true
    const granted = await reserveUpload(ctx.db, ctx.tenant.id, id, receivedBytes + wanted)
    if (granted === null) throw hasEnded(upload)
    return granted - receivedBytes
  }
  try {
    return await receive({ maxBytes: 0, extend })
  } catch (error) {
    // Of two failures the first is the one to tell; what stays reserved goes with the next body or with the upload.
    if (reserved) await advanceUpload(ctx.db, ctx.tenant.id, id, receivedBytes, receivedBytes).catch(() => false)
    throw error
  }
}

export const overQuota = (): OciError => ociError('DENIED', { message: 'The tenant’s registry quota is used up.' })

export const hasEnded = ({ id }: OpenUpload): OciError => ociError('BLOB_UPLOAD_UNKNOWN', { detail: { upload: id } })
