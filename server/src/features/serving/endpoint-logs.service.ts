import type { TenantCtx } from '../../platform/context.ts'
import { getEndpoint } from './endpoints.service.ts'
import { handleOf } from './replica-works.ts'

const tailBytes = 256 * 1024

/** The last lines of every replica. @source service §4.6 */
export async function tailLogs(ctx: TenantCtx, name: string, count: number) {
  const { replicas } = await getEndpoint(ctx, name)
  return Promise.all(
    replicas.map(async (replica) => {
      const output = await ctx.adapters.compute.logs(handleOf(replica), -tailBytes, tailBytes)
      // What an endless log dropped reads as zero bytes.
      const lines = output.toString('utf8').replaceAll('\0', '').replace(/\n$/, '').split('\n')
      return { id: replica.id, state: replica.state, lines: output.length === 0 ? [] : lines.slice(-count) }
    }),
  )
}
