/** Of a body that was refused half-way this much is read and dropped; beyond, the connection is closed. */
const droppedBytesMax = 64 * 1024 * 1024

/**
 * Hands on content that may be refused half-way. What is left of it then is read and dropped behind the answer: unread,
 * it would keep the connection from ever taking another request.
 */
export async function droppingRest<T>(
  content: AsyncIterable<Buffer>,
  use: (content: AsyncIterable<Buffer>) => Promise<T>,
): Promise<T> {
  const source = content[Symbol.asyncIterator]()
  try {
    return await use({ [Symbol.asyncIterator]: () => ({ next: () => source.next() }) })
  } catch (error) {
    void dropRest(source)
    throw error
  }
}

async function dropRest(source: AsyncIterator<Buffer>): Promise<void> {
  try {
    for (let left = droppedBytesMax; left > 0; ) {
      const { done, value } = await source.next()
      if (done) return
      left -= value.length
    }
    await source.return?.()
  } catch {
    // The client went away.
  }
}
