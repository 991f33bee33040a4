import { createHash, randomUUID } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { type FileHandle, mkdir, open, readdir, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { badRequest, invalid } from '../errors.ts'
import { inBatches, namingFullStorage, writeBatches } from './content-batches.ts'
import { type DigestOptions, digestOfFile } from './digest.ts'
import { syncFolder } from './durable-files.ts'

/** What was received of one chunk. */
export interface ChunkInfo {
  /** In bytes. */
  size: number
  /** 64 hexadecimal digits. */
  sha256: string
}

export interface WriteChunkOptions {
  /** Whether the caller's records already hold this chunk: then it must survive a resend that fails. */
  alreadyReceived: boolean
  /** The parts are nobody else's, so their memory is given back as they are written. */
  owned?: boolean
  signal?: AbortSignal
  /** Runs before another write of the same chunk may begin: the place to record the chunk as received. */
  commit?: (chunk: ChunkInfo) => Promise<void>
}

/**
 * The file behind an upload whose chunks come in any order, in parallel, and again. Holds nothing open between calls;
 * which chunks have arrived is the caller's to record.
 * @source contract B5.3–B5.6
 */
export interface ChunkFile {
  /**
   * Streams one chunk to its place and returns when it is durable. Throws `unprocessable_entity` for an index outside,
   * `bad_request` with `detail.expected` when the content is shorter than the chunk, `payload_too_large` when longer.
   */
  writeChunk(index: number, content: AsyncIterable<Uint8Array>, options: WriteChunkOptions): Promise<ChunkInfo>
  /** The digest of the whole file; call it when all chunks have arrived and no more are taken. */
  digest(options?: Omit<DigestOptions, 'size'>): Promise<string>
  /** Removes the file and all that belongs to it; also after the file itself was taken over by the blob store. */
  remove(): Promise<void>
}

/** Opens the sparse file at `path`, or makes it. `size` and `chunkSize` are bytes. */
export async function openChunkFile(
  path: string,
  { size, chunkSize }: { size: number; chunkSize: number },
): Promise<ChunkFile> {
  const file = await open(path, 'a', 0o600)
  try {
    if ((await file.stat()).size !== size) await file.truncate(size)
  } finally {
    await file.close()
  }
  const lengthOf = (index: number) => Math.min(chunkSize, size - index * chunkSize)
  const resent = `${path}.resent`
  return {
    async writeChunk(index, content, options) {
      const expected = lengthOf(index)
      if (!Number.isInteger(index) || index < 0 || expected <= 0) throw outside(index, Math.ceil(size / chunkSize))
      return alone(`${path}#${index}`, async (waited) => {
        const chunk =
          options.alreadyReceived || waited
            ? await replaceChunk(path, resent, { index, position: index * chunkSize, expected }, content, options)
            : await fillIn(path, 'r+', { position: index * chunkSize, expected }, content, options)
        await options.commit?.(chunk)
        return chunk
      })
    },
    async digest(options) {
      await finishReplacements(path, resent, chunkSize)
      return digestOfFile(path, options)
    },
    async remove() {
      await rm(path, { force: true })
      await rm(resent, { recursive: true, force: true })
    },
  }
}

const outside = (index: number, count: number) =>
  invalid({ loc: ['path', 'index'], msg: `must be between 0 and ${count - 1}`, type: 'out_of_range', input: index })

const lastWrites = new Map<string, Promise<unknown>>()

/** Runs the writes of one chunk one after the other; tells each whether another came just before it. */
async function alone<T>(key: string, write: (waited: boolean) => Promise<T>): Promise<T> {
  const before = lastWrites.get(key)
  const mine = (async () => {
    await before?.catch(() => {})
    return write(before !== undefined)
  })()
  lastWrites.set(key, mine)
  try {
    return await mine
  } finally {
    if (lastWrites.get(key) === mine) lastWrites.delete(key)
  }
}

interface Place {
  position: number
  /** The exact length in bytes. */
  expected: number
}

async function fillIn(
  path: string,
  flags: 'r+' | 'wx',
  { position, expected }: Place,
  content: AsyncIterable<Uint8Array>,
  { signal, owned = false }: Pick<WriteChunkOptions, 'signal' | 'owned'>,
): Promise<ChunkInfo> {
  const hash = createHash('sha256')
  const size = await namingFullStorage(() =>
    withFile(path, flags, (file) =>
      writeBatches(file, inBatches(content, { maxBytes: expected, signal }), { position, hash, owned }),
    ),
  )
  if (size < expected) {
    throw badRequest('The chunk is shorter than it should be.', { detail: { expected, received: size } })
  }
  return { size, sha256: hash.digest('hex') }
}

/** What is there stays until the new bytes are complete and durable; from then on a crash only delays the copying. */
async function replaceChunk(
  path: string,
  resent: string,
  { index, position, expected }: Place & { index: number },
  content: AsyncIterable<Uint8Array>,
  options: Pick<WriteChunkOptions, 'signal' | 'owned'>,
): Promise<ChunkInfo> {
  await mkdir(resent, { recursive: true, mode: 0o700 })
  const incoming = join(resent, `${randomUUID()}.incoming`)
  try {
    const chunk = await fillIn(incoming, 'wx', { position: 0, expected }, content, options)
    const complete = join(resent, String(index))
    await rename(incoming, complete)
    await syncFolder(resent)
    await moveInto(path, complete, position)
    return chunk
  } finally {
    await rm(incoming, { force: true })
  }
}

async function moveInto(path: string, complete: string, position: number): Promise<void> {
  const content = createReadStream(complete, { highWaterMark: 1024 * 1024 })
  await withFile(path, 'r+', (file) => writeBatches(file, inBatches(content), { position }))
  await rm(complete)
}

async function finishReplacements(path: string, resent: string, chunkSize: number): Promise<void> {
  const names = await readdir(resent).catch(() => [])
  for (const name of names.filter((name) => /^\d+$/.test(name))) {
    await moveInto(path, join(resent, name), Number(name) * chunkSize)
  }
}

async function withFile<T>(path: string, flags: string, use: (file: FileHandle) => Promise<T>): Promise<T> {
  const file = await open(path, flags, 0o600)
  try {
    return await use(file)
  } finally {
    await file.close()
  }
}
