// The main job of the platform, through its public interface alone: from images on disk to a model that answers.
//
//   npm run main-job -- [ARCHIVE.zip | FOLDER] [--json FILE] [--model KEY] [--epochs N] [--keep]
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { type Archive, prepareArchive } from './main-job/archive.ts'
import { type Client, JobError, signIn } from './main-job/client.ts'
import { completeUpload, openUpload, resumeUpload, uploadAndBreakOff } from './main-job/dataset.stage.ts'
import { buildImage, pullImage } from './main-job/image.stage.ts'
import { type OwnPlatform, startOwnPlatform } from './main-job/own-platform.ts'
import { createEndpoint, deleteEndpoint, measure, waitForState } from './main-job/serving.stage.ts'
import { createStages, percentile, type Stages } from './main-job/terminal.ts'
import { followExperiment } from './main-job/training.stage.ts'

const usage = 'usage: npm run main-job -- [ARCHIVE.zip | FOLDER] [--json FILE] [--model KEY] [--epochs N] [--keep]'

interface Options {
  source: string | null
  json: string | undefined
  model: string | undefined
  epochs: number | undefined
  keep: boolean
}

function readOptions(): Options {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      json: { type: 'string' },
      model: { type: 'string' },
      epochs: { type: 'string' },
      keep: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  })
  if (values.help || positionals.length > 1) throw new JobError(usage)
  const epochs = values.epochs === undefined ? undefined : Number(values.epochs)
  if (epochs !== undefined && !(Number.isInteger(epochs) && epochs > 0))
    throw new JobError('--epochs takes a whole number above 0')
  return { source: positionals[0] ?? null, json: values.json, model: values.model, epochs, keep: values.keep ?? false }
}

async function connect(stages: Stages, workFolder: string): Promise<{ client: Client; own: OwnPlatform | null }> {
  const env = process.env
  const url = (env.PLATFORM_MLOPS_URL ?? 'http://127.0.0.1:8080').replace(/\/+$/, '')
  const email = env.PLATFORM_MLOPS_ADMIN_EMAIL ?? 'admin@example.com'
  const tenant = env.PLATFORM_MLOPS_TENANT ?? 'default'
  const answers = await fetch(`${url}/healthz`).then(
    (r) => r.ok,
    () => false,
  )
  if (answers) {
    const password = env.PLATFORM_MLOPS_ADMIN_PASSWORD
    if (!password)
      throw new JobError(
        `A platform answers at ${url}: set PLATFORM_MLOPS_ADMIN_PASSWORD (it was printed at its first start).`,
      )
    return { client: await stages.stage('log in', () => signIn(url, email, password, tenant)), own: null }
  }
  const own = await stages.stage(
    'start a platform',
    () => startOwnPlatform(workFolder, email),
    (p) => `${url} did not answer; using ${p.url}`,
  )
  try {
    return { client: await stages.stage('log in', () => signIn(own.url, email, own.password, tenant)), own }
  } catch (error) {
    await own.stop()
    throw error
  }
}

async function runJob(client: Client, stages: Stages, archive: Archive, options: Options) {
  const name = `main-job-${Date.now().toString(36)}`
  const { stage } = stages
  const dataset = await stage(
    'create dataset draft',
    () => client.send('POST', '/api/v1/datasets/drafts', { name, modality: 'image' }),
    (d) => d.id,
  )
  const upload = await stage(
    'open upload',
    () => openUpload(client, dataset.id, archive.path),
    (u) => `${u.size} bytes in ${u.chunks} chunks`,
  )
  await stage(
    'upload, interrupted',
    () => uploadAndBreakOff(client, dataset.id, upload, archive.path),
    () => 'connection cut in the middle of a chunk',
  )
  await stage(
    'upload, resumed',
    (bar) => resumeUpload(client, dataset.id, upload, archive.path, bar),
    (sent) => `${sent} chunks were missing`,
  )
  await stage(
    'assemble and validate',
    (bar) => completeUpload(client, dataset.id, upload, bar),
    (r) => `${r.created} files, ${r.skipped} skipped`,
  )
  await stage(
    'freeze',
    () => client.send('POST', `/api/v1/datasets/${dataset.id}:freeze`),
    (d) => d.digest ?? '',
  )

  const model = options.model ?? (archive.generated ? 'small_cnn' : 'resnet18')
  const started = await stage(
    'start training',
    () => startTraining(client, dataset.id, name, model, options.epochs),
    (e) => `${model}, experiment ${e.id}`,
  )
  const followed = await stage(
    'train',
    (bar) => followExperiment(client, started.id, bar),
    (f) => `${f.metricPoints} metric points, ${f.logLines} log lines live`,
  )
  const series = await stage(
    'read metrics',
    () => client.get(`/api/v1/training/experiments/${started.id}/metrics`),
    (m) => `${m.series.length} series`,
  )
  if (!series.series.some((s: { points: unknown[] }) => s.points.length > 0))
    throw new JobError('the experiment has no metric points')

  const version = await stage(
    'find model version',
    () => findVersion(client, name, followed.experiment.tracker_run_id),
    (v) => `${name} version ${v.version}`,
  )
  const image = await stage(
    'build image',
    (bar) => buildImage(client, { name, version: version.version }, bar),
    (i) => i.reference ?? i.digest,
  )
  const pulled = await stage(
    'pull image by digest',
    (bar) => pullImage(client, image.repository, image.digest, bar),
    (p) => `${p.layers} layers, ${(p.bytes / 1e6).toFixed(0)} MB, every digest checked`,
  )

  const endpoint = name
  await stage('create endpoint', (bar) => createEndpoint(client, endpoint, image.id, bar))
  const measured = await stage(
    'predict held-out images',
    (bar) => measure(client, endpoint, archive.heldOut, bar),
    (m) => `${m.correct} of ${m.images} right`,
  )
  await stage('stop endpoint', () =>
    client
      .send('POST', `/api/v1/serving/endpoints/${endpoint}/stop`)
      .then(() => waitForState(client, endpoint, 'STOPPED')),
  )
  await stage('start endpoint', (bar) =>
    client
      .send('POST', `/api/v1/serving/endpoints/${endpoint}/start`)
      .then(() => waitForState(client, endpoint, 'RUNNING', bar)),
  )
  await measure(client, endpoint, archive.heldOut.slice(0, 1), () => undefined)
  await stage('delete endpoint', () => deleteEndpoint(client, endpoint))

  return {
    dataset: { id: dataset.id, held_out_images: archive.heldOut.length, generated: archive.generated },
    experiment: {
      id: started.id,
      model,
      steps: followed.steps,
      metric_points: followed.metricPoints,
      log_lines: followed.logLines,
    },
    image: { digest: image.digest, bytes: pulled.bytes },
    accuracy: measured.correct / measured.images,
    latency_ms: {
      p50: percentile(measured.latencies, 0.5),
      p95: percentile(measured.latencies, 0.95),
      p99: percentile(measured.latencies, 0.99),
    },
  }
}

function startTraining(client: Client, datasetId: string, name: string, model: string, epochs?: number) {
  return client.send('POST', '/api/v1/training/experiments', {
    task: 'image_classification',
    framework: 'torchvision',
    model,
    dataset_id: datasetId,
    experiment_name: name,
    register_model: true,
    register_model_name: name,
    ...(epochs ? { hyperparameters: `epochs: ${epochs}\n` } : {}),
  })
}

/** The version whose tracker run is the experiment's. */
async function findVersion(client: Client, name: string, runId: string) {
  const { items } = await client.get(`/api/v1/models/${name}/versions`)
  const version = items.find((item: { run_id?: string }) => item.run_id === runId)
  if (!version) throw new JobError(`model ${name} has no version from the tracker run ${runId}`)
  return client.get(`/api/v1/models/${name}/versions/${version.version}`)
}

async function main(): Promise<void> {
  const options = readOptions()
  const stages = createStages()
  const workFolder = await mkdtemp(join(tmpdir(), 'platform-mlops-main-job-'))
  let own: OwnPlatform | null = null
  try {
    const archive = await stages.stage(
      'prepare images',
      () => prepareArchive(options.source, workFolder),
      (a) => `${a.heldOut.length} held out${a.generated ? ', generated' : ''}`,
    )
    const connection = await connect(stages, workFolder)
    own = connection.own
    const result = await runJob(connection.client, stages, archive, options)
    stages.table([
      ['held-out top-1', result.accuracy.toFixed(4)],
      ['held-out images', String(archive.heldOut.length)],
      [
        'latency p50 / p95 / p99',
        Object.values(result.latency_ms)
          .map((ms) => ms.toFixed(1))
          .join(' / ')
          .concat(' ms'),
      ],
      ['training', `${stages.seconds.train?.toFixed(1)} s`],
      [
        'all stages',
        `${Object.values(stages.seconds)
          .reduce((a, b) => a + b, 0)
          .toFixed(1)} s`,
      ],
    ])
    if (options.json)
      await writeFile(options.json, `${JSON.stringify({ ...result, seconds: stages.seconds }, null, 2)}\n`)
  } finally {
    await own?.stop()
    if (options.keep) console.log(`kept: ${workFolder}`)
    else await rm(workFolder, { recursive: true, force: true })
  }
}

main().catch((error) => {
  console.error(`\nThe job failed: ${error instanceof JobError ? error.message : (error.stack ?? error)}`)
  process.exit(1)
})
