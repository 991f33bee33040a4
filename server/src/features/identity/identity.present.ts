import type { UserRow } from './identity.store.ts'

export const userView = (user: UserRow) => ({
  id: user.id,
  email: user.email,
  full_name: user.fullName,
  phone: user.phone,
  is_active: user.isActive,
  is_superuser: user.isSuperuser,
  is_verified: user.isVerified,
})
