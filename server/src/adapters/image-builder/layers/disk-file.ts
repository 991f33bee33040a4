import { createReadStream } from 'node:fs'
import { stat } from 'node:fs/promises'
import type { LayerFile } from './tar-stream.ts'

/** A layer file read from this machine's disk; symbolic links are followed, the source's owner and mode are not kept. */
export async function diskFile(path: string, sourcePath: string, mode = 0o644): Promise<LayerFile> {
  const { size, mtimeMs, ctimeMs } = await stat(sourcePath)
  return {
    kind: 'file',
    path,
    mode,
    size,
    stamp: `${size} ${mtimeMs} ${ctimeMs}`,
    open: () => createReadStream(sourcePath, { highWaterMark: 1024 * 1024 }),
  }
}

/** A layer file made of text. */
export function textFile(path: string, text: string, mode = 0o644): LayerFile {
  const bytes = Buffer.from(text)
  return { kind: 'file', path, mode, size: bytes.length, stamp: text, open: async () => asPieces(bytes) }
}

async function* asPieces(bytes: Uint8Array) {
  yield bytes
}
