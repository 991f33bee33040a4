import type { IdentityProvider } from '../../adapters/identity-provider/identity-provider.ts'
import type { Config } from '../../platform/config.ts'
import { defineFeature, type Feature } from '../../platform/feature.ts'
import { authRoutes } from './auth.routes.ts'
import { parseGroupRoles } from './group-roles.ts'
import { measurePasswordChecks } from './password-metrics.ts'
import { addSingleSignOn } from './single-sign-on.protocol.ts'
import type { TokenSigner } from './tokens.ts'
import { userRoutes } from './users.routes.ts'

/** Accounts, passwords, logins, and single sign-on where an identity provider is configured. */
export function identityFeature(signer: TokenSigner, config: Config, provider: IdentityProvider | null): Feature {
  const grants = parseGroupRoles(config.oidcGroupRoles)
  const singleSignOn = provider && { provider, rules: { grants, trustsAddresses: config.oidcTrustAddresses } }
  return defineFeature({
    name: 'identity',
    operations: [...authRoutes(signer), ...userRoutes],
    metrics: measurePasswordChecks,
    ...(singleSignOn && {
      protocol: async (app, services) => addSingleSignOn(app, services, signer, singleSignOn),
      healthChecks: [
        {
          name: 'identity provider',
          remedy: 'See to it that PLATFORM_MLOPS_OIDC_ISSUER can be reached from here.',
          check: async () => {
            await singleSignOn.provider.check()
            return {}
          },
        },
      ],
    }),
  })
}
