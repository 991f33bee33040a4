/**
 * What the platform adds to a training: a whole experiment, from the request to the registered model, against the same
 * training in one plain PyTorch file (training-bare.py), one after the other on the same machine.
 *
 *     node bench/training-overhead.ts [archive.zip] [--epochs 15] [--rounds 1]
 *
 * The archive has train/<class>/* and test/<class>/*; without one the flowers beside the checkout are taken, or images
 * are generated.
 */
import { spawnSync } from 'node:child_process'
import { existsSync, openAsBlob } from 'node:fs'
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { availableParallelism, tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { type Client, signIn, until } from '../acceptance/main-job/client.ts'
import { startOwnPlatform } from '../acceptance/main-job/own-platform.ts'
import { makeSampleImages } from '../acceptance/sample-images.ts'

const flowers = fileURLToPath(new URL('../../shared/data/flowers12-imagefolder.zip', import.meta.url))
const bareScript = fileURLToPath(new URL('training-bare.py', import.meta.url))
const email = 'admin@example.com'

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { epochs: { type: 'string', default: '15' }, rounds: { type: 'string', default: '1' } },
})
const epochs = Number(values.epochs)
const folder = await mkdtemp(join(tmpdir(), 'bench-training-'))
try {
  const archive = await findArchive(positionals[0])
  const platform = await startOwnPlatform(folder, email)
  try {
    const client = await signIn(platform.url, email, platform.password, 'default')
    const datasetId = await freezeDataset(client, archive)
    const ratios: number[] = []
    for (let round = 1; round <= Number(values.rounds); round++) {
      const whole = await trainOnPlatform(client, datasetId)
      const bareSeconds = await trainBare(await unpacked(archive, whole.python), whole.python)
      ratios.push(whole.seconds / bareSeconds)
      console.log(`platform ${whole.seconds.toFixed(1)} s (${whole.steps})`)
      console.log(`bare     ${bareSeconds.toFixed(1)} s`)
      console.log(`ratio    ${ratios.at(-1)!.toFixed(3)}`)
    }
    if (ratios.length > 1) console.log(`median   ${ratios.toSorted()[ratios.length >> 1]!.toFixed(3)}`)
  } finally {
    await platform.stop()
  }
} finally {
  await rm(folder, { recursive: true, force: true })
}

async function findArchive(given: string | undefined): Promise<string> {
  if (given) return given
  if (existsSync(flowers)) return flowers
  const path = join(folder, 'samples.zip')
  await makeSampleImages(path, { classes: 12, perClass: 60, testPerClass: 20, size: 96 })
  return path
}

async function freezeDataset(client: Client, archive: string): Promise<string> {
  const { id } = await client.send('POST', '/api/v1/datasets/drafts', { name: 'bench' })
  const body = new FormData()
  body.set('file', await openAsBlob(archive), 'images.zip')
  await client.fetch(`/api/v1/datasets/${id}/archive`, { method: 'POST', body })
  await until('validation', 600, async () => {
    const { status } = await client.get(`/api/v1/datasets/${id}`)
    return status === 'READY' || null
  })
  await client.send('POST', `/api/v1/datasets/${id}:freeze`)
  return id
}

interface Training {
  seconds: number
  steps: string
  python: string
}

async function trainOnPlatform(client: Client, datasetId: string): Promise<Training> {
  const { id } = await client.send('POST', '/api/v1/training/experiments', {
    task: 'image_classification',
    framework: 'torchvision',
    model: 'resnet18',
    dataset_id: datasetId,
    experiment_name: 'bench',
    // Everything else is the catalogue's default, which the bare script has too.
    hyperparameters: `epochs: ${epochs}\n`,
  })
  const experiment = await until('the training', 3600, async () => {
    const found = await client.get(`/api/v1/training/experiments/${id}`)
    return found.ended_at ? found : null
  })
  const seconds = (Date.parse(experiment.ended_at) - Date.parse(experiment.created_at)) / 1000
  if (experiment.state !== 'SUCCEEDED') throw new Error(`the training ended as ${experiment.state}`)
  const steps = experiment.steps
    .map((step: { name: string; started_at: string; ended_at: string }) => {
      const stepSeconds = (Date.parse(step.ended_at) - Date.parse(step.started_at)) / 1000
      return `${step.name} ${stepSeconds.toFixed(1)}`
    })
    .join(', ')
  return { seconds, steps, python: experiment.environment.python }
}

async function unpacked(archive: string, python: string): Promise<string> {
  const target = join(folder, 'images')
  if (existsSync(target)) return target
  await mkdir(target)
  run(python, ['-m', 'zipfile', '-e', archive, target])
  return target
}

async function trainBare(data: string, python: string): Promise<number> {
  const started = performance.now()
  run(python, [bareScript, data, '--epochs', String(epochs), '--threads', String(availableParallelism())])
  return (performance.now() - started) / 1000
}

function run(command: string, args: string[]): void {
  const { status, stderr, error } = spawnSync(command, args, { stdio: ['ignore', 'ignore', 'pipe'] })
  if (status !== 0) throw new Error(`${command} failed: ${error?.message ?? stderr}`)
}
