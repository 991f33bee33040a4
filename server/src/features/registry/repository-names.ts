import type { Ctx } from '../../platform/context.ts'
import { notFound } from '../../platform/errors.ts'
import { isRepositoryName } from './oci/oci-paths.ts'

/** First part of the names that belong to no tenant. @source contract B3.1, B9.3 */
export const sharedNamespace = 'shared'

/** First part of the names the context owns: its tenant's code, or the reserved one for the system. */
export const namespaceOf = (ctx: Ctx): string => (ctx.kind === 'tenant' ? ctx.tenant.code : sharedNamespace)

/**
 * The whole name of one of the context's own repositories, given with or without the tenant in front.
 * Throws `not_found` for what can't be a name. @source contract B6.1
 */
export function wholeName(ctx: Ctx, name: string): string {
  const prefix = `${namespaceOf(ctx)}/`
  const whole = name.startsWith(prefix) ? name : prefix + name
  if (!isRepositoryName(whole)) throw notFound('There is no such repository.')
  return whole
}

/** `host` or `host:port` under which clients know this registry. */
export const registryHost = (ctx: { publicUrl: string }): string => new URL(ctx.publicUrl).host
