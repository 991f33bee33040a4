import type { SystemCtx } from '../../platform/context.ts'
import { type Step, step } from '../../platform/runs/define-run.ts'
import { transaction } from '../../platform/transaction.ts'
import { abandonEndpoints } from './endpoints.store.ts'
import { handleOf } from './replica-works.ts'
import { deleteReplica, listTenantReplicas } from './replicas.store.ts'

/** Ends every replica of a tenant that is being deleted, at once; its records go with the others. */
export const endServing: Step<{ tenantId: string; tenantCode: string }> = step(
  'serving',
  'End serving endpoints',
  async (s) => {
    const ctx = s.ctx as SystemCtx
    const { tenantId } = s.input
    const replicas = await transaction(ctx, async (tx) => {
      // From here on nobody starts any again.
      await abandonEndpoints(tx, tenantId)
      return listTenantReplicas(tx, tenantId)
    })
    for (const [index, replica] of replicas.entries()) {
      s.signal.throwIfAborted()
      await ctx.adapters.compute.remove(handleOf(replica))
      await transaction(ctx, (tx) => deleteReplica(tx, replica.id))
      s.progress((index + 1) / replicas.length, `${index + 1} of ${replicas.length} replicas ended`)
    }
    s.log(`${replicas.length} replicas ended`)
  },
)
