import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { pack } from 'tar-stream'
import type { Descriptor } from '../src/adapters/image-builder/image-builder.ts'
import { getModelVersion } from '../src/features/models/models.api.ts'
import { publishImage } from '../src/features/registry/registry.api.ts'
import { transaction } from '../src/platform/db/transaction.ts'
import { newId } from '../src/platform/ids.ts'
import type { TestPlatform } from './harness.ts'
import { type ModelFixture, registerModel } from './model-version.ts'

const modelServer = fileURLToPath(new URL('../../model-server/src/main.ts', import.meta.url))
const oci = 'application/vnd.oci.image'

/**
 * A READY image of a fresh version of a model, published like a built one, that starts the model server of this
 * checkout: what the builder would put below it (Node.js and the server, 150 MB) is left out, so that tests of what
 * happens afterwards need no minute of compression.
 */
export async function servedImage(platform: Pick<TestPlatform, 'services'>, fixture: ModelFixture) {
  const { services } = platform
  const version = await registerModel(platform, fixture)
  const tenant = await transaction(services.db, 'system', (tx) =>
    tx
      .selectFrom('tenants')
      .select(['id', 'code'])
      .where('code', '=', fixture.tenantCode ?? 'default')
      .executeTakeFirstOrThrow(),
  )
  const ctx = { ...services, kind: 'tenant', scope: { tenantId: tenant.id }, tenant } as never
  const store = async (mediaType: string, bytes: Buffer): Promise<Descriptor> => ({
    mediaType,
    ...(await services.blobs.put(Readable.from([bytes]))),
  })
  return transaction(services.db, { tenantId: tenant.id }, async (tx) => {
    const model = await getModelVersion(tx, ctx, fixture.name, version)
    const archive = pack()
    archive.entry({ name: 'serve', mode: 0o755 }, `#!/bin/sh\nexec "${process.execPath}" "${modelServer}"\n`)
    for (const { path, digest } of model.files)
      archive.entry({ name: `model/${path}` }, await buffer(await services.blobs.open(digest)))
    archive.finalize()
    const layer = await store(`${oci}.layer.v1.tar`, await buffer(archive))
    const env = ['MODEL_DIR=/model', `MODEL_NAME=${model.name}`, `MODEL_VERSION=${version}`, 'WORKERS=1']
    const config = { Entrypoint: ['/serve'], Env: env, WorkingDir: '/' }
    const json = (value: unknown) => Buffer.from(JSON.stringify(value))
    const configBlob = await store(`${oci}.config.v1+json`, json({ config, rootfs: { type: 'layers', diff_ids: [] } }))
    const manifest = { schemaVersion: 2, mediaType: `${oci}.manifest.v1+json`, config: configBlob, layers: [layer] }
    const blobs = { manifest: await store(manifest.mediaType, json(manifest)), config: configBlob, layers: [layer] }
    const repository = `models/${fixture.name}`
    const published = await publishImage(tx, ctx, { repository, tag: version, ...blobs })
    const { reference: _, ...where } = published
    const id = newId()
    await tx
      .insertInto('modelImages')
      .values({
        ...{ id, tenantId: tenant.id, modelId: model.modelId, modelName: model.name, modelVersion: Number(version) },
        ...{ builderTag: 'default', state: 'READY', progress: 1, runId: newId(), createdBy: 'test', ...where },
      })
      .execute()
    return { id, digest: published.digest }
  })
}
