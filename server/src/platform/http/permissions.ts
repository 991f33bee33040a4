/** What a role may do in a tenant, with the words the console shows. @source service §5.7, contract B3.3 */
export const permissions = {
  VIEW: 'See everything in the tenant.',
  OPERATE: 'Start, stop and scale what exists; acknowledge alerts.',
  DEVELOP: 'Train, comment, push images, manage devices.',
  DATASET_WRITE: 'Create and change datasets.',
  MODEL_REGISTER: 'Register and delete models.',
  STAGING_PROMOTE: 'Move model versions between None, Staging and Archived.',
  DEPLOY: 'Build images and deploy endpoints.',
  PRODUCTION_PROMOTE: 'Request and approve Production.',
  SETTINGS: 'Manage members, channels, policies and sources of the tenant.',
} as const

export type Permission = keyof typeof permissions

const viewer: Permission[] = ['VIEW']
const operator: Permission[] = [...viewer, 'OPERATE']
const developer: Permission[] = [...operator, 'DEVELOP', 'DATASET_WRITE', 'MODEL_REGISTER', 'STAGING_PROMOTE']
const maintainer: Permission[] = [...developer, 'DEPLOY', 'PRODUCTION_PROMOTE']

/** The ladder: every role holds all that the one before it holds. @source contract B3.3 */
export const roles = {
  VIEWER: { label: 'Viewer', permissions: viewer },
  OPERATOR: { label: 'Operator', permissions: operator },
  DEVELOPER: { label: 'Developer', permissions: developer },
  MAINTAINER: { label: 'Maintainer', permissions: maintainer },
  ADMIN: { label: 'Administrator', permissions: Object.keys(permissions) as Permission[] },
} as const

export type Role = keyof typeof roles

export const roleNames = Object.keys(roles) as Role[]

/** A role that the database knows and this version does not grants nothing. */
export function permissionsOf(role: string): ReadonlySet<Permission> {
  return new Set(roles[role as Role]?.permissions ?? [])
}
