import type { FastifyRequest } from 'fastify'
import { writeAudit } from '../../../platform/audit.ts'
import type { Services, TenantCtx } from '../../../platform/context.ts'
import { transaction as scoped, type Tx } from '../../../platform/db/transaction.ts'
import type { Permission } from '../../../platform/http/permissions.ts'
import { findRepository, isSharedWith } from '../repositories.store.ts'
import { sharedNamespace } from '../repository-names.ts'
import type { TokenHolder } from '../token-access.ts'
import { basicPassword } from '../token-secret.ts'
import { ociError } from './oci-errors.ts'
import { type OciRoute, rightOf } from './oci-paths.ts'
import type { OciRegistry } from './oci-registry.ts'

/** One request of a client that has shown a live token. */
export interface OciCall {
  registry: OciRegistry
  request: FastifyRequest
  query: URLSearchParams
  ctx: TenantCtx
  /** The repository lies in the reserved namespace. */
  shared: boolean
  /** Looks at what the request may see: its tenant, or a shared repository. */
  look<T>(work: (tx: Tx) => Promise<T>): Promise<T>
}

export const challenge = 'Basic realm="MLOps registry"'

/** Throws UNAUTHORIZED with the challenge, or DENIED for a tenant that is switched off. @source contract B9.1–B9.3 */
export async function authenticate(registry: OciRegistry, request: FastifyRequest): Promise<OciCall> {
  const password = basicPassword(request.headers.authorization)
  const holder = password ? await registry.tokens.holderOf(password, request.ip) : null
  if (!holder) throw ociError('UNAUTHORIZED', { headers: { 'www-authenticate': challenge } })
  registry.counters.used(holder.tokenId)
  if (!holder.tenantIsActive && !holder.actor.isSuperuser) {
    throw ociError('DENIED', { message: 'This tenant is switched off.' })
  }
  if (!holder.hasRegistry) throw ociError('DENIED', { message: 'The registry is switched off for this tenant.' })
  const ctx = contextOf(registry.services, request, holder)
  const queryAt = request.url.indexOf('?')
  return {
    registry,
    request,
    ctx,
    shared: false,
    query: new URLSearchParams(queryAt < 0 ? '' : request.url.slice(queryAt + 1)),
    look: (work) => scoped(ctx.db, ctx.scope, work),
  }
}

function contextOf(services: Services, request: FastifyRequest, holder: TokenHolder): TenantCtx {
  return {
    ...services,
    log: request.log as Services['log'],
    requestId: request.id,
    audit: null,
    kind: 'tenant',
    scope: { tenantId: holder.tenant.id },
    tenant: holder.tenant,
    actor: holder.actor,
    permissions: holder.permissions,
  }
}

const neededPermission: Record<ReturnType<typeof rightOf>, Permission> = {
  pull: 'VIEW',
  push: 'DEVELOP',
  delete: 'DEVELOP',
}

/**
 * The call as it may go on with the route. Throws DENIED without the right, and for every repository outside of the
 * tenant, whether it is there or not. @source contract B9.3
 */
export async function authorize(call: OciCall, route: OciRoute): Promise<OciCall> {
  const right = rightOf(route)
  const audit = auditActionOf(route)
  const ctx: TenantCtx = audit
    ? { ...call.ctx, audit: { action: audit, ip: call.request.ip, written: false } }
    : call.ctx
  const name = 'name' in route ? route.name : null
  const own = name === null || name.startsWith(`${ctx.tenant.code}/`)
  const permitted = ctx.permissions.has(neededPermission[right])
  if (own && permitted) return { ...call, ctx }
  if (permitted && right === 'pull' && (await isShared(call, name))) {
    return { ...call, shared: true, look: (work) => scoped(ctx.db, 'system', work) }
  }
  if (audit) await auditDenial(ctx, call.request)
  throw ociError('DENIED')
}

async function isShared(call: OciCall, name: string | null): Promise<boolean> {
  if (!name?.startsWith(`${sharedNamespace}/`)) return false
  return scoped(call.ctx.db, 'system', async (tx) => {
    const repository = await findRepository(tx, name)
    return repository !== undefined && isSharedWith(tx, repository.id, call.ctx.tenant.id)
  })
}

function auditActionOf(route: OciRoute): string | null {
  if (route.kind === 'manifest' && route.method === 'PUT') return 'registry.push'
  if (route.kind === 'manifest' && route.method === 'DELETE') {
    return 'tag' in route.reference ? 'registry.tag.delete' : 'registry.manifest.delete'
  }
  return route.kind === 'blob' && route.method === 'DELETE' ? 'registry.blob.delete' : null
}

async function auditDenial(ctx: TenantCtx, request: FastifyRequest): Promise<void> {
  ctx.audit!.detail = { path: request.url.split('?')[0] }
  await scoped(ctx.db, ctx.scope, (tx) => writeAudit(tx, ctx, 'denied'))
}
