import { defineFeature } from '../../platform/feature.ts'
import { memberRoutes } from './members.routes.ts'
import { systemUserRoutes } from './system-users.routes.ts'

/** Who belongs to a tenant in which role, and the administration of accounts. */
export const membersFeature = defineFeature({ name: 'members', operations: [...memberRoutes, ...systemUserRoutes] })
