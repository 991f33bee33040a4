import { randomBytes } from 'node:crypto'
import type { Services } from '../../platform/context.ts'
import { transaction } from '../../platform/db/transaction.ts'
import { grantRole } from '../members/members.api.ts'
import { ensureTenant } from '../tenants/tenants.api.ts'
import { hasUsers, insertUser } from './identity.store.ts'
import { hashPassword } from './passwords.ts'

/** The password that was made up, to be shown once; null when the administrator exists or chose one. */
export interface FirstStart {
  email: string
  generatedPassword: string | null
}

/** Makes the administrator and the tenant `default` when there is no user at all. Processes starting together do it once. */
export async function prepareFirstStart(services: Services): Promise<FirstStart | null> {
  const { config, db } = services
  if (await transaction(db, 'system', hasUsers)) return null
  const password = config.adminPassword ?? randomBytes(15).toString('base64url')
  const passwordHash = await hashPassword(password)
  const created = await transaction(db, 'system', async (tx) => {
    const user = await insertUser(tx, { email: config.adminEmail, passwordHash, isSuperuser: true, isVerified: true })
    if (!user) return false
    await grantRole(tx, await ensureTenant(tx, 'default', 'Default'), user.id, 'ADMIN')
    return true
  })
  if (!created) return null
  return { email: config.adminEmail, generatedPassword: config.adminPassword === null ? password : null }
}
