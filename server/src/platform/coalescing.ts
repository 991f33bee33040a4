/** One call that waits for its batch. */
interface Call<I, O> {
  item: I
  resolve(outcome: O): void
  reject(error: unknown): void
}

export interface CoalescingOptions<I, O> {
  /** Does the work of several calls at once; gives the outcome of each, in their order. */
  work(items: I[]): Promise<O[]>
  /** Whether a call goes with those of a batch; the others wait for the next one. */
  fits(batch: I[], item: I): boolean
  /** Whether the fault may lie in one call alone; then each is done by itself, so that none fails for another. */
  isOfOne(error: unknown): boolean
  /** How many batches may be under way at once. */
  lanes: number
}

/**
 * Gathers the calls that come while others are under way, so that many cost little more than one. A call that comes
 * alone starts at once; what answers it began after it came.
 */
export function coalescing<I, O>({ work, fits, isOfOne, lanes }: CoalescingOptions<I, O>): (item: I) => Promise<O> {
  let waiting: Call<I, O>[] = []
  let busy = 0

  function takeBatch(): Call<I, O>[] {
    const items: I[] = []
    const taken: Call<I, O>[] = []
    const left: Call<I, O>[] = []
    for (const call of waiting) {
      const goes = items.length === 0 || fits(items, call.item)
      if (goes) items.push(call.item)
      ;(goes ? taken : left).push(call)
    }
    waiting = left
    return taken
  }

  async function settle(batch: Call<I, O>[]): Promise<void> {
    try {
      const outcomes = await work(batch.map((call) => call.item))
      for (const [place, call] of batch.entries()) call.resolve(outcomes[place]!)
    } catch (error) {
      if (batch.length > 1 && isOfOne(error)) for (const call of batch) await settle([call])
      else for (const call of batch) call.reject(error)
    }
  }

  async function run(): Promise<void> {
    while (waiting.length > 0) await settle(takeBatch())
    busy--
  }

  return (item) =>
    new Promise((resolve, reject) => {
      waiting.push({ item, resolve, reject })
      if (busy === lanes) return
      busy++
      // What came in the same turn of the event loop goes along.
      setImmediate(() => void run())
    })
}
