import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { prepareArchive } from './main-job/archive.ts'
import { type Client, signIn, until } from './main-job/client.ts'
import { completeUpload, openUpload, resumeUpload, type Upload, uploadAndBreakOff } from './main-job/dataset.stage.ts'
import { pullImage } from './main-job/image.stage.ts'
import { type OwnPlatform, startOwnPlatform } from './main-job/own-platform.ts'
import { createEndpoint, deleteEndpoint, measure, waitForState } from './main-job/serving.stage.ts'
import { findTrainerPython } from './trainer-python.ts'

const email = 'admin@example.com'
const password = 'a password for the test'
const quiet = () => undefined

let folder: string
let platform: OwnPlatform
let client: Client

async function start(): Promise<void> {
  platform = await startOwnPlatform(folder, email, password)
  client = await signIn(platform.url, email, password, 'default')
}

/** The power goes, and comes back. */
async function crash(): Promise<void> {
  await platform.kill()
  await start()
}

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'platform-mlops-crash-'))
  await start()
})
afterAll(async () => {
  await platform?.stop()
  await rm(folder, { recursive: true, force: true })
})

describe.skipIf(!findTrainerPython())('kill -9 of the server', () => {
  let upload: Upload
  let archive: Awaited<ReturnType<typeof prepareArchive>>
  let datasetId: string
  // biome-ignore lint/suspicious/noExplicitAny: answers of the interface
  let version: any
  // biome-ignore lint/suspicious/noExplicitAny: answers of the interface
  let image: any

  test('in the middle of an upload: what was acknowledged is there, the rest is sent, the files are right', async () => {
    archive = await prepareArchive(null, folder)
    const dataset = await client.send('POST', '/api/v1/datasets/drafts', { name: 'crash test' })
    datasetId = dataset.id
    upload = await openUpload(client, datasetId, archive.path)
    await uploadAndBreakOff(client, datasetId, upload, archive.path)
    await crash()
    expect(await resumeUpload(client, datasetId, upload, archive.path, quiet)).toBe(
      upload.chunks - Math.floor(upload.chunks / 2),
    )
  }, 600_000)

  test('in the middle of the assembly: every file is registered once', async () => {
    await client.send('POST', `/api/v1/datasets/${datasetId}/uploads/${upload.id}:complete`)
    await crash()
    const result = await completeUpload(client, datasetId, upload, quiet)
    expect(result.created + result.skipped).toBe(300)
    const files = await client.get(`/api/v1/datasets/${datasetId}/files?page_size=1`)
    expect(files.total).toBe(300)
    await client.send('POST', `/api/v1/datasets/${datasetId}:freeze`)
  }, 600_000)

  test('in the middle of training: the job runs on, is watched again, and registers one version', async () => {
    const experiment = await client.send('POST', '/api/v1/training/experiments', {
      task: 'image_classification',
      framework: 'torchvision',
      model: 'small_cnn',
      dataset_id: datasetId,
      experiment_name: 'crash',
      register_model: true,
      register_model_name: 'crash',
      hyperparameters: 'epochs: 12\n',
    })
    const path = `/api/v1/training/experiments/${experiment.id}`
    const points = async () =>
      (await client.get(`${path}/metrics`)).series.flatMap((s: { points: unknown[] }) => s.points).length
    await until('the first metrics', 480, async () => ((await points()) > 0 ? true : null))
    await crash()
    const ended = await until('the end of training', 900, async () => {
      const now = await client.get(path)
      return ['SUCCEEDED', 'FAILED', 'STOPPED', 'KILLED'].includes(now.state) ? now : null
    })
    expect(ended.state, JSON.stringify(ended.error)).toBe('SUCCEEDED')
    const { series } = await client.get(`${path}/metrics`)
    for (const { key, points } of series) {
      const steps = points.map((point: { step: number }) => point.step)
      expect(new Set(steps).size, key).toBe(steps.length)
    }
    const versions = await client.get('/api/v1/models/crash/versions')
    expect(versions.total).toBe(1)
    version = versions.items[0]
  }, 1_200_000)

  test('in the middle of an image build: it is built and published once', async () => {
    const started = await client.send('POST', '/api/v1/images', { model_name: 'crash', version: version.version })
    await crash()
    image = await until('the image', 480, async () => {
      const now = await client.get(`/api/v1/images/${started.id}`)
      if (now.state === 'FAILED') throw new Error(JSON.stringify(now.error))
      return now.state === 'READY' ? now : null
    })
    const tags = await client.get('/api/v1/images')
    expect(tags.items).toHaveLength(1)
    await pullImage(client, image.repository, image.digest, quiet)
  }, 600_000)

  test('while an endpoint serves: its replica is adopted, not started twice', async () => {
    await createEndpoint(client, 'crash', image.id, quiet)
    await crash()
    await waitForState(client, 'crash', 'RUNNING')
    const { correct, images } = await measure(client, 'crash', archive.heldOut, quiet)
    expect(correct / images).toBeGreaterThan(0.6)
    await deleteEndpoint(client, 'crash')
  }, 600_000)
})
