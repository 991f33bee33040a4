import pg from 'pg'

export interface BackupNote {
  /** Since when what was written is missing from it. */
  takenAt: Date
  /** `archive`: one of our own; `other`: by means the platform knows nothing of, such as pg_dump. */
  kind: 'archive' | 'other'
  sizeBytes: number | null
}

/**
 * Notes in the database that a backup was taken, so that the health page can tell when the last one is long ago.
 * A database from before the table is left as it is.
 */
export async function recordBackup(ownerUrl: string, { takenAt, kind, sizeBytes }: BackupNote): Promise<void> {
  const client = new pg.Client({ connectionString: ownerUrl })
  client.on('error', () => {})
  await client.connect()
  try {
    const { rows } = await client.query(`select to_regclass('public.backups') is not null as known`)
    if (!rows[0].known) return
    await client.query('insert into backups (taken_at, kind, size_bytes) values ($1, $2, $3)', [
      takenAt,
      kind,
      sizeBytes,
    ])
  } finally {
    await client.end()
  }
}
