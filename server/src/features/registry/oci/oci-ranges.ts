import type { ByteRange } from '../../../platform/blobs/blob-store.ts'
import { ociError } from './oci-errors.ts'

/**
 * The part of a blob that a `Range` header asks for, or null for the whole: no header, another unit, several ranges or
 * an unreadable one, which RFC 9110 lets a server ignore.
 * @param size length of the blob in bytes
 * @throws OciError SIZE_INVALID with 416 for a range beyond the end or the wrong way round
 * @source contract B9.11, RFC 9110 §14.2
 */
export function parseBlobRange(header: string | undefined, size: number): ByteRange | null {
  const match = /^bytes=\s*(\d*)\s*-\s*(\d*)\s*$/i.exec(header ?? '')
  if (!match || (match[1] === '' && match[2] === '')) return null
  const [first, last] = [match[1] as string, match[2] as string]
  const range =
    first === ''
      ? { start: Math.max(0, size - Number(last)), end: size - 1 }
      : { start: Number(first), end: last === '' ? size - 1 : Math.min(Number(last), size - 1) }
  if (range.start > range.end) {
    throw ociError('SIZE_INVALID', {
      status: 416,
      message: 'The range lies outside of the blob.',
      detail: { size },
      headers: { 'Content-Range': `bytes */${size}` },
    })
  }
  return range
}

/** The `Content-Range` of a 206. */
export const contentRange = ({ start, end }: ByteRange, size: number) => `bytes ${start}-${end}/${size}`

/** The `Range` of an upload that holds `size` bytes; an empty one is `0-0` too. @source contract B9.9 */
export const uploadRange = (size: number) => `0-${Math.max(0, size - 1)}`

/**
 * Checks that a chunk follows on the bytes held. Without a `Content-Range` it is simply appended. `bytes` in front and
 * a total behind are tolerated: some clients write the header as RFC 9110 has it.
 * @param heldBytes what the upload holds so far
 * @param contentLength of this request in bytes, null when sent in chunked coding
 * @returns the chunk's length as its range says, or null when unknown
 * @throws OciError BLOB_UPLOAD_INVALID (416, with Range; the caller adds Location), SIZE_INVALID (400)
 * @source contract B9.9
 */
export function requireNextChunk(
  header: string | undefined,
  heldBytes: number,
  contentLength: number | null,
): number | null {
  if (header === undefined) return contentLength
  const match = /^(?:bytes[ =])?(\d{1,15})-(\d{1,15})(?:\/(?:\d+|\*))?$/.exec(header.trim())
  const [start, end] = [Number(match?.[1]), Number(match?.[2])]
  if (!match || start !== heldBytes || end < start) {
    const detail = { content_range: header, offset: heldBytes }
    throw ociError('BLOB_UPLOAD_INVALID', { detail, headers: { Range: uploadRange(heldBytes) } })
  }
  const length = end - start + 1
  if (contentLength !== null && contentLength !== length) {
    throw ociError('SIZE_INVALID', { detail: { content_range: header, content_length: contentLength } })
  }
  return length
}
