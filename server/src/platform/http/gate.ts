import type { FastifyRequest } from 'fastify'
import type { AnonymousCtx, Ctx, Services, SystemCtx, TenantCtx, UserCtx } from '../context.ts'
import { badRequest, forbidden, notFound, type PlatformError, unauthorized } from '../errors.ts'
import { type Authenticator, isSameOrigin, presentedTokens, tenantSelector } from './credentials.ts'
import type { Operation } from './operation.ts'
import { type Permission, permissions, permissionsOf } from './permissions.ts'

const safeMethods = new Set(['GET', 'HEAD', 'OPTIONS'])
const every: ReadonlySet<Permission> = new Set(Object.keys(permissions) as Permission[])

/**
 * Lets a request through to its operation, or throws: credential (401), superuser (403), tenant chosen (400),
 * tenant known to the caller (404), permission (403), open to the tenant (403), in this order.
 * @source contract B1.1, B3.1, service §7
 */
export async function passGate(
  services: Services,
  authenticator: Authenticator,
  operation: Operation,
  request: FastifyRequest,
): Promise<Ctx> {
  const { access } = operation
  const base = {
    ...services,
    log: request.log as Services['log'],
    requestId: request.id,
    audit: operation.audit ? { action: operation.audit, ip: request.ip, written: false } : null,
  }
  if (access.level === 'none')
    return { ...base, kind: 'anonymous', scope: 'system', ip: request.ip } satisfies AnonymousCtx

  const code = access.level === 'tenant' ? tenantSelector(request) : null
  const login = await authenticator.authenticate(presentedTokens(request), code)
  if (!login) throw unauthorized(undefined, { headers: { 'www-authenticate': 'Bearer' } })
  const { actor } = login
  if (login.byCookie && !safeMethods.has(request.method) && !isSameOrigin(request, services.publicUrl)) {
    throw forbidden('A page of another origin sent this request; writes with the login cookie must come from our own.')
  }
  if (access.level === 'session')
    return { ...base, kind: 'user', scope: 'system', actor, ip: request.ip } satisfies UserCtx
  if (access.level === 'superuser') {
    const ctx = { ...base, kind: 'system', scope: 'system', actor } satisfies SystemCtx
    if (!actor.isSuperuser) throw denied(request, ctx, 'This needs a global administrator.')
    return ctx
  }

  if (!code) throw badRequest('Choose a tenant: send the header X-Tenant or the query parameter tenant.')
  const { tenant } = login
  if (!tenant) throw notFound('There is no such tenant, or you are not a member of it.')
  const granted = actor.isSuperuser ? every : permissionsOf(tenant.role ?? '')
  const ctx = {
    ...base,
    kind: 'tenant',
    scope: { tenantId: tenant.id },
    tenant: { id: tenant.id, code: tenant.code, features: tenant.features },
    actor,
    permissions: granted,
  } satisfies TenantCtx
  if (!tenant.isActive && !actor.isSuperuser) throw denied(request, ctx, 'This tenant is switched off.')
  if (!granted.has(access.permission)) throw denied(request, ctx, `This needs the permission ${access.permission}.`)
  const closed = operation.closedTo?.(ctx.tenant)
  if (closed) throw denied(request, ctx, closed)
  return ctx
}

/** Remembers who was refused, so that the denial can be audited. */
function denied(request: FastifyRequest, ctx: Ctx, why: string | PlatformError) {
  request.deniedCtx = ctx
  return typeof why === 'string' ? forbidden(why) : why
}

declare module 'fastify' {
  interface FastifyRequest {
    ctx: Ctx | null
    deniedCtx: Ctx | null
  }
}
