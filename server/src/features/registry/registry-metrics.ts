import { Gauge, type Registry } from 'prom-client'
import type { Services } from '../../platform/context.ts'
import { transaction } from '../../platform/db/transaction.ts'
import { summariseTenants, type TenantSummary } from './repositories.store.ts'

/** Scrapes in between are answered from memory: the sums read whole tables. */
const freshMs = 15_000

/** What each tenant has in the registry, and how often it is pulled, for GET /metrics. */
export function registerRegistryMetrics(registry: Registry, services: Services): void {
  let summaries: Promise<TenantSummary[]> = Promise.resolve([])
  let readAt = 0
  const read = () => {
    if (Date.now() - readAt > freshMs) {
      readAt = Date.now()
      summaries = transaction(services.db, 'system', summariseTenants)
      // Seen where it is awaited; the next scrape tries again.
      summaries.catch(() => {
        readAt = 0
      })
    }
    return summaries
  }
  const gauge = (name: string, help: string, value: (summary: TenantSummary) => number) =>
    new Gauge({
      name: `platform_mlops_registry_${name}`,
      help,
      labelNames: ['tenant'],
      registers: [registry],
      async collect() {
        this.reset()
        for (const summary of await read()) this.set({ tenant: summary.tenant }, value(summary))
      },
    })
  gauge('repositories', 'Repositories.', ({ repositories }) => repositories)
  gauge('stored_bytes', 'Blobs and manifests, each once.', ({ bytes }) => bytes)
  gauge('pulls', 'Manifests handed out since the repositories were made.', ({ pulls }) => pulls)
  gauge('open_uploads', 'Uploads that have not ended.', ({ uploads }) => uploads)
}
