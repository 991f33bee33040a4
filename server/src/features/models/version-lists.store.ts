import { sql } from 'kysely'
import type { Tx } from '../../platform/db/transaction.ts'

/** What a list shows of a version beside its own row. */
export interface VersionExtras {
  version: number
  aliases: string[]
  files: number
  /** Of all files together, in bytes. */
  sizeBytes: number
}

/** For some versions of one model, in one round trip. */
export async function findExtras(
  tx: Tx,
  tenantId: string,
  modelId: string,
  versions: number[],
): Promise<Map<number, VersionExtras>> {
  const result = await sql<VersionExtras>`
    select v.version, coalesce(a.aliases, '{}') as aliases, coalesce(f.files, 0) as files,
      coalesce(f.size_bytes, 0) as size_bytes
    from unnest(${versions}::integer[]) as v(version)
    left join lateral (
      select array_agg(alias order by alias) as aliases from model_aliases
      where tenant_id = ${tenantId} and model_id = ${modelId} and version = v.version
    ) a on true
    left join lateral (
      select count(*) as files, sum(size) as size_bytes from model_version_files
      where tenant_id = ${tenantId} and model_id = ${modelId} and version = v.version
    ) f on true`.execute(tx)
  return new Map(result.rows.map((row) => [row.version, row]))
}
