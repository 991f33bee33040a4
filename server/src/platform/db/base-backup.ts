import { Readable } from 'node:stream'
import type pg from 'pg'

interface CopyMessage {
  chunk: Buffer
}

const archiveStart = 'n'.charCodeAt(0)
const archiveData = 'd'.charCodeAt(0)

/**
 * Streams a consistent copy of a running cluster as one tar archive, with the WAL that makes it consistent.
 *
 * The database goes on working meanwhile; the copy shows the moment at which it ended.
 * @param client a connection made with `replication: 'true'`, which the caller ends
 * @source PostgreSQL 18, "Streaming Replication Protocol", BASE_BACKUP
 */
export function streamBaseBackup(client: pg.Client): Readable {
  let connection: pg.Connection | undefined
  let archives = 0
  const stream = new Readable({ read: () => connection?.stream.resume() })

  function take({ chunk }: CopyMessage): void {
    if (chunk[0] === archiveStart && ++archives > 1) stream.destroy(new Error('tablespaces are not supported'))
    // The protocol parser uses its buffer again, so the bytes are copied out of it.
    if (chunk[0] === archiveData && !stream.push(Buffer.from(chunk.subarray(1)))) connection?.stream.pause()
  }

  const ignore = () => {}
  client.query({
    submit(present: pg.Connection) {
      connection = present
      present.query("BASE_BACKUP (LABEL 'platform-mlops', CHECKPOINT 'fast', WAL true)")
    },
    handleCopyData: take,
    handleError: (error: Error) => stream.destroy(error),
    handleReadyForQuery: () => stream.push(null),
    handleRowDescription: ignore,
    handleDataRow: ignore,
    handleCommandComplete: ignore,
  } as pg.Submittable)
  return stream
}
