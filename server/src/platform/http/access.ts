import type { AnonymousCtx, SystemCtx, TenantCtx, UserCtx } from '../context.ts'
import type { Permission } from './permissions.ts'

/** Who may call an operation; it decides which context the handler gets. @source service §5, contract B1.1 */
export type Access =
  | { level: 'none' }
  | { level: 'session' }
  | { level: 'superuser' }
  | { level: 'tenant'; permission: Permission }

/** Anybody, signed in or not. */
export const anybody = { level: 'none' } as const satisfies Access
/** Anybody signed in; no tenant is chosen. */
export const session = { level: 'session' } as const satisfies Access
/** Global administrators; no tenant is chosen. */
export const superuser = { level: 'superuser' } as const satisfies Access
/** Members of the chosen tenant whose role holds the permission. */
export const tenant = (permission: Permission) => ({ level: 'tenant', permission }) as const satisfies Access

export type CtxOf<A extends Access> = A extends { level: 'none' }
  ? AnonymousCtx
  : A extends { level: 'session' }
    ? UserCtx
    : A extends { level: 'superuser' }
      ? SystemCtx & { actor: NonNullable<SystemCtx['actor']> }
      : TenantCtx
