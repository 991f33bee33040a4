import { readFile, rename, writeFile } from 'node:fs/promises'
import type { AddressInfo } from 'node:net'
import { type Config, readConfig } from './config.ts'
import { createEngine } from './engine.ts'
import { createHttpServer, type HttpServer } from './http-server.ts'
import { createImageDecoder } from './image-decoder.ts'
import { createMetrics, type Metrics } from './metrics.ts'
import { type Model, readModelFolder } from './model-folder.ts'
import { createPredictor, type Predictor } from './predictor.ts'
import { createRoutes } from './routes.ts'

async function main(): Promise<void> {
  const config = readConfig(process.env)
  const metrics = createMetrics()
  const { version } = JSON.parse(await readFile(new URL('../package.json', import.meta.url), 'utf8'))
  let loaded: { model: Model; predictor: Predictor } | undefined
  let isDraining = false
  const routes = createRoutes({
    name: config.modelName,
    version: config.modelVersion,
    serverVersion: version,
    metrics,
    model: () => loaded,
    isDraining: () => isDraining,
  })
  const http = createHttpServer(routes, metrics, config.maxBodyBytes)
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    process.once(signal, () => {
      isDraining = true
      void shutDown(http, config.shutdownGraceMs)
    })
  }
  await listen(http, config)
  loaded = await load(config, metrics)
}

async function listen(http: HttpServer, config: Config): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    http.server.once('error', reject)
    http.server.listen(config.port, config.host, resolve)
  })
  const { port } = http.server.address() as AddressInfo
  if (config.portFile) {
    const partial = `${config.portFile}.${process.pid}`
    await writeFile(partial, `${port}\n`)
    await rename(partial, config.portFile)
  }
  console.log(JSON.stringify({ listening: { host: config.host, port } }))
}

async function load(config: Config, metrics: Metrics): Promise<{ model: Model; predictor: Predictor }> {
  const model = await readModelFolder(config.modelDir)
  const engine = createEngine(model, config, metrics)
  const decoder = createImageDecoder(model, {
    threads: config.workers,
    maxImagePixels: config.maxImagePixels,
    onThreadLost: () => metrics.threadsLost.inc({ kind: 'image' }),
  })
  await Promise.all([engine.started, decoder.started])
  metrics.modelInfo.set(
    {
      name: config.modelName,
      version: config.modelVersion,
      framework: model.framework,
      architecture: model.architecture,
    },
    1,
  )
  return { model, predictor: createPredictor(engine, decoder, { ...config, decoderThreads: config.workers }) }
}

async function shutDown(http: HttpServer, graceMs: number): Promise<void> {
  setTimeout(() => process.exit(1), graceMs)
  await http.idle()
  // The threads hold nothing that must be saved, so ending the process ends them too.
  http.server.close(() => process.exit(0))
  http.server.closeIdleConnections()
}

main().catch((error: Error) => {
  console.error(`model server: ${error.message}`)
  process.exit(1)
})
