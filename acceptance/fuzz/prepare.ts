import type { Services } from '../../server/src/platform/context.ts'
import { insertFrozenDataset } from '../../server/test/frozen-dataset.ts'
import { servedImage } from '../../server/test/served-image.ts'

/** Gives a tenant what no request alone can make at once: a frozen dataset, and a model with a READY image. */
export async function prepareTenant(services: Services, tenantCode: string): Promise<void> {
  const { rows } = await services.db.pool.query('select id from tenants where code = $1', [tenantCode])
  await insertFrozenDataset(services, rows[0].id, `colours-${tenantCode}`.slice(0, 60), { perClass: 4 })
  await servedImage({ services }, { name: 'probe', tenantCode })
}
