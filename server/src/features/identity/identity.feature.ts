import { defineFeature, type Feature } from '../../platform/feature.ts'
import { authRoutes } from './auth.routes.ts'
import type { TokenSigner } from './tokens.ts'
import { userRoutes } from './users.routes.ts'

export const identityFeature = (signer: TokenSigner): Feature =>
  defineFeature({ name: 'identity', operations: [...authRoutes(signer), ...userRoutes] })
