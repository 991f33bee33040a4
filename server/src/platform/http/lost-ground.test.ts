import type { FastifyInstance } from 'fastify'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startTestPlatform, type TestClient, type TestPlatform } from '../../../test/harness.ts'
import { sessionAuthenticator } from '../../features/identity/authenticator.ts'
import { tokenSigner } from '../../features/identity/tokens.ts'
import { type Tx, transaction } from '../db/transaction.ts'
import { newId } from '../ids.ts'
import { createMetrics } from '../metrics.ts'
import { installationKey } from '../secrets.ts'
import { session, superuser, tenant } from './access.ts'
import { operation } from './operation.ts'
import { buildServer } from './server.ts'

// Operations in the middle of which something is deleted that their rows refer to.

let platform: TestPlatform
let app: FastifyInstance
let url: string

const system = (work: (tx: Tx) => Promise<unknown>) => transaction(platform.services.db, 'system', work)
const refer = (userId: string) =>
  system((tx) => tx.insertInto('notificationPreferences').values({ userId, prefs: '{}' }).execute())
const common = { method: 'GET', summary: 'test', responses: { 204: null } } as const

const operations = [
  operation({
    ...common,
    id: 't.self',
    path: '/self',
    access: session,
    handler: async ({ actor }) => {
      await system((tx) => tx.deleteFrom('users').where('id', '=', actor.userId).execute())
      await refer(actor.userId)
    },
  }),
  operation({
    ...common,
    id: 't.other',
    path: '/other/{user_id}',
    access: superuser,
    handler: async (_ctx, { params }) => {
      await refer(params.user_id!)
    },
  }),
  operation({
    ...common,
    id: 't.tenant',
    path: '/tenant',
    access: tenant('VIEW'),
    handler: async (ctx) => {
      await system((tx) => tx.deleteFrom('tenants').where('id', '=', ctx.tenant.id).execute())
      const membership = { tenantId: ctx.tenant.id, userId: platform.admin.userId, role: 'VIEWER' }
      await transaction(ctx.db, ctx.scope, (tx) => tx.insertInto('memberships').values(membership).execute())
    },
  }),
  operation({
    ...common,
    id: 't.fault',
    path: '/fault',
    access: superuser,
    handler: async () => {
      const step = { runId: newId(), stepId: 'x', position: 0, title: 'x', tenantId: null }
      await system((tx) => tx.insertInto('runSteps').values(step).execute())
    },
  }),
]

beforeAll(async () => {
  platform = await startTestPlatform({ PLATFORM_MLOPS_ROLES: 'web' })
  const { services } = platform
  const signer = tokenSigner(await installationKey(platform.dataDir, 'login.key'))
  const authenticator = sessionAuthenticator(services.db, signer)
  app = await buildServer({ services, operations, authenticator, metrics: createMetrics(), strict: true })
  url = await app.listen({ port: 0, host: '127.0.0.1' })
})
afterAll(async () => {
  await app?.close()
  await platform?.stop()
})

async function ask(path: string, { token }: TestClient) {
  const reply = await fetch(url + path, { headers: { authorization: `Bearer ${token}`, 'x-tenant': 'gone' } })
  return { status: reply.status, headers: reply.headers, body: JSON.parse(await reply.text()) }
}

describe('a row that refers to what was deleted meanwhile', () => {
  test('401 when it is who sent the request', async () => {
    const reply = await ask('/self', await platform.member('default', 'VIEWER'))
    expect([reply.status, reply.body.code]).toEqual([401, 'unauthorized'])
    expect(reply.headers.get('www-authenticate')).toBe('Bearer')
  })

  test('404 when it is another user, or the tenant', async () => {
    expect((await ask(`/other/${newId()}`, platform.admin)).body).toMatchObject({
      code: 'not_found',
      message: 'There is no such user.',
    })
    await platform.tenant('gone')
    const member = await platform.member('gone', 'VIEWER')
    const reply = await ask('/tenant', member)
    expect([reply.status, reply.body.message]).toEqual([404, 'There is no such tenant, or you are not a member of it.'])
  })

  test('500 when nobody can have deleted it: a fault of ours stays one', async () => {
    expect((await ask('/fault', platform.admin)).status).toBe(500)
  })
})
