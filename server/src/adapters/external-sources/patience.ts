import type { ExternalSource, OpenedObject } from './external-sources.ts'
import { SourceError } from './external-sources.ts'

/** A source that feeds us drop by drop is given up, too: below this it counts as stalled. */
const leastBytesPerSecond = 16 * 1024
/** Time for the first byte of anything and for slow starts, on top of what the bytes may take. */
const graceMs = 10 * 60_000

/** The same source, given up when it is silent for so long, whatever it is doing. */
export function impatient(source: ExternalSource, silenceMs: number): ExternalSource {
  return {
    async *list(prefix, signal) {
      const stop = new AbortController()
      const items = source.list(prefix, AbortSignal.any([signal, stop.signal]))[Symbol.asyncIterator]()
      yield* watched(items, { silenceMs, stop, signal })
    },
    async read(object, known, signal) {
      const stop = new AbortController()
      const opening = source.read(object, known, AbortSignal.any([signal, stop.signal]))
      const opened = await within(opening, { silenceMs, stop, signal })
      return opened && { ...opened, content: watchedContent(opened, { silenceMs, stop, signal }) }
    },
    close: () => source.close(),
  }
}

interface Watch {
  silenceMs: number
  stop: AbortController
  signal: AbortSignal
}

async function* watchedContent({ content, size }: OpenedObject, watch: Watch): AsyncGenerator<Uint8Array> {
  const began = Date.now()
  let bytes = 0
  for await (const piece of watched(content[Symbol.asyncIterator](), watch)) {
    bytes += piece.length
    if (size !== null && bytes > size)
      throw new SourceError('changed', `It is longer than the ${size} bytes it should be.`)
    const allowedMs = graceMs + (bytes / leastBytesPerSecond) * 1000
    if (Date.now() - began > allowedMs) throw new SourceError('unreachable', 'It comes too slowly to be waited for.')
    yield piece
  }
  if (size !== null && bytes !== size)
    throw new SourceError('changed', `It ended after ${bytes} of the ${size} bytes it should be.`)
}

async function* watched<T>(items: AsyncIterator<T>, watch: Watch): AsyncGenerator<T> {
  try {
    for (;;) {
      const { done, value } = await within(items.next(), watch)
      if (done) return
      yield value
    }
  } finally {
    // What is stuck in a read hears of it by the signal; waiting for it would be waiting for the silent.
    watch.stop.abort()
    void items.return?.()?.catch(() => undefined)
  }
}

/** The result, or a fault when it takes longer, or the reason of the signal as soon as it fires. */
function within<T>(work: Promise<T>, { silenceMs, stop, signal }: Watch): Promise<T> {
  return new Promise((resolve, reject) => {
    const give = (reason: unknown) => {
      stop.abort()
      reject(reason)
    }
    const timer = setTimeout(
      () => give(new SourceError('unreachable', `The source was silent for ${silenceMs / 1000} seconds.`)),
      silenceMs,
    )
    const canceled = () => give(signal.reason)
    if (signal.aborted) canceled()
    else signal.addEventListener('abort', canceled, { once: true })
    work.then(resolve, reject).finally(() => {
      clearTimeout(timer)
      signal.removeEventListener('abort', canceled)
    })
  })
}
