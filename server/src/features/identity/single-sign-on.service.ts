import { randomBytes } from 'node:crypto'
import type { ProvenIdentity } from '../../adapters/identity-provider/identity-provider.ts'
import { audited } from '../../platform/audit.ts'
import type { AnonymousCtx } from '../../platform/context.ts'
import type { Tx } from '../../platform/db/transaction.ts'
import { forbidden } from '../../platform/errors.ts'
import { transaction } from '../../platform/transaction.ts'
import { grantRole, removeRole } from '../members/members.api.ts'
import { findTenantByCode } from '../tenants/tenants.api.ts'
import { findByIdentity, linkIdentity } from './external-identities.store.ts'
import { type Entitlement, entitlementOf, type GroupGrant } from './group-roles.ts'
import { findUserByEmail, insertUser, lockActiveSuperusers, type UserRow, updateUser } from './identity.store.ts'
import { openSession } from './login.service.ts'
import { hashPassword } from './passwords.ts'
import type { TokenSigner } from './tokens.ts'

export interface SignOnRules {
  grants: GroupGrant[]
  /** Addresses of this provider count as verified though it does not say so. */
  trustsAddresses: boolean
}

/**
 * Signs in whom the provider vouches for. The first time, the account with the same verified address is taken, or one is
 * made for somebody whose groups give a role; afterwards the provider's own name for the person decides, whatever the
 * address. Roles that the groups speak of follow the groups at every login. Throws `forbidden`.
 * @source OpenID Connect Core 1.0 §5.7 (sub, not email, identifies)
 */
export async function signOn(
  ctx: AnonymousCtx,
  signer: TokenSigner,
  identity: ProvenIdentity,
  rules: SignOnRules,
  userAgent: string | null,
): Promise<{ token: string; lifetimeSeconds: number }> {
  const entitlement = entitlementOf(rules.grants, identity.groups)
  // Nobody can sign in by a password that nobody knows.
  const passwordHash = await hashPassword(randomBytes(32).toString('base64url'))
  return transaction(ctx, async (tx) => {
    const user =
      (await findByIdentity(tx, identity.issuer, identity.subject)) ??
      (await firstSignOn(tx, identity, entitlement, rules, passwordHash))
    if (!user.isActive) throw forbidden('This account is switched off.')
    await follow(tx, user, entitlement)
    audited(ctx, user.email, { issuer: identity.issuer })
    return openSession(tx, ctx, signer, user, userAgent)
  })
}

async function firstSignOn(
  tx: Tx,
  { issuer, subject, email, emailVerified, name }: ProvenIdentity,
  entitlement: Entitlement,
  rules: SignOnRules,
  passwordHash: string,
): Promise<UserRow> {
  if (!email || !(emailVerified || rules.trustsAddresses))
    throw forbidden('The identity provider does not vouch for your e-mail address.')
  const user = (await findUserByEmail(tx, email)) ?? (await newUser(tx, email, name, entitlement, passwordHash))
  await linkIdentity(tx, issuer, subject, user.id)
  return user
}

async function newUser(tx: Tx, email: string, fullName: string | null, entitlement: Entitlement, passwordHash: string) {
  const entitled = entitlement.globalAdministrator || [...entitlement.roles.values()].some((role) => role !== null)
  if (!entitled) throw forbidden('None of your groups gives access; ask an administrator.')
  return (await insertUser(tx, { email, passwordHash, fullName, isVerified: true }))!
}

async function follow(tx: Tx, user: UserRow, { roles, globalAdministrator }: Entitlement): Promise<void> {
  for (const [code, role] of roles) {
    const tenant = await findTenantByCode(tx, code)
    if (!tenant) continue
    if (role) await grantRole(tx, tenant.id, user.id, role)
    else await removeRole(tx, tenant.id, user.id)
  }
  if (globalAdministrator === null || globalAdministrator === user.isSuperuser) return
  const administrators = globalAdministrator ? [] : await lockActiveSuperusers(tx)
  // The last one stays, whatever the groups say: nobody else could mend a wrong mapping.
  if (administrators.length === 1) return
  await updateUser(tx, user.id, { isSuperuser: globalAdministrator })
}
