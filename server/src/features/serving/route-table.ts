import type { Services, TenantCtx } from '../../platform/context.ts'
import { read } from '../../platform/transaction.ts'
import { type EndpointRow, findEndpoint } from './endpoints.store.ts'
import { listReplicas } from './replicas.store.ts'
import { routesChannel } from './serving-events.ts'

/** A replica that takes requests. */
export interface Target {
  address: string
  /** Requests of this process that it is answering. */
  busy: number
}

/** Where the requests of an endpoint go. */
export interface Route {
  endpoint: Pick<EndpointRow, 'id' | 'name' | 'state'>
  targets: Target[]
}

export interface RouteTable {
  /** Null when the tenant has no endpoint of that name. */
  find(ctx: TenantCtx, name: string): Promise<Route | null>
  /** Hears of changes, until the function it returns is called. */
  listen(services: Services): () => void
}

/** How long a route may be used when no notification of a change came; less than `settleMs`. */
const routeMaxAgeMs = 2000

interface Entry {
  route: Promise<Route | null>
  loadedAt: number
}

/** The routes of this process: read from the database, dropped at once when something changes, and never older than 2 s. */
export function routeTable(): RouteTable {
  const entries = new Map<string, Entry>()
  const targets = new Map<string, Target>()

  const target = (address: string): Target => {
    const known = targets.get(address) ?? { address, busy: 0 }
    targets.set(address, known)
    return known
  }
  const load = async (ctx: TenantCtx, name: string): Promise<Route | null> => {
    const found = await read(ctx, async (tx) => {
      const endpoint = await findEndpoint(tx, ctx.tenant.id, name)
      return endpoint && { endpoint, replicas: await listReplicas(tx, endpoint) }
    })
    if (!found) return null
    const takes = found.endpoint.desired === 'RUNNING'
    const addresses = found.replicas.flatMap(({ state, address }) => (state === 'READY' && address ? [address] : []))
    return { endpoint: found.endpoint, targets: takes ? addresses.map(target) : [] }
  }
  const forget = () => {
    const old = Date.now() - routeMaxAgeMs
    for (const [key, { loadedAt }] of entries) if (loadedAt < old) entries.delete(key)
    const used = new Set([...targets.values()].filter(({ busy }) => busy > 0).map(({ address }) => address))
    for (const address of targets.keys()) if (!used.has(address)) targets.delete(address)
  }

  return {
    find(ctx, name) {
      const key = keyOf(ctx.tenant.id, name)
      const known = entries.get(key)
      if (known && Date.now() - known.loadedAt < routeMaxAgeMs) return known.route
      const entry = { route: load(ctx, name), loadedAt: Date.now() }
      entries.set(key, entry)
      // A failure is told to those who wait for it, and tried again by the next.
      entry.route.catch(() => entries.get(key) === entry && entries.delete(key))
      return entry.route
    },
    listen({ events }) {
      const unsubscribe = events.subscribe(routesChannel, ({ data }) => {
        const { tenantId, name } = data as { tenantId: string; name: string }
        entries.delete(keyOf(tenantId, name))
      })
      const timer = setInterval(forget, 60_000).unref()
      return () => {
        unsubscribe()
        clearInterval(timer)
      }
    },
  }
}

const keyOf = (tenantId: string, name: string) => `${tenantId}/${name}`
