import type { FastifyReply } from 'fastify'
import { sendBlob } from '../../../platform/blobs/blob-sender.ts'
import type { BlobReader } from '../../../platform/blobs/blob-store.ts'

/** Stored bytes that a handler answers with; sending them closes the reader. */
export class BlobAnswer {
  readonly status: number
  readonly headers: Record<string, string>
  readonly reader: BlobReader
  /** First byte and number of bytes. */
  readonly part: { start: number; length: number }

  constructor(answer: BlobAnswer) {
    this.status = answer.status
    this.headers = answer.headers
    this.reader = answer.reader
    this.part = answer.part
  }
}

export function sendBlobAnswer(reply: FastifyReply, { status, headers, reader, part }: BlobAnswer): FastifyReply {
  void reply.code(status).headers(headers).hijack()
  reply.raw.writeHead(reply.statusCode, reply.getHeaders() as Record<string, string>)
  sendBlob(reply.raw, reader, part).catch((error) => {
    // The head is out: only a broken connection tells the client that this is not all.
    reply.log.info({ err: error }, 'an artifact was not sent to its end')
    reply.raw.destroy()
  })
  return reply
}
