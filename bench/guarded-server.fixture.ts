// A platform of one process with two operations besides its own: the same page of datasets with every check a read of a
// tenant passes, and the same query without any of them. Prints where it listens, and the headers of a caller.
import { CamelCasePlugin, Kysely, PostgresDialect, sql } from 'kysely'
import pg from 'pg'
import { Type } from 'typebox'
import { listDatasets } from '../server/src/features/datasets/datasets.store.ts'
import { sessionAuthenticator } from '../server/src/features/identity/authenticator.ts'
import { tokenSigner } from '../server/src/features/identity/tokens.ts'
import { startInstance } from '../server/src/instance.ts'
import { processConfig } from '../server/src/platform/config.ts'
import type { DB } from '../server/src/platform/db/database.generated.ts'
import { type Tx, transaction } from '../server/src/platform/db/transaction.ts'
import { anybody, tenant } from '../server/src/platform/http/access.ts'
import { operation } from '../server/src/platform/http/operation.ts'
import { buildServer } from '../server/src/platform/http/server.ts'
import { createLog } from '../server/src/platform/log.ts'
import { createMetrics } from '../server/src/platform/metrics.ts'
import { anyJson } from '../server/src/platform/schema.ts'
import { installationKey } from '../server/src/platform/secrets.ts'
import { read } from '../server/src/platform/transaction.ts'

const datasets = 2000
const config = processConfig()
const instance = await startInstance(config, { log: createLog('error') })
const { services, url } = instance
const { id: tenantId } = await transaction(services.db, 'system', async (tx) => {
  const { id } = await tx.selectFrom('tenants').select('id').executeTakeFirstOrThrow()
  await sql`
    insert into datasets (tenant_id, id, name, source, created_by, created_at)
    select ${id}, 'set-' || n, 'Dataset ' || md5(n::text), 'source-' || n % 10, 'bench', now() - n * interval '1 s'
    from generate_series(1, ${datasets}::int) n`.execute(tx)
  return { id }
})
const pageSize = Number(process.argv[2])
const page = (tx: Tx) =>
  listDatasets(tx, tenantId, { page: 1, page_size: pageSize }, { key: 'created_at', direction: 'desc' })

// Who owns the tables is not held up by row-level security.
const pool = new pg.Pool({ connectionString: services.db.ownerUrl, max: config.databasePoolSize })
// The embedded server ends first.
pool.on('error', () => {})
await pool.query('vacuum analyze datasets')
const unchecked = new Kysely<DB>({
  dialect: new PostgresDialect({ pool }),
  plugins: [new CamelCasePlugin({ maintainNestedObjectKeys: true })],
}) as unknown as Tx

const responses = { 200: Type.Object({ items: Type.Array(anyJson('A dataset.')), total: Type.Integer() }) }
const shape = { method: 'GET', responses, summary: 'A page of datasets.' } as const
const app = await buildServer({
  services,
  operations: [
    operation({
      ...shape,
      id: 'bench.checked',
      path: '/checked',
      access: tenant('VIEW'),
      handler: (ctx) => read(ctx, page),
    }),
    operation({ ...shape, id: 'bench.open', path: '/open', access: anybody, handler: () => page(unchecked) }),
  ],
  authenticator: sessionAuthenticator(services.db, tokenSigner(await installationKey(config.dataDir, 'login.key'))),
  metrics: createMetrics(),
})
await app.listen({ port: 0, host: '127.0.0.1' })
const form = new URLSearchParams({ username: config.adminEmail, password: config.adminPassword! })
const login = await fetch(`${url}/auth/jwt/login`, { method: 'POST', body: form })
const { access_token } = (await login.json()) as { access_token: string }
const headers = { authorization: `Bearer ${access_token}`, 'x-tenant': 'default' }
const address = app.server.address() as { port: number }
process.stdout.write(`${JSON.stringify({ port: address.port, headers })}\n`)
process.once('SIGTERM', async () => {
  await app.close()
  await pool.end()
  await instance.stop()
  process.exit(0)
})
