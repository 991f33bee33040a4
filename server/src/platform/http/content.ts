import { Readable } from 'node:stream'
import type { FastifyRequest } from 'fastify'
import type { BlobStore, ByteRange } from '../blobs/blob-store.ts'
import { rangeNotSatisfiable } from '../errors.ts'
import { Answer, contentDisposition } from './answer.ts'

export interface Content {
  digest: string
  size: number
  contentType: string
  filename?: string
  download?: boolean
}

/** What an answer with stored bytes says before them; without a part it has no body. */
export interface ContentHead {
  status: 200 | 206 | 304
  headers: Record<string, string>
  part: ByteRange | null
}

/**
 * The head of an answer with stored bytes: conditional, by range, without sniffing, and harmless when opened in a browser.
 * Throws `range_not_satisfiable` with `Content-Range: bytes * / size`.
 * @source contract B5.9, RFC 9110 §13–14
 */
export function contentHead(request: FastifyRequest, content: Content): ContentHead {
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
  const range = status === 206 ? part : undefined
  // An empty stream leaves the declared length alone, which no other empty body does.
  const body = request.method === 'HEAD' ? Readable.from([]) : await blobs.open(content.digest, range)
  return new Answer({ status, headers, body })
}

/** `If-None-Match` against one strong validator. */
export function matchesEtag(header: string | undefined, etag: string): boolean {
  if (!header) return false
  if (header.trim() === '*') return true
  return header.split(',').some((candidate) => candidate.trim().replace(/^W\//, '') === etag)
}

/** The one range to send, or null for the whole: several ranges and unknown units are answered whole. */
export function requestedRange(request: FastifyRequest, etag: string, size: number): ByteRange | null {
  const header = request.headers.range
  const condition = request.headers['if-range']
  if (!header || (condition && condition !== etag)) return null
  const match = /^bytes=(\d*)-(\d*)$/.exec(header.trim())
  if (!match || (match[1] === '' && match[2] === '')) return null
  const [first, last] = [match[1]!, match[2]!]
  const start = first === '' ? Math.max(0, size - Number(last)) : Number(first)
  const end = first === '' || last === '' ? size - 1 : Math.min(Number(last), size - 1)
  if (start > end || start >= size || (first === '' && Number(last) === 0)) {
    throw rangeNotSatisfiable(undefined, { headers: { 'content-range': `bytes */${size}` }, detail: { size } })
  }
  return { start, end }
}
