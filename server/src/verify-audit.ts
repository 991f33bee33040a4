// `npm run verify-audit [-- HASH]`: follows the chain of the audit log; the instance may be running.
import { join } from 'node:path'
import pino from 'pino'
import { type ChainReport, verifyAudit } from './features/audit/chain.ts'
import { systemClock } from './platform/clock.ts'
import { type Config, processConfig } from './platform/config.ts'
import type { Services, SystemCtx } from './platform/context.ts'
import {
  connectDatabase,
  type Database,
  databaseFolderName,
  embeddedName,
  embeddedUrls,
  externalUrls,
} from './platform/db/database.ts'
import { findEmbeddedPostgres, startEmbeddedPostgres } from './platform/db/embedded-postgres.ts'

const usage = `Usage: npm run verify-audit [-- HASH]
  Checks that no entry of the audit log was changed or removed. With HASH, the head of an earlier verification or of
  an "audit sealed" line in the log, it also checks that the chain still leads through it.`

const log = pino({ level: 'error' }, pino.destination(2))

/** The database of the instance: that of its own server, that of the process that runs, or started for this. */
async function openDatabaseOf(config: Config): Promise<{ db: Database; release(): Promise<void> }> {
  if (config.databaseUrl) {
    const db = await connectDatabase(externalUrls(config.databaseUrl), log, 2)
    return { db, release: () => db.close() }
  }
  const folder = join(config.dataDir, databaseFolderName)
  const running = await findEmbeddedPostgres(folder)
  const own = running ? null : await startEmbeddedPostgres({ folder, log })
  const db = await connectDatabase(embeddedUrls((running ?? own)!, embeddedName), log, 2)
  return { db, release: () => db.close().finally(() => own?.stop()) }
}

const lines = (report: ChainReport): string[] => [
  `${report.checked} entries checked, ${report.erased} links of erased ones followed, ${report.unsealed} not sealed yet`,
  `head ${report.head ?? 'none'} at ${report.lastSeq}`,
  ...report.faults.map(({ seq, reason }) => `entry ${seq}: ${reason}`),
]

async function main([witness, ...rest]: string[]): Promise<void> {
  if (rest.length > 0 || (witness !== undefined && !/^[0-9a-f]{64}$/.test(witness))) throw new Error(usage)
  const config = processConfig()
  const { db, release } = await openDatabaseOf(config)
  try {
    const services = { db, log, config, clock: systemClock } as unknown as Services
    const ctx: SystemCtx = {
      ...services,
      kind: 'system',
      scope: 'system',
      actor: null,
      requestId: 'verify',
      audit: null,
    }
    const report = await verifyAudit(ctx, witness)
    for (const line of lines(report)) console.log(line)
    if (report.faults.length > 0) throw new Error('The audit log was tampered with.')
    if (report.witnessed === false) throw new Error('The chain does not lead through that hash: it was written anew.')
    console.log('The chain holds.')
  } finally {
    await release()
  }
}

try {
  await main(process.argv.slice(2))
} catch (error) {
  console.error(error instanceof Error ? error.message : String(error))
  process.exitCode = 1
}
