/** Lets work wait until the memory it names is free; in turn, so that what is large gets its turn too. */
export type MemoryBudget = <T>(bytes: number, work: () => Promise<T>) => Promise<T>

/** A budget of so many bytes; what asks for more than there is takes all of it. */
export function memoryBudget(totalBytes: number): MemoryBudget {
  const waiting: { claim: number; begin: () => void }[] = []
  let free = totalBytes
  const admit = () => {
    while (waiting[0] && waiting[0].claim <= free) {
      const { claim, begin } = waiting.shift()!
      free -= claim
      begin()
    }
  }
  return async (bytes, work) => {
    const claim = Math.min(bytes, totalBytes)
    await new Promise<void>((begin) => {
      waiting.push({ claim, begin })
      admit()
    })
    try {
      return await work()
    } finally {
      free += claim
      admit()
    }
  }
}

// Who holds some of the second never waits for the first, so nobody waits for ever.

/** Images as they are stored, read whole. */
export const encodedImages = memoryBudget(512 * 1024 ** 2)
/** Their pixels, where a small file may stand for gigabytes of them. */
export const decodedImages = memoryBudget(2 * 1024 ** 3)
