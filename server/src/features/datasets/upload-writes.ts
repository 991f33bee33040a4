/**
 * The chunks that this process is writing, per session. A chunk that is sent again while its upload is assembled would
 * write into what the blob store has taken over: so the assembly ends such writes before it looks at the file.
 */
class UploadWrites {
  #running = new Map<string, Map<AbortController, Promise<unknown>>>()

  /** Runs a write that looks at the state of its session first. */
  async run<T>(id: string, signal: AbortSignal, write: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const ended = new AbortController()
    const writing = write(AbortSignal.any([signal, ended.signal]))
    const running = this.#running.get(id) ?? new Map<AbortController, Promise<unknown>>()
    this.#running.set(id, running.set(ended, writing))
    try {
      return await writing
    } finally {
      running.delete(ended)
      if (running.size === 0) this.#running.delete(id)
    }
  }

  /** Breaks off what is being written and returns when nothing is any more. The session takes no chunks by now. */
  async end(id: string, reason: Error): Promise<void> {
    const running = [...(this.#running.get(id) ?? [])]
    for (const [ended] of running) ended.abort(reason)
    await Promise.allSettled(running.map(([, writing]) => writing))
  }
}

export const uploadWrites = new UploadWrites()
