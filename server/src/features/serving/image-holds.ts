import type { TenantCtx } from '../../platform/context.ts'
import type { Tx } from '../../platform/db/transaction.ts'
import type { ReadyImage } from '../images/images.api.ts'
import { holdImage } from '../registry/registry.api.ts'

/** Who keeps an image in the registry from being deleted. */
export const holderOf = (endpointName: string): string => `endpoint:${endpointName}`

export const holdServedImage = (tx: Tx, ctx: TenantCtx, name: string, image: ReadyImage): Promise<void> =>
  holdImage(tx, ctx, {
    repository: image.repository,
    digest: image.digest,
    holder: holderOf(name),
    reason: `Endpoint ${name} serves it`,
  })
