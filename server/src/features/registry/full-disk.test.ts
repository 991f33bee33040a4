import { spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdir, mkdtemp, readdir, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startTestPlatform, type TestPlatform } from '../../../test/harness.ts'
import { type OciClient, pushBlob, pushImage, sha256, signedIn } from './registry.fixture.ts'

const mebibyte = 1024 * 1024
/** Room for what the platform itself keeps there and a few blobs. */
const diskMebibytes = 24

let disk: string
let isMounted = false
let platform: TestPlatform
let client: OciClient
beforeAll(async () => {
  disk = await mkdtemp(join(tmpdir(), 'registry-full-'))
  isMounted = spawnSync('mount', ['-t', 'tmpfs', '-o', `size=${diskMebibytes}m`, 'none', disk]).status === 0
  if (!isMounted) return
  await mkdir(join(disk, 'data'))
  platform = await startTestPlatform({ PLATFORM_MLOPS_DATA_DIR: join(disk, 'data') })
  await platform.tenant('acme')
  client = await signedIn(platform, await platform.member('acme', 'DEVELOPER'))
})
afterAll(async () => {
  await platform?.stop()
  if (isMounted) spawnSync('umount', ['-l', disk])
  await rm(disk, { recursive: true, force: true })
})

async function bytesOnDisk(): Promise<number> {
  const entries = await readdir(join(disk, 'data'), { recursive: true, withFileTypes: true })
  const files = entries.filter((entry) => entry.isFile())
  const sizes = await Promise.all(files.map((entry) => stat(join(entry.parentPath, entry.name))))
  return sizes.reduce((sum, { size }) => sum + size, 0)
}

const octets = { 'content-type': 'application/octet-stream' }

describe('a full disk', () => {
  test('refuses what does not fit in the form of the specification, keeps what is there, and takes more once there is room', async ({
    skip,
  }) => {
    if (!isMounted) return skip('only a user who may mount can make a small disk')
    const image = await pushImage(client, 'acme/kept', 'v1')
    const filling = await pushBlob(client, 'acme/filling', randomBytes(8 * mebibyte))
    const location = (await client('POST', '/v2/acme/kept/blobs/uploads/')).headers.get('location')!
    const first = randomBytes(mebibyte)
    expect((await client('PATCH', location, { body: first, headers: octets })).status).toBe(202)
    const before = await bytesOnDisk()

    const large = randomBytes(diskMebibytes * mebibyte)
    const single = `/v2/acme/kept/blobs/uploads/?digest=${sha256(large)}`
    for (const [method, path] of [
      ['PATCH', location],
      ['POST', single],
      ['PUT', `${location}&digest=${sha256(large)}`],
    ] as const) {
      const refused = await client(method, path, { body: large, headers: octets })
      expect([refused.status, refused.body.errors[0].code], method).toEqual([507, 'DENIED'])
      expect(refused.body.errors[0].message).toMatch(/no room/)
    }
    expect(await bytesOnDisk()).toBe(before)
    expect((await client('GET', location)).headers.get('range')).toBe(`0-${mebibyte - 1}`)
    expect((await client('GET', '/v2/acme/kept/manifests/v1')).text).toBe(image.manifest)
    const layer = await client('GET', `/v2/acme/kept/blobs/${image.layer.digest}`)
    expect(sha256(layer.bytes)).toBe(image.layer.digest)

    await platform.services.blobs.delete(filling)
    const second = randomBytes(6 * mebibyte)
    const digest = sha256(Buffer.concat([first, second]))
    expect((await client('PUT', `${location}&digest=${digest}`, { body: second, headers: octets })).status).toBe(201)
    const whole = await client('GET', `/v2/acme/kept/blobs/${digest}`)
    expect([whole.status, sha256(whole.bytes)]).toEqual([200, digest])
  }, 60_000)
})
