import { sql } from 'kysely'
import type { Tx } from '../../platform/db/transaction.ts'

export interface NewestContents {
  /** Number of repositories. */
  repositories: number
  /** The one that was pushed to last; null when there is none. */
  repository: string | null
  /** Some of what it holds, the newest first. */
  digests: string[]
}

const looksAt = 20

export async function findNewestContents(tx: Tx): Promise<NewestContents> {
  const { rows } = await sql<NewestContents>`
    with newest as (
      select id, name from registry_repositories where pushed_at is not null order by pushed_at desc limit 1
    ), contents as (
      (select content_digest from registry_manifests where repository_id = (select id from newest)
       order by created_at desc limit ${looksAt})
      union all
      (select content_digest from registry_blobs where repository_id = (select id from newest)
       order by touched_at desc limit ${looksAt})
    )
    select (select count(*) from registry_repositories) as repositories, (select name from newest) as repository,
      coalesce((select array_agg(content_digest) from contents), '{}') as digests`.execute(tx)
  return rows[0]!
}
