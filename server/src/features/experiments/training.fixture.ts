import { spawnSync } from 'node:child_process'
import { expect } from 'vitest'
import { insertFrozenDataset } from '../../../test/frozen-dataset.ts'
import { eventually, startTestPlatform, type TestClient, type TestPlatform } from '../../../test/harness.ts'

/** What the tests of trainings ask for, and how they wait. */

export const experimentsPath = '/api/v1/training/experiments'

/** A Python that can train; tests that need one are skipped, visibly, where there is none. */
export const python = ['python3', '/usr/bin/python3'].find(
  (candidate) => spawnSync(candidate, ['-c', 'import torch, torchvision, numpy, PIL']).status === 0,
)

export const trainingSettings = {
  PLATFORM_MLOPS_TRAINER_PYTHON: python ?? '/nowhere',
  PLATFORM_MLOPS_TRAINER_THREADS: '1',
}

export interface TrainingPlatform {
  platform: TestPlatform
  /** Of the tenant `acme`, which has the frozen dataset `colours`. */
  developer: TestClient
  tenant: { id: string; code: string }
  /** Ends it with every training that a test which failed has left. */
  stop(): Promise<void>
}

/** A platform that can train. */
export async function startTrainingPlatform(settings: Record<string, string> = {}): Promise<TrainingPlatform> {
  const platform = await startTestPlatform({ ...trainingSettings, ...settings })
  const tenant = await platform.tenant('acme')
  const developer = await platform.member('acme', 'DEVELOPER')
  await insertFrozenDataset(platform.services, tenant.id, 'colours')
  return {
    platform,
    developer,
    tenant,
    async stop() {
      const { compute } = platform.services.adapters
      for (const { handle } of await compute.list()) await compute.kill(handle)
      await platform.stop()
    },
  }
}

export const quick = 'epochs: 2\nimage_size: 16\nbatch_size: 8\n'
export const endless = 'epochs: 10000\nimage_size: 16\nbatch_size: 8\n'

/** Trains the small network on the dataset `colours`; gives the experiment's id. */
export async function startTraining(
  client: TestClient,
  name: string,
  hyperparameters: string,
  more: object = {},
): Promise<string> {
  const reply = await client.post(experimentsPath, {
    task: 'image_classification',
    framework: 'torchvision',
    model: 'small_cnn',
    dataset_id: 'colours',
    experiment_name: name,
    hyperparameters,
    ...more,
  })
  expect(reply.status, reply.text).toBe(202)
  return reply.body.id
}

/** The experiment once it has ended. */
export const ended = (client: TestClient, id: string) =>
  eventually(async () => {
    const { body } = await client.get(`${experimentsPath}/${id}`)
    return body.ended_at && body
  }, 480)

/** Waits until so many epochs are done. */
export const underWay = (client: TestClient, id: string, epochs = 1) =>
  eventually(async () => {
    const { body } = await client.get(`${experimentsPath}/${id}`)
    if (body.ended_at) throw new Error(`it ended before: ${JSON.stringify(body.error)}`)
    return body.progress.epoch >= epochs
  }, 480)

export interface StreamEvent {
  name: string
  // biome-ignore lint/suspicious/noExplicitAny: tests look into events of every shape
  data: any
}

/** Reads the stream of an experiment until it has ended. */
export async function follow(url: string, client: TestClient, id: string): Promise<StreamEvent[]> {
  const headers = { authorization: `Bearer ${client.token}` }
  const response = await fetch(`${url}${experimentsPath}/${id}/logs?tenant=acme`, { headers })
  expect(response.headers.get('content-type')).toBe('text/event-stream')
  const events: StreamEvent[] = []
  let rest = ''
  for await (const text of response.body!.pipeThrough(new TextDecoderStream())) {
    const frames = (rest + text).split('\n\n')
    rest = frames.pop()!
    for (const frame of frames) {
      const [, name, data] = /event: (.*)\ndata: (.*)/.exec(frame) ?? []
      if (name) events.push({ name, data: JSON.parse(data!) })
    }
    if (events.some(({ name, data }) => name === 'experiment' && /SUCCEEDED|FAILED/.test(data.state))) break
  }
  return events
}

export const stepStates = (experiment: { steps: { name: string; state: string }[] }) =>
  experiment.steps.map(({ name, state }) => `${name} ${state}`)
