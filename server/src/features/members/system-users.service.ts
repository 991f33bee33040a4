import { audited } from '../../platform/audit.ts'
import type { SystemCtx } from '../../platform/context.ts'
import type { Tx } from '../../platform/db/transaction.ts'
import { invalid, notFound } from '../../platform/errors.ts'
import type { ListQuery } from '../../platform/http/lists.ts'
import type { Role } from '../../platform/http/permissions.ts'
import { read, transaction } from '../../platform/transaction.ts'
import {
  type Account,
  createAccount,
  findAccountByEmail,
  getAccount,
  newPasswordHash,
  refuseOwnAccount,
  removeAccount,
  setAccountActive,
  setGlobalAdministrator,
} from '../identity/identity.api.ts'
import { findTenantByCode } from '../tenants/tenants.api.ts'
import {
  type AccountRow,
  deleteMembership,
  findAccountWithRoles,
  listAccounts,
  upsertMembership,
} from './members.store.ts'

export interface SystemGrant {
  tenant_code: string
  role: Role
}

export const listSystemUsers = (ctx: SystemCtx, query: ListQuery & { tenant?: string }) =>
  read(ctx, (tx) => listAccounts(tx, query, query.tenant))

/** Throws `not_found` for an unknown address. @source contract B2.13 */
export function inviteSystemUser(ctx: SystemCtx, invitation: SystemGrant & { email: string }): Promise<AccountRow> {
  const { email, role, tenant_code } = invitation
  audited(ctx, email, { role, tenant: tenant_code })
  return transaction(ctx, async (tx) => {
    const account = await findAccountByEmail(tx, email)
    if (!account) throw notFound('There is no account with this address; create it.')
    return grant(tx, account.id, invitation)
  })
}

export async function createSystemUser(
  ctx: SystemCtx,
  user: SystemGrant & { email: string; password: string },
): Promise<AccountRow> {
  const { email, role, tenant_code } = user
  const passwordHash = await newPasswordHash(user.password, email)
  audited(ctx, email, { role, tenant: tenant_code })
  return transaction(ctx, async (tx) => grant(tx, (await createAccount(tx, email, passwordHash)).id, user))
}

export function assignSystemRole(ctx: SystemCtx, userId: string, assignment: SystemGrant): Promise<AccountRow> {
  return transaction(ctx, async (tx) => {
    const account = await getAccount(tx, userId)
    audited(ctx, account.email, { role: assignment.role, tenant: assignment.tenant_code })
    return grant(tx, userId, assignment)
  })
}

/** Throws `not_found` when the user has no role there; being global administrator is no such role. @source service §7 */
export async function removeSystemRole(ctx: SystemCtx, userId: string, tenantCode: string): Promise<void> {
  await transaction(ctx, async (tx) => {
    const account = await getAccount(tx, userId)
    const tenant = await findTenantByCode(tx, tenantCode)
    if (!tenant || !(await deleteMembership(tx, tenant.id, userId)))
      throw notFound('This user has no role in that tenant.')
    audited(ctx, account.email, { tenant: tenant.code })
  })
}

/** Leaves the roles in tenants as they are. @source contract B3.3 */
export const setSystemAdministrator = (ctx: SystemCtx, userId: string, isSuperuser: boolean): Promise<AccountRow> =>
  change(ctx, userId, (tx) => setGlobalAdministrator(tx, userId, isSuperuser))

/** Throws `bad_request` for the own account and `conflict` for the last administrator. @source contract B2.12 */
export async function disableSystemUser(ctx: SystemCtx, userId: string): Promise<AccountRow> {
  refuseOwnAccount(ctx.actor?.userId, userId, 'disable')
  return change(ctx, userId, (tx) => setAccountActive(tx, userId, false))
}

export const enableSystemUser = (ctx: SystemCtx, userId: string): Promise<AccountRow> =>
  change(ctx, userId, (tx) => setAccountActive(tx, userId, true))

/** Irreversible. Throws as `disableSystemUser`. @source contract B2.12 */
export async function deleteSystemUser(ctx: SystemCtx, userId: string): Promise<Account> {
  refuseOwnAccount(ctx.actor?.userId, userId, 'delete')
  return transaction(ctx, async (tx) => {
    const account = await getAccount(tx, userId)
    audited(ctx, account.email)
    await removeAccount(tx, userId)
    return account
  })
}

function change(ctx: SystemCtx, userId: string, work: (tx: Tx) => Promise<unknown>): Promise<AccountRow> {
  return transaction(ctx, async (tx) => {
    const account = await getAccount(tx, userId)
    audited(ctx, account.email)
    await work(tx)
    return (await findAccountWithRoles(tx, userId))!
  })
}

async function grant(tx: Tx, userId: string, { tenant_code, role }: SystemGrant): Promise<AccountRow> {
  const tenant = await findTenantByCode(tx, tenant_code)
  if (!tenant)
    throw invalid({
      loc: ['body', 'tenant_code'],
      msg: 'there is no such tenant',
      type: 'value_error',
      input: tenant_code,
    })
  await upsertMembership(tx, tenant.id, userId, role)
  return (await findAccountWithRoles(tx, userId))!
}
