import { readTransaction } from '../../platform/db/transaction.ts'
import type { HealthCheck } from '../../platform/feature.ts'
import { findNewestContents, type NewestContents } from './registry-health.store.ts'

/** Looks whether what was pushed last could be pulled: rows and stored bytes must agree. */
export const registryHealth: HealthCheck = {
  name: 'registry',
  async check({ db, blobs }) {
    const newest: NewestContents = await readTransaction(db, 'system', findNewestContents)
    const found = await Promise.all(newest.digests.map((digest) => blobs.stat(digest)))
    const missing = found.filter((info) => info === null).length
    if (missing > 0)
      throw new Error(`${missing} of ${found.length} contents of ${newest.repository} are not in the blob store.`)
    return { repositories: newest.repositories, contents_looked_at: found.length }
  },
  remedy: 'Restore the blob store from a backup, or push the image again.',
}
