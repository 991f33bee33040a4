import { ociError } from './oci-errors.ts'

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
