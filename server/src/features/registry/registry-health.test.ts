import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startTestPlatform, type TestPlatform } from '../../../test/harness.ts'
import { pushOver } from '../../../test/registry-images.ts'
import { signedIn } from './registry.fixture.ts'

let platform: TestPlatform
beforeAll(async () => {
  platform = await startTestPlatform()
})
afterAll(() => platform?.stop())

const health = async () => {
  const { body } = await platform.admin.get('/api/v1/system/health')
  return body.components.find(({ name }: { name: string }) => name === 'registry')
}

test('the registry is well while what was pushed last is whole, and says what is missing and what to do', async () => {
  expect(await health()).toMatchObject({ status: 'ok', detail: { repositories: 0, contents_looked_at: 0 } })
  await platform.tenant('acme')
  const oci = await signedIn(platform, await platform.member('acme', 'DEVELOPER'))
  const image = (await pushOver(oci, 'acme/whole', 'v1', [Buffer.from('a layer')]))!
  expect(await health()).toMatchObject({
    status: 'ok',
    remedy: null,
    detail: { repositories: 1, contents_looked_at: 3 },
  })

  const digest = image.blobs[0]!.replace('sha256:', '')
  await rm(join(platform.dataDir, 'blobs', 'sha256', digest.slice(0, 2), digest))
  expect(await health()).toMatchObject({
    status: 'degraded',
    message: '1 of 3 contents of acme/whole are not in the blob store.',
    remedy: expect.stringContaining('push the image again'),
  })
})
