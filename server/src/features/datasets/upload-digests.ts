import { createHash, type Hash } from 'node:crypto'
import { type FileHandle, open, readdir } from 'node:fs/promises'

/** A chunk as it was recorded. */
export interface NotedChunk {
  index: number
  /** 64 hexadecimal digits. */
  sha256: string
}

interface Session {
  path: string
  size: number
  chunkSize: number
}

/** Sessions followed at once; the oldest is given up for a new one, and read whole at its end. */
const followedMax = 256
const readBytes = 1024 * 1024

/**
 * Computes the digests of uploads while their chunks arrive, from what lies on the disk, so that the end of an upload
 * does not read it all again. Known to this process alone and only ever a shortcut: whoever asks for a digest and gets
 * null reads the file.
 */
class UploadDigests {
  #followers = new Map<string, Follower>()

  /** Notes a chunk that is durable and recorded. */
  note(id: string, session: Session, chunk: NotedChunk): void {
    const oldest = this.#followers.keys().next()
    if (this.#followers.size >= followedMax && !oldest.done) this.forget(oldest.value)
    const follower = this.#followers.get(id) ?? new Follower(session)
    this.#followers.set(id, follower)
    if (!follower.note(chunk)) this.forget(id)
  }

  /** The write of a chunk failed: if it was noted before, what lies on the disk may no longer be that. */
  noteFailure(id: string, index: number): void {
    if (this.#followers.get(id)?.has(index)) this.forget(id)
  }

  forget(id: string): void {
    this.#followers.get(id)?.stop()
    this.#followers.delete(id)
  }

  /**
   * The SHA-256 of a complete upload in hexadecimal digits, or null when it is not known here. `recorded` are its
   * chunks in order: one that was sent again through another process shows there. Forgets the session.
   */
  async finish(id: string, recorded: AsyncIterable<NotedChunk> | Iterable<NotedChunk>): Promise<string | null> {
    const follower = this.#followers.get(id)
    this.#followers.delete(id)
    return (await follower?.finish(recorded)) ?? null
  }
}

class Follower {
  readonly #session: Session
  readonly #chunks: number
  #hash: Hash = createHash('sha256')
  /** Of the chunks that are in the hash: their digests in order. */
  #chain: Hash = createHash('sha256')
  #next = 0
  #waiting = new Map<number, string>()
  #following: Promise<void> | null = null
  #stopped = false

  constructor(session: Session) {
    this.#session = session
    this.#chunks = Math.ceil(session.size / session.chunkSize)
  }

  /** False when the chunk was sent again after it had been taken. */
  note({ index, sha256 }: NotedChunk): boolean {
    if (index < this.#next) return false
    this.#waiting.set(index, sha256)
    this.#following ??= this.#follow()
    return true
  }

  has(index: number): boolean {
    return index < this.#next || this.#waiting.has(index)
  }

  stop(): void {
    this.#stopped = true
  }

  async finish(recorded: AsyncIterable<NotedChunk> | Iterable<NotedChunk>): Promise<string | null> {
    while (this.#following !== null) await this.#following
    if (this.#stopped || this.#next < this.#chunks) return null
    const chain = createHash('sha256')
    for await (const { sha256 } of recorded) chain.update(sha256)
    if (chain.digest('hex') !== this.#chain.digest('hex')) return null
    // Chunks that were sent again and did not get to their place.
    if ((await readdir(`${this.#session.path}.resent`).catch(() => [])).length > 0) return null
    return this.#hash.digest('hex')
  }

  async #follow(): Promise<void> {
    try {
      const file = await open(this.#session.path, 'r')
      try {
        const buffer = Buffer.allocUnsafe(readBytes)
        for (;;) {
          const sha256 = this.#waiting.get(this.#next)
          if (sha256 === undefined || this.#stopped) break
          this.#waiting.delete(this.#next)
          await this.#take(file, this.#next++, buffer)
          this.#chain.update(sha256)
        }
      } finally {
        await file.close()
      }
    } catch {
      // Whoever reads the file at the end meets the reason.
      this.#stopped = true
    }
    // What was noted since the last look.
    this.#following = !this.#stopped && this.#waiting.has(this.#next) ? this.#follow() : null
  }

  async #take(file: FileHandle, index: number, buffer: Buffer): Promise<void> {
    const { size, chunkSize } = this.#session
    const end = Math.min(size, (index + 1) * chunkSize)
    for (let at = index * chunkSize; at < end; ) {
      const { bytesRead } = await file.read(buffer, 0, Math.min(buffer.length, end - at), at)
      if (bytesRead === 0) throw new Error('the file is shorter than it was')
      this.#hash.update(buffer.subarray(0, bytesRead))
      at += bytesRead
    }
  }
}

export const uploadDigests = new UploadDigests()
