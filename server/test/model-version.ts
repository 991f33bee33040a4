import { createReadStream } from 'node:fs'
import { readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { convolutionGraph, probeClasses, probeGraph, writeModelFolder } from '../../model-server/test/model-folders.ts'
import { registerModelVersion } from '../src/features/models/models.api.ts'
import type { Actor } from '../src/platform/context.ts'
import { transaction } from '../src/platform/db/transaction.ts'
import type { TestPlatform } from './harness.ts'

export interface ModelFixture {
  name: string
  tenantCode?: string
  /** Files of the version that are left out. */
  without?: string[]
  /** Files whose bytes are lost after they were registered. */
  lost?: string[]
  metrics?: Record<string, number>
  /** A model with real work in it instead of the small one. */
  heavy?: boolean
  /** Replaces fields of its model.json. */
  description?: Record<string, unknown>
}

const actor: Actor = {
  userId: '00000000-0000-0000-0000-000000000000',
  email: 'trainer@example.com',
  fullName: null,
  isSuperuser: false,
  sessionId: null,
}

/** Registers a model that can really be served, as a training would. */
export async function registerModel(platform: Pick<TestPlatform, 'services'>, fixture: ModelFixture): Promise<string> {
  const { services } = platform
  const tenant = await transaction(services.db, 'system', (tx) =>
    tx
      .selectFrom('tenants')
      .select(['id', 'code'])
      .where('code', '=', fixture.tenantCode ?? 'default')
      .executeTakeFirstOrThrow(),
  )
  const graph = fixture.heavy
    ? convolutionGraph({ size: 96, width: 16, layers: 4, classes: probeClasses.length })
    : probeGraph()
  const folder = await writeModelFolder(graph, probeClasses, fixture.description)
  const files = []
  for (const path of (await readdir(folder)).filter((name) => !fixture.without?.includes(name)))
    files.push({ path, ...(await services.blobs.put(createReadStream(join(folder, path)))) })
  await rm(folder, { recursive: true })
  const version = {
    name: fixture.name,
    runId: '0'.repeat(32),
    experimentId: '0',
    dataset: { id: '0198c0de-0000-7000-8000-000000000000', name: 'probe', digest: `sha256:${'0'.repeat(64)}` },
    files,
    task: 'image_classification',
    framework: 'handwritten',
    architecture: 'probe',
    classes: probeClasses,
    signature: null,
    metrics: fixture.metrics ?? {},
    environment: {},
  }
  const registered = await transaction(services.db, { tenantId: tenant.id }, (tx) =>
    registerModelVersion(tx, { ...services, tenant, actor } as never, version),
  )
  for (const { path, digest } of files) if (fixture.lost?.includes(path)) await services.blobs.delete(digest)
  return registered.version
}
