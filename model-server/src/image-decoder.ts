import { badRequest, unavailable } from './faults.ts'
import type { Model } from './model-folder.ts'
import { createThreadPool, TaskFault, ThreadLost } from './thread-pool.ts'
import { ownMemory } from './thread-tasks.ts'

/** Turns encoded images into pixels of the model's input size, on threads of its own. */
export type ImageDecoder = {
  started: Promise<void>
  ready(): boolean
  /** 8-bit RGB rows, `width * height * 3` bytes; a fault 400 names `where` when the image is unreadable. */
  decode(encoded: Uint8Array, where: string): Promise<Uint8Array>
  close(): Promise<void>
}

type DecoderOptions = { threads: number; maxImagePixels: number; onThreadLost: (reason: string) => void }

/** At most one full-size image is in memory for each thread. */
export function createImageDecoder(model: Model, options: DecoderOptions): ImageDecoder {
  const pool = createThreadPool<Uint8Array, Uint8Array>({
    file: new URL('./image.worker.ts', import.meta.url),
    size: options.threads,
    workerData: { width: model.input.width, height: model.input.height, maxImagePixels: options.maxImagePixels },
    onThreadLost: options.onThreadLost,
  })
  return {
    started: pool.started,
    ready: pool.ready,
    close: pool.close,
    decode: async (encoded, where) => {
      const bytes = ownMemory(encoded)
      try {
        return await pool.run(bytes, [bytes.buffer as ArrayBuffer])
      } catch (error) {
        if (error instanceof TaskFault) throw badRequest(`${where} is not a readable image: ${error.message}`)
        if (error instanceof ThreadLost) throw unavailable('the image decoder was restarted; send the request again')
        throw error
      }
    },
  }
}
