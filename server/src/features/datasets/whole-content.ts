/** Bytes that are in memory as the stream that the blob store takes. */
export async function* wholeContent(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes
}
