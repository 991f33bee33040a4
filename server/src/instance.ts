import { mkdir } from 'node:fs/promises'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import type { FastifyInstance } from 'fastify'
import { localCompute } from './adapters/compute/local/local.driver.ts'
import { externalSources } from './adapters/external-sources/drivers.ts'
import { layersImageBuilder } from './adapters/image-builder/layers/layers.driver.ts'
import { createFeatures, operationsOf } from './app.ts'
import { sessionAuthenticator } from './features/identity/authenticator.ts'
import { type FirstStart, prepareFirstStart } from './features/identity/first-start.ts'
import { tokenSigner } from './features/identity/tokens.ts'
import { fileBlobStore } from './platform/blobs/file-blob-store.ts'
import { systemClock } from './platform/clock.ts'
import type { Config } from './platform/config.ts'
import type { Services } from './platform/context.ts'
import { type Database, openDatabase } from './platform/db/database.ts'
import { openEventHub } from './platform/events/events.ts'
import { buildServer } from './platform/http/server.ts'
import { createLog, type Log } from './platform/log.ts'
import { createMetrics } from './platform/metrics.ts'
import { startWorker, type Worker } from './platform/runs/worker.ts'
import { installationKey, openSecretBox } from './platform/secrets.ts'

const lastRequestsMs = 10_000

export interface Instance {
  services: Services
  app: FastifyInstance | null
  /** Address the server answers at; null for a pure worker. */
  url: string | null
  firstStart: FirstStart | null
  /** Ends in order: no new requests, running work handed over, connections closed. Jobs on the compute go on. */
  stop(): Promise<void>
}

export interface InstanceOptions {
  /** Tests bring their own database. */
  database?: Database
  log?: Log
  strict?: boolean
  onFatal?: (error: Error) => void
}

/** Starts one process of the platform in the roles of its configuration. */
export async function startInstance(config: Config, options: InstanceOptions = {}): Promise<Instance> {
  const closers: (() => Promise<unknown>)[] = []
  const stop = async () => {
    const faults: unknown[] = []
    // What cannot be closed must not keep the rest open: the database comes last.
    for (const close of closers.splice(0).reverse()) await close().catch((error) => faults.push(error))
    if (faults.length > 0) throw faults[0]
  }
  try {
    const services = await openServices(config, options, closers)
    const metrics = createMetrics()
    const signer = tokenSigner(await installationKey(config.dataDir, 'login.key'))
    const features = createFeatures({ config, signer, metrics })
    const firstStart = await prepareFirstStart(services)

    const app = config.roles.has('web')
      ? await buildServer({
          services,
          operations: operationsOf(features),
          authenticator: sessionAuthenticator(services.db, signer),
          metrics,
          strict: options.strict ?? false,
        })
      : null
    for (const feature of features) {
      await feature.start?.(services)
      feature.metrics?.(metrics.registry, services)
      if (app) await feature.protocol?.(app, services)
    }
    const url = app ? await listen(app, services) : null
    if (app) closers.push(() => closeServer(app))
    if (config.roles.has('worker')) {
      const worker: Worker = await startWorker({
        services,
        kinds: features.flatMap((feature) => feature.runs ?? []),
        schedules: features.flatMap((feature) => feature.schedules ?? []),
      })
      closers.push(() => worker.stop())
    }
    return { services, app, url, firstStart, stop }
  } catch (error) {
    await stop().catch(() => undefined)
    throw error
  }
}

async function openServices(
  config: Config,
  options: InstanceOptions,
  closers: (() => Promise<unknown>)[],
): Promise<Services> {
  const log = options.log ?? createLog(config.logLevel)
  const folder = (name: string) => join(config.dataDir, name)
  await mkdir(config.dataDir, { recursive: true, mode: 0o700 })
  const db =
    options.database ??
    (await openDatabase({
      url: config.databaseUrl ?? undefined,
      folder: folder('database'),
      log,
      poolSize: config.databasePoolSize,
      ...(options.onFatal ? { onFatal: options.onFatal } : {}),
    }))
  if (!options.database) closers.push(() => db.close())
  const events = await openEventHub(db, log)
  closers.push(() => events.close())
  const blobs = await fileBlobStore({ folder: folder('blobs'), log })
  const compute = await localCompute({ folder: folder('compute'), log })
  const imageBuilder = layersImageBuilder({ store: blobs, cacheFolder: folder('image-layers') })
  return {
    config,
    publicUrl: config.publicUrl ?? `http://${config.host}:${config.port}`,
    db,
    blobs,
    secrets: await openSecretBox(config),
    events,
    clock: systemClock,
    log,
    adapters: { compute, imageBuilder, externalSources: externalSources(config) },
  }
}

/** Requests under way get their time; a connection that was opened and never used would hold the end up for a minute. */
async function closeServer(app: FastifyInstance): Promise<void> {
  const timer = setTimeout(() => app.server.closeAllConnections(), lastRequestsMs)
  await app.close().finally(() => clearTimeout(timer))
}

async function listen(app: FastifyInstance, services: Services): Promise<string> {
  const { config } = services
  await app.listen({ host: config.host, port: config.port }).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EADDRINUSE') throw error
    throw new Error(
      `Port ${config.port} of ${config.host} is in use. Set PLATFORM_MLOPS_PORT to another one (0 takes any).`,
    )
  })
  const { port } = app.server.address() as AddressInfo
  const host = config.host.includes(':') ? `[${config.host}]` : config.host
  const url = `http://${host}:${port}`
  services.publicUrl = config.publicUrl ?? url
  return url
}
