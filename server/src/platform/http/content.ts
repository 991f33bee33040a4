import { Readable } from 'node:stream'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { sendBlob } from '../blobs/blob-sender.ts'
import type { BlobReader, BlobStore, ByteRange } from '../blobs/blob-store.ts'
import { rangeNotSatisfiable } from '../errors.ts'
import { Answer, contentDisposition } from './answer.ts'

export interface Content {
  digest: string
  size: number
  contentType: string
  filename?: string
  download?: boolean
}

/** An answer whose body is a part of a blob, both ends included; `sendContent` sends it and closes the reader. */
export class ContentAnswer extends Answer {
  readonly reader: BlobReader
  readonly part: ByteRange

  constructor(head: { status: number; headers: Record<string, string> }, reader: BlobReader, part: ByteRange) {
    super(head)
    this.reader = reader
    this.part = part
  }
}

/** Sends the head and then, past Fastify, the bytes. What breaks from then on breaks the connection. */
export function sendContent(reply: FastifyReply, { status, headers, reader, part }: ContentAnswer): FastifyReply {
  void reply
    .code(status ?? 200)
    .headers(headers)
    .hijack()
  reply.raw.writeHead(reply.statusCode, reply.getHeaders() as Record<string, string>)
  sendBlob(reply.raw, reader, { start: part.start, length: part.end - part.start + 1 }).catch((error) => {
    // The head is out: only a broken connection tells the client that this is not all.
    reply.log.info({ err: error }, 'content was not sent to its end')
    reply.raw.destroy()
  })
  return reply
}

/** What an answer with stored bytes says before them; without a part it has no body. */
interface ContentHead {
  status: 200 | 206 | 304
  headers: Record<string, string>
  part: ByteRange | null
}

/**
 * The head of an answer with stored bytes: conditional, by range, without sniffing, and harmless when opened in a browser.
 * Throws `range_not_satisfiable` with `Content-Range: bytes * / size`.
 * @source contract B5.9, RFC 9110 §13–14
 */
function contentHead(request: FastifyRequest, content: Content): ContentHead {
  const etag = `"${content.digest.replace('sha256:', '')}"`
  const headers: Record<string, string> = {
    etag,
    'accept-ranges': 'bytes',
    'x-content-type-options': 'nosniff',
    'cache-control': 'private, no-cache',
    'content-type': content.contentType,
  }
  if (/html|svg|xml/.test(content.contentType)) headers['content-security-policy'] = 'sandbox'
  if (content.filename)
    headers['content-disposition'] = contentDisposition(content.download ? 'attachment' : 'inline', content.filename)
  if (matchesEtag(request.headers['if-none-match'], etag)) return { status: 304, headers, part: null }

  const range = requestedRange(request, etag, content.size)
  const part = range ?? { start: 0, end: content.size - 1 }
  headers['content-length'] = String(part.end - part.start + 1)
  if (range) headers['content-range'] = `bytes ${range.start}-${range.end}/${content.size}`
  return { status: range ? 206 : 200, headers, part }
}

/** Stored bytes as an answer, with the head of `contentHead`. */
export async function contentAnswer(blobs: BlobStore, request: FastifyRequest, content: Content): Promise<Answer> {
  const { status, headers, part } = contentHead(request, content)
  if (!part) return new Answer({ status, headers })
  // An empty stream leaves the declared length alone, which no other empty body does.
  if (request.method === 'HEAD') return new Answer({ status, headers, body: Readable.from([]) })
  return new ContentAnswer({ status, headers }, await blobs.reader(content.digest), part)
}

/** `If-None-Match` against one strong validator. */
export function matchesEtag(header: string | undefined, etag: string): boolean {
  if (!header) return false
  if (header.trim() === '*') return true
  return header.split(',').some((candidate) => candidate.trim().replace(/^W\//, '') === etag)
}

/**
 * The one range to send, or null for the whole: no header, another unit, several ranges or unreadable ones, which RFC 9110
 * lets a server ignore. Throws `range_not_satisfiable` for one beyond the end or the wrong way round.
 * @source contract B5.9, B9.11, RFC 9110 §14.2
 */
export function requestedRange(request: FastifyRequest, etag: string, size: number): ByteRange | null {
  const header = request.headers.range
  const condition = request.headers['if-range']
  if (!header || (condition && condition !== etag)) return null
  const match = /^bytes=\s*(\d*)\s*-\s*(\d*)\s*$/i.exec(header)
  if (!match || (match[1] === '' && match[2] === '')) return null
  const [first, last] = [match[1]!, match[2]!]
  const start = first === '' ? Math.max(0, size - Number(last)) : Number(first)
  const end = first === '' || last === '' ? size - 1 : Math.min(Number(last), size - 1)
  if (start > end) {
    throw rangeNotSatisfiable(undefined, { headers: { 'content-range': `bytes */${size}` }, detail: { size } })
  }
  return { start, end }
}
