import type { IdentityProvider } from './adapters/identity-provider/identity-provider.ts'
import { openidConnect } from './adapters/identity-provider/openid-connect.driver.ts'
import { smtpMail } from './adapters/mail/smtp.driver.ts'
import { auditFeature } from './features/audit/audit.feature.ts'
import { catalogFeature } from './features/catalog/catalog.feature.ts'
import { datasetCacheFeature } from './features/dataset-cache/dataset-cache.feature.ts'
import { datasetsFeature } from './features/datasets/datasets.feature.ts'
import { experimentsFeature } from './features/experiments/experiments.feature.ts'
import { externalSourcesFeature } from './features/external-sources/external-sources.feature.ts'
import { identityFeature } from './features/identity/identity.feature.ts'
import type { TokenSigner } from './features/identity/tokens.ts'
import { imagesFeature } from './features/images/images.feature.ts'
import { membersFeature } from './features/members/members.feature.ts'
import { modelsFeature } from './features/models/models.feature.ts'
import { notificationsFeature } from './features/notifications/notifications.feature.ts'
import { registryFeature } from './features/registry/registry.feature.ts'
import { servingFeature } from './features/serving/serving.feature.ts'
import { storageFeature } from './features/storage/storage.feature.ts'
import { healthFeature } from './features/system/health.feature.ts'
import { systemFeature } from './features/system/system.feature.ts'
import { toggled } from './features/tenants/tenant-features.ts'
import { tenantsFeature } from './features/tenants/tenants.feature.ts'
import { trackerFeature } from './features/tracker/tracker.feature.ts'
import type { Config } from './platform/config.ts'
import type { Feature } from './platform/feature.ts'
import type { Operation } from './platform/http/operation.ts'
import type { HttpMetrics } from './platform/metrics.ts'

export interface AppParts {
  config: Config
  signer: TokenSigner
  metrics: HttpMetrics
}

/** The whole product on one screen, in the order of the documentation. */
export function createFeatures({ config, signer, metrics }: AppParts): Feature[] {
  const mail = config.smtpUrl ? smtpMail({ url: config.smtpUrl, from: config.mailFrom }) : null
  const features: Feature[] = [
    identityFeature(signer, config, identityProviderOf(config)),
    tenantsFeature(() => features),
    membersFeature,
    auditFeature,
    notificationsFeature(() => features, mail),
    datasetsFeature,
    externalSourcesFeature,
    catalogFeature,
    experimentsFeature(config),
    datasetCacheFeature,
    trackerFeature,
    modelsFeature,
    imagesFeature,
    servingFeature(),
    registryFeature(),
    storageFeature(() => features),
    healthFeature(() => features),
    // The last one describes all the others.
    systemFeature(() => operationsOf(features), metrics),
  ]
  return features.map(toggled)
}

const identityProviderOf = (config: Config): IdentityProvider | null =>
  config.oidcIssuer
    ? openidConnect({
        issuer: config.oidcIssuer,
        clientId: config.oidcClientId,
        clientSecret: config.oidcClientSecret,
        scopes: config.oidcScopes,
        groupsClaim: config.oidcGroupsClaim,
      })
    : null

export const operationsOf = (features: Feature[]): Operation[] =>
  features.flatMap((feature) => feature.operations ?? [])
