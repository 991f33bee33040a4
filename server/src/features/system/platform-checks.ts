import { statfs } from 'node:fs/promises'
import type { Services } from '../../platform/context.ts'
import { transaction } from '../../platform/db/transaction.ts'
import type { HealthCheck } from '../../platform/feature.ts'
import { databaseFigures, runFigures, unsealedSeconds } from './health.store.ts'

// Below these the next upload or training may not fit any more.
const lowBytes = 5 * 2 ** 30
const lowFraction = 0.1
const fullBytes = 500 * 2 ** 20
const waitingSecondsMax = 300
const unsealedSecondsMax = 900

/** What the platform itself stands on; features add what they depend on in their manifests. */
export const platformChecks: HealthCheck[] = [
  {
    name: 'database',
    essential: true,
    remedy: 'Look into the log for "database"; see to it that the server runs and takes connections.',
    async check(services) {
      const figures = await transaction(services.db, 'system', databaseFigures)
      const { version, sizeBytes, connections, connectionsMax } = figures
      const crowded = connections > connectionsMax * 0.9
      return {
        version,
        kind: services.config.databaseUrl ? 'external' : 'embedded',
        size_bytes: sizeBytes,
        connections,
        connections_max: connectionsMax,
        ...(crowded && { status: 'degraded', message: 'Nearly every connection it allows is taken.' }),
      }
    },
  },
  {
    name: 'object store',
    essential: true,
    remedy: 'See to it that the data folder can be written and has room.',
    async check({ blobs }) {
      await blobs.check()
      return {}
    },
  },
  {
    name: 'disk space',
    essential: true,
    remedy: 'Delete what is not needed, shorten retention, or give the data folder a larger disk.',
    check: diskSpace,
  },
  {
    name: 'runs engine',
    essential: true,
    remedy: 'Start a process with PLATFORM_MLOPS_ROLES=worker, or more of them.',
    check: runsEngine,
  },
  {
    name: 'audit chain',
    remedy: 'Look into the log for the run audit.seal.',
    async check({ db }) {
      const seconds = await transaction(db, 'system', unsealedSeconds)
      if (seconds > unsealedSecondsMax) throw new Error(`Entries wait since ${seconds} s for their place in the chain.`)
      return { unsealed_seconds: seconds }
    },
  },
  {
    name: 'compute',
    remedy: 'Look into the log for "compute".',
    async check({ adapters }) {
      const work = await adapters.compute.list()
      return { work: work.length, running: work.filter(({ status }) => status.state === 'running').length }
    },
  },
]

async function diskSpace({ config }: Services): Promise<Record<string, unknown>> {
  const { bsize, bavail, blocks } = await statfs(config.dataDir)
  const free = bsize * bavail
  const total = bsize * blocks
  const figures = { free_bytes: free, total_bytes: total }
  if (free < fullBytes) throw new Error(`Only ${Math.floor(free / 2 ** 20)} MiB are left.`)
  const low = free < lowBytes || free < total * lowFraction
  return low ? { ...figures, status: 'degraded', message: `${(free / 2 ** 30).toFixed(1)} GiB are left.` } : figures
}

async function runsEngine({ db }: Services): Promise<Record<string, unknown>> {
  const { workers, running, waiting, oldestSeconds, failed } = await transaction(db, 'system', runFigures)
  if (workers === 0) throw new Error('No worker is alive: nothing that takes longer is done.')
  const figures = { workers, running, waiting, oldest_waiting_seconds: oldestSeconds, failed_last_day: failed }
  const slow = oldestSeconds > waitingSecondsMax
  return slow ? { ...figures, status: 'degraded', message: `Work waits since ${oldestSeconds} s.` } : figures
}
