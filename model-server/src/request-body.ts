import type { IncomingMessage } from 'node:http'
import { clientClosed, Fault, unavailable } from './faults.ts'

/** Reads whole request bodies within one limit for each and one for all that are held at the same time. */
export type BodyReader = (request: IncomingMessage) => Promise<{ body: Buffer; release(): void }>

/** Bodies held at once, as a multiple of the largest one allowed. */
const heldBodies = 4

export function createBodyReader(maxBodyBytes: number): BodyReader {
  let heldBytes = 0
  return async (request) => {
    const tooLarge = (): Fault => new Fault(413, `the body is larger than ${maxBodyBytes} bytes`)
    if (Number(request.headers['content-length'] ?? 0) > maxBodyBytes) throw tooLarge()
    const chunks: Buffer[] = []
    let size = 0
    const release = (): void => {
      heldBytes -= size
      size = 0
    }
    try {
      for await (const chunk of request.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
        size += chunk.length
        heldBytes += chunk.length
        if (size > maxBodyBytes) throw tooLarge()
        if (heldBytes > maxBodyBytes * heldBodies) throw unavailable('too many large requests are being received')
        chunks.push(chunk)
      }
      return { body: Buffer.concat(chunks, size), release }
    } catch (error) {
      release()
      throw request.complete || error instanceof Fault ? error : clientClosed()
    }
  }
}
