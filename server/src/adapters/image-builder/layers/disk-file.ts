import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { readFile, stat } from 'node:fs/promises'
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

/** A small file of our own, read at once: an edit during the build can't tear it, and a fresh checkout changes nothing. */
export async function sourceFile(path: string, sourcePath: string): Promise<LayerFile> {
  return bytesFile(path, await readFile(sourcePath), 0o644)
}

/** A layer file made of text. */
export function textFile(path: string, text: string, mode = 0o644): LayerFile {
  return bytesFile(path, Buffer.from(text), mode)
}

function bytesFile(path: string, bytes: Buffer, mode: number): LayerFile {
  const stamp = createHash('sha256').update(bytes).digest('hex')
  return { kind: 'file', path, mode, size: bytes.length, stamp, open: () => asPieces(bytes) }
}

async function* asPieces(bytes: Uint8Array) {
  yield bytes
}
