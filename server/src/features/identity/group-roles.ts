import { type Role, roleNames } from '../../platform/http/permissions.ts'

/** What belonging to a group of the identity provider gives: a role in a tenant, or being global administrator. */
export type GroupGrant =
  | { group: string; tenantCode: string; role: Role }
  | { group: string; globalAdministrator: true }

/**
 * Reads `group=tenant:ROLE` and `group=*` (global administrator), separated by semicolons.
 * Throws an error that names the part which is neither.
 */
export function parseGroupRoles(text: string): GroupGrant[] {
  const parts = text.split(';').map((part) => part.trim())
  return parts.filter(Boolean).map((part) => {
    const match = /^(.+)=(?:\*|([a-z0-9-]+):([A-Z]+))$/.exec(part)
    const [, group, tenantCode, role] = match ?? []
    if (!group) throw new Error(`'${part}' is neither group=tenant:ROLE nor group=*`)
    if (!tenantCode) return { group, globalAdministrator: true }
    if (!roleNames.includes(role as Role)) throw new Error(`'${part}': the roles are ${roleNames.join(', ')}`)
    return { group, tenantCode, role: role as Role }
  })
}

export interface Entitlement {
  /** Null: the groups say nothing about it. */
  globalAdministrator: boolean | null
  /** Every tenant that a grant names, with the highest role of the person's groups there, or null for none. */
  roles: Map<string, Role | null>
}

/** What a person with these groups is entitled to. */
export function entitlementOf(grants: GroupGrant[], groups: string[]): Entitlement {
  const held = new Set(groups)
  const entitlement: Entitlement = { globalAdministrator: null, roles: new Map() }
  for (const grant of grants) {
    const member = held.has(grant.group)
    if ('globalAdministrator' in grant) {
      entitlement.globalAdministrator = member || entitlement.globalAdministrator === true
      continue
    }
    const former = entitlement.roles.get(grant.tenantCode) ?? null
    const higher = member && rank(grant.role) > rank(former)
    entitlement.roles.set(grant.tenantCode, higher ? grant.role : former)
  }
  return entitlement
}

const rank = (role: Role | null): number => (role === null ? -1 : roleNames.indexOf(role))
