import type { FastifyRequest } from 'fastify'
import { coalescing } from '../../../platform/coalescing.ts'
import type { Services, TenantCtx } from '../../../platform/context.ts'
import type { Database } from '../../../platform/db/database.ts'
import { transaction } from '../../../platform/db/transaction.ts'
import { type Permission, permissions, permissionsOf } from '../../../platform/http/permissions.ts'
import { isFeatureOn } from '../../tenants/tenants.api.ts'
import { findTokenLogins, markTokenUsed, type TokenLogin } from '../tokens.store.ts'
import { tokenHash } from '../tracker-tokens.ts'
import { MlflowError, permissionDenied } from './mlflow-errors.ts'
import type { MlflowRoute } from './mlflow-route.ts'

const every: ReadonlySet<Permission> = new Set(Object.keys(permissions) as Permission[])
const usedEveryMs = 60_000

/**
 * Lets a request in by its tracker token, with the rights its owner has in the token's tenant at this moment.
 * Throws UNAUTHENTICATED and PERMISSION_DENIED.
 * @source contract B10.1, B2.12
 */
export async function passTokenGate(
  services: Services,
  request: FastifyRequest,
  route: Pick<MlflowRoute, 'needs' | 'audit'>,
): Promise<TenantCtx> {
  const hash = tokenHash(presentedToken(request) ?? '')
  const login = hash === null ? null : await findLogin(services.db, hash)
  if (!login) {
    throw new MlflowError(
      'UNAUTHENTICATED',
      'No valid tracker token came with the request: set MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_PASSWORD.',
    )
  }
  await noteUse(services, login)
  const granted = login.isSuperuser ? every : permissionsOf(login.role ?? '')
  if (!login.isSuperuser && !login.tenantIsActive) throw permissionDenied('This tenant is switched off.')
  if (!isFeatureOn('tracker', login.tenantFeatures)) {
    throw permissionDenied('The experiment tracker is switched off for this tenant.')
  }
  if (!granted.has(route.needs)) throw permissionDenied(`This needs the permission ${route.needs}.`)
  return tokenContext(services, request, route.audit ?? null, login, granted)
}

type FindLogin = (hash: string) => Promise<TokenLogin | null>

const findersOf = new WeakMap<Database, FindLogin>()

/** Looked up for every request after it came, so that a revoked token is refused at once; in one query for those that come together. */
function findLogin(db: Database, hash: string): Promise<TokenLogin | null> {
  const known = findersOf.get(db) ?? makeFinder(db)
  findersOf.set(db, known)
  return known(hash)
}

const makeFinder = (db: Database): FindLogin =>
  coalescing({
    async work(hashes) {
      const logins = await findTokenLogins(db, [...new Set(hashes)])
      return hashes.map((hash) => logins.get(hash) ?? null)
    },
    fits: () => true,
    isOfOne: () => false,
    lanes: 1,
  })

function presentedToken(request: FastifyRequest): string | null {
  const [, scheme, value] = /^(Bearer|Basic)\s+(\S+)$/i.exec(request.headers.authorization ?? '') ?? []
  if (!scheme || !value) return null
  if (scheme.toLowerCase() === 'bearer') return value
  const pair = Buffer.from(value, 'base64').toString()
  return pair.includes(':') ? pair.slice(pair.indexOf(':') + 1) : null
}

/** To the minute: a write per request would cost more than it tells. */
async function noteUse(services: Services, login: TokenLogin): Promise<void> {
  const now = services.clock.now()
  if (login.lastUsedAt && now.getTime() - login.lastUsedAt.getTime() < usedEveryMs) return
  const { tenantId, tokenId } = login
  await transaction(services.db, { tenantId }, (tx) => markTokenUsed(tx, tenantId, tokenId, now))
}

function tokenContext(
  services: Services,
  request: FastifyRequest,
  action: string | null,
  login: TokenLogin,
  granted: ReadonlySet<Permission>,
): TenantCtx {
  const { userId, email, fullName, isSuperuser } = login
  return {
    ...services,
    log: request.log as Services['log'],
    requestId: request.id,
    audit: action ? { action, ip: request.ip, written: false } : null,
    kind: 'tenant',
    scope: { tenantId: login.tenantId },
    tenant: { id: login.tenantId, code: login.tenantCode },
    actor: { userId, email, fullName, isSuperuser, sessionId: null },
    permissions: granted,
  }
}
