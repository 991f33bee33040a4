import { pathToFileURL } from 'node:url'
import { pino } from 'pino'
import { systemClock } from '../src/platform/clock.ts'
import { loadConfig } from '../src/platform/config.ts'
import type { Services } from '../src/platform/context.ts'
import { connectDatabase, externalUrls } from '../src/platform/db/database.ts'
import { defineRun, type StepRun, step } from '../src/platform/runs/define-run.ts'
import { startWorker } from '../src/platform/runs/worker.ts'

/** Stops for good in the step it is told to, the first time it gets there: the test kills the process then. */
async function pass(s: StepRun<{ stopIn: string }>, name: string): Promise<string> {
  s.log(`begin ${name}`)
  await new Promise((resolve) => setTimeout(resolve, 400))
  if (s.input.stopIn === name && !s.saved()) {
    await s.save({ been: 'here' })
    console.log(`in ${name}`)
    await new Promise(() => undefined)
  }
  s.log(`done ${name}`)
  return name
}

export const crashing = defineRun<{ stopIn: string }>({
  kind: 'test.crashing',
  steps: ['one', 'two', 'three'].map((name) => step(name, name, (s) => pass(s, name))),
})

// Run as a program: a worker of its own on the database of the test.
if (import.meta.url === pathToFileURL(process.argv[1]!).href) {
  const [ownerUrl, dataDir] = process.argv.slice(2) as [string, string]
  const log = pino({ level: 'warn' }, pino.destination(2))
  const db = await connectDatabase(externalUrls(ownerUrl), log, 5)
  const services = {
    db,
    log,
    clock: systemClock,
    config: loadConfig({ PLATFORM_MLOPS_DATA_DIR: dataDir }),
    adapters: {},
    publicUrl: '',
  }
  await startWorker({ services: services as unknown as Services, kinds: [crashing], pollMs: 300 })
  console.log('ready')
}
