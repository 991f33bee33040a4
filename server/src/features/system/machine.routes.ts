import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, extname, join } from 'node:path'
import { Type } from 'typebox'
import type { AnonymousCtx } from '../../platform/context.ts'
import { notFound, serviceUnavailable } from '../../platform/errors.ts'
import { anybody } from '../../platform/http/access.ts'
import { Answer } from '../../platform/http/answer.ts'
import { type Operation, operation, raw } from '../../platform/http/operation.ts'
import type { HttpMetrics } from '../../platform/metrics.ts'
import { openapiDocument } from '../../platform/openapi.ts'
import { anyObject, named } from '../../platform/schema.ts'
import { docsPage, docsPolicy, docsScript } from './docs-page.ts'
import { askDatabase } from './machine.store.ts'

const Health = named('Health', { status: Type.String({ description: 'Always `ok`; anything else is an error.' }) })

/** What machines read: description, liveness, readiness, metrics. @source service §9, contract ME, PR-65–PR-67 */
export function machineRoutes(all: () => Operation[], metrics: HttpMetrics): Operation[] {
  let document: string | null = null
  return [
    operation({
      id: 'machine.openapi',
      method: 'GET',
      path: '/openapi.json',
      summary: 'This description, as OpenAPI 3.1.',
      access: anybody,
      responses: { 200: anyObject('An OpenAPI 3.1 document.') },
      handler: async (ctx) => {
        document ??= JSON.stringify(openapiDocument(all(), ctx.publicUrl))
        return new Answer({ headers: { 'content-type': 'application/json; charset=utf-8' }, body: document })
      },
    }),
    operation({
      id: 'machine.docs',
      method: 'GET',
      path: '/docs',
      summary: 'This description, as interactive pages.',
      access: anybody,
      responses: { 200: raw('text/html', 'Interactive documentation.') },
      handler: async () =>
        new Answer({
          headers: { 'content-type': 'text/html; charset=utf-8', 'content-security-policy': docsPolicy },
          body: docsPage,
        }),
    }),
    operation({
      id: 'machine.docsAsset',
      method: 'GET',
      path: '/docs/assets/{name}',
      summary: 'Scripts and styles of the interactive pages.',
      access: anybody,
      responses: { 200: raw('application/octet-stream', 'The file.') },
      errors: { 404: 'No such file.' },
      handler: async (_ctx, { params }) => docsAsset(params.name!),
    }),
    operation({
      id: 'machine.healthz',
      method: 'GET',
      path: '/healthz',
      summary: 'The process is alive.',
      access: anybody,
      responses: { 200: Health },
      handler: async () => ({ status: 'ok' }),
    }),
    operation({
      id: 'machine.readyz',
      method: 'GET',
      path: '/readyz',
      summary: 'Database and object store can be reached.',
      access: anybody,
      responses: { 200: Health },
      errors: { 503: 'One of them does not answer; detail says which.' },
      handler: async (ctx) => {
        await probe(ctx)
        return { status: 'ok' }
      },
    }),
    operation({
      id: 'machine.metrics',
      method: 'GET',
      path: '/metrics',
      summary: 'Measurements of the platform itself, as Prometheus text.',
      access: anybody,
      responses: { 200: raw('text/plain', 'Prometheus text format 0.0.4.') },
      handler: async () =>
        new Answer({
          headers: { 'content-type': metrics.registry.contentType },
          body: await metrics.registry.metrics(),
        }),
    }),
  ]
}

async function probe(ctx: AnonymousCtx): Promise<void> {
  const faults = Object.entries({
    database: await reason(askDatabase(ctx.db)),
    object_store: await reason(ctx.blobs.check()),
  }).filter(([, fault]) => fault !== null)
  if (faults.length) throw serviceUnavailable(undefined, { detail: Object.fromEntries(faults) })
}

const reason = (check: Promise<unknown>): Promise<string | null> =>
  check.then(
    () => null,
    (error: Error) => error.message || 'does not answer',
  )

const assetFolder = dirname(createRequire(import.meta.url).resolve('swagger-ui-dist/package.json'))
const assetTypes: Record<string, string> = { '.js': 'text/javascript', '.css': 'text/css', '.png': 'image/png' }

/** Only the files named here leave the package's folder. */
async function docsAsset(name: string): Promise<Answer> {
  if (name === 'start.js') return new Answer({ headers: { 'content-type': 'text/javascript' }, body: docsScript })
  if (!['swagger-ui-bundle.js', 'swagger-ui.css', 'favicon-32x32.png'].includes(name)) throw notFound()
  const headers = { 'content-type': assetTypes[extname(name)]!, 'cache-control': 'public, max-age=86400' }
  return new Answer({ headers, body: await readFile(join(assetFolder, name)) })
}
