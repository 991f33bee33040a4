import { startTestPlatform, type TestClient, type TestPlatform } from '../../../test/harness.ts'
import { transaction } from '../../platform/db/transaction.ts'
import { registerModelVersion } from './models.api.ts'

/** A platform with people who ask for promotions and decide them. */
export interface PromotionStage {
  platform: TestPlatform
  tenant: { id: string; code: string }
  viewer: TestClient
  requester: TestClient
  approver: TestClient
  stranger: TestClient
  work<T>(change: Parameters<typeof transaction<T>>[2]): Promise<T>
  /** Makes a model with three versions, the second of which has the best figures; returns its name. */
  newModel(): Promise<string>
  request(name: string, to: string, client?: TestClient): ReturnType<TestClient['post']>
  decide(id: string, verb: string, body?: object, client?: TestClient): ReturnType<TestClient['post']>
}

export async function startPromotionStage(): Promise<PromotionStage> {
  const platform = await startTestPlatform()
  const tenant = await platform.tenant('ours')
  await platform.tenant('theirs')
  const viewer = await platform.member('ours', 'VIEWER')
  const requester = await platform.member('ours', 'MAINTAINER')
  const approver = await platform.member('ours', 'MAINTAINER')
  const stranger = await platform.member('theirs', 'ADMIN')
  const work: PromotionStage['work'] = (change) => transaction(platform.services.db, { tenantId: tenant.id }, change)
  const actor = { userId: viewer.userId, email: viewer.email, fullName: null, isSuperuser: false, sessionId: null }
  const ctx = { tenant, actor, clock: platform.services.clock }
  let models = 0
  return {
    ...{ platform, tenant, viewer, requester, approver, stranger, work },
    async newModel() {
      const name = `Model-${models++}`
      for (const top1 of [0.8, 0.9, 0.7]) await work((tx) => registerModelVersion(tx, ctx, versionOf(name, top1)))
      return name
    },
    request: (name, to, client = requester) =>
      client.post(`/api/v1/models/${name}/1/promote`, {
        to_version: to,
        reason: 'better',
        rollback_conditions: 'top1 < 0.7',
      }),
    decide: (id, verb, body = {}, client = approver) => client.post(`/api/v1/promotions/${id}:${verb}`, body),
  }
}

const versionOf = (name: string, top1: number) => ({
  name,
  runId: '0'.repeat(32),
  experimentId: '0',
  dataset: { id: 'd', name: 'flowers', digest: 'sha256:1' },
  files: [{ path: 'model.onnx', digest: `sha256:${'0'.repeat(64)}`, size: 1 }],
  task: 'image_classification',
  framework: 'torchvision',
  architecture: 'resnet18',
  classes: ['daisy'],
  signature: null,
  metrics: { top1 },
  environment: {},
})
