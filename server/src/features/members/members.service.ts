import { audited } from '../../platform/audit.ts'
import type { TenantCtx } from '../../platform/context.ts'
import type { Tx } from '../../platform/db/transaction.ts'
import { forbidden, notFound } from '../../platform/errors.ts'
import type { ListQuery } from '../../platform/http/lists.ts'
import type { Role } from '../../platform/http/permissions.ts'
import { read, transaction } from '../../platform/transaction.ts'
import { createAccount, findAccountByEmail, getAccount, newPasswordHash } from '../identity/identity.api.ts'
import { deleteMembership, findMember, listMembers, type MemberRow, upsertMembership } from './members.store.ts'

export interface Grant {
  tenant_code?: string | null
  role: Role
}

export const listTenantMembers = (ctx: TenantCtx, query: ListQuery) =>
  read(ctx, (tx) => listMembers(tx, ctx.tenant.id, query))

/** Grants a role to an account that exists. Throws `not_found` for an unknown address. @source contract B2.13 */
export function inviteMember(ctx: TenantCtx, invitation: Grant & { email: string }): Promise<MemberRow> {
  refuseOtherTenant(ctx, invitation.tenant_code)
  const { email, role } = invitation
  audited(ctx, email, { role })
  return transaction(ctx, async (tx) => {
    const account = await findAccountByEmail(tx, email)
    if (!account) throw notFound('There is no account with this address; create it.')
    return grant(ctx, tx, account.id, role)
  })
}

export async function createMember(
  ctx: TenantCtx,
  member: Grant & { email: string; password: string },
): Promise<MemberRow> {
  refuseOtherTenant(ctx, member.tenant_code)
  const { email, role } = member
  const passwordHash = await newPasswordHash(member.password, email)
  audited(ctx, email, { role })
  return transaction(ctx, async (tx) => {
    const account = await createAccount(tx, email, passwordHash)
    return grant(ctx, tx, account.id, role)
  })
}

export function assignRole(ctx: TenantCtx, userId: string, { tenant_code, role }: Grant): Promise<MemberRow> {
  refuseOtherTenant(ctx, tenant_code)
  return transaction(ctx, async (tx) => {
    const account = await getAccount(tx, userId)
    const former = await findMember(tx, ctx.tenant.id, userId)
    audited(ctx, account.email, { role, former_role: former?.role ?? null })
    return grant(ctx, tx, userId, role)
  })
}

/** Throws `not_found` when the user is no member. @source contract B2.13 */
export async function removeMember(ctx: TenantCtx, userId: string, tenantCode: string | undefined): Promise<void> {
  refuseOtherTenant(ctx, tenantCode)
  await transaction(ctx, async (tx) => {
    const member = await findMember(tx, ctx.tenant.id, userId)
    if (!member || !(await deleteMembership(tx, ctx.tenant.id, userId)))
      throw notFound('This user has no role in the tenant.')
    audited(ctx, member.email, { former_role: member.role })
  })
}

async function grant(ctx: TenantCtx, tx: Tx, userId: string, role: Role): Promise<MemberRow> {
  await upsertMembership(tx, ctx.tenant.id, userId, role)
  return (await findMember(tx, ctx.tenant.id, userId))!
}

/** @source contract B2.13, B3.2 */
function refuseOtherTenant(ctx: TenantCtx, code: string | null | undefined): void {
  if (code && code.trim().toLowerCase() !== ctx.tenant.code)
    throw forbidden('Roles of another tenant are managed there: choose it by X-Tenant.')
}
