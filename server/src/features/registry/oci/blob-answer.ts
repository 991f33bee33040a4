import type { BlobReader } from '../../../platform/blobs/blob-store.ts'
import { Answer } from '../../../platform/http/answer.ts'

/** An answer whose body is a part of a blob, in bytes from its start; whoever sends it closes the reader. */
export class BlobAnswer extends Answer {
  readonly reader: BlobReader
  readonly part: { start: number; length: number }

  constructor(head: { status: number; headers: Record<string, string> }, reader: BlobReader, part: BlobAnswer['part']) {
    super(head)
    this.reader = reader
    this.part = part
  }
}
