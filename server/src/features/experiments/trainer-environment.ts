import { mkdir, readFile, rename, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { serviceUnavailable } from '../../platform/errors.ts'
import {
  type Installation,
  installInVenv,
  installWithApt,
  venvPython,
  withInstallationLock,
} from './trainer-installation.ts'
import { probePython, type TrainerPython } from './trainer-probe.ts'

/** A Python that can train, and how it was come by. */
export interface TrainerEnvironment {
  python: string
  torchVersion: string
  torchvisionVersion: string
  device: 'cpu' | 'cuda'
  source: 'configured' | 'found' | 'apt' | 'venv'
}

interface Found {
  probe: TrainerPython
  source: TrainerEnvironment['source']
}

export interface TrainerEnvironmentOptions {
  /** The interpreter the operator named; when given, no other is tried. */
  trainerPython?: string
  /** Where the virtual environment and the remembered answer lie. */
  dataFolder: string
  /** Hears what is being tried and each line an installation prints. */
  report: (line: string) => void
  signal?: AbortSignal
}

const minorVersions = [13, 12, 11, 10, 9]
const systemPythons = ['python3', 'python', '/usr/bin/python3', ...minorVersions.map((minor) => `python3.${minor}`)]

/**
 * The Python that training jobs run on: the configured one, else one that imports torch, else one installed now.
 * The answer is remembered in the data folder until the interpreter or its packages change: asking it takes seconds.
 * Throws service_unavailable with every reason and what to do when nothing works.
 */
export async function findTrainerEnvironment(options: TrainerEnvironmentOptions): Promise<TrainerEnvironment> {
  const { trainerPython, dataFolder, signal } = options
  await mkdir(dataFolder, { recursive: true })
  const known = await recallTrainerEnvironment(options)
  if (known) return known
  const found = await (trainerPython ? configured(trainerPython, signal) : findOrInstall(options))
  return remember(dataFolder, trainerPython, found)
}

async function findOrInstall(options: TrainerEnvironmentOptions): Promise<Found> {
  const { dataFolder, report, signal } = options
  const known = await findInstalled(dataFolder, signal)
  if (known) return known
  report('No Python here imports torch: installing it. This happens once and takes one to several minutes.')
  return withInstallationLock(
    async () => (await findInstalled(dataFolder, signal)) ?? (await install(options)),
    options,
  )
}

async function configured(python: string, signal?: AbortSignal): Promise<Found> {
  const probe = await probePython(python, signal)
  if (!('reason' in probe)) return { probe, source: 'configured' }
  throw serviceUnavailable(
    `PLATFORM_MLOPS_TRAINER_PYTHON is ${python}, which cannot train: ${probe.reason}. ` +
      'Name a Python 3.9 or newer that imports torch, torchvision, numpy and PIL, or leave it out to have one found.',
  )
}

/** An interpreter that can train already, at full speed unless told; the instance's own environment comes first. */
async function findInstalled(dataFolder: string, signal?: AbortSignal, slowToo = false): Promise<Found | null> {
  for (const candidate of [venvPython(dataFolder), ...systemPythons]) {
    const probe = await probePython(candidate, signal)
    if ('reason' in probe || (probe.slowBlas && !slowToo)) continue
    return { probe, source: candidate === venvPython(dataFolder) ? 'venv' : 'found' }
  }
  return null
}

async function install({ dataFolder, report, signal }: TrainerEnvironmentOptions): Promise<Found> {
  const ways: [TrainerEnvironment['source'], () => Promise<Installation>][] = [
    ['apt', () => installWithApt({ report, signal })],
    ['venv', () => installInVenv(systemPythons, dataFolder, { report, signal })],
  ]
  const reasons: string[] = []
  for (const [source, work] of ways) {
    const outcome = await work()
    const probe = 'python' in outcome ? await probePython(outcome.python, signal) : outcome
    if (!('reason' in probe)) return { probe, source }
    report(`${source}: ${probe.reason}`)
    reasons.push(`${source}: ${probe.reason}`)
  }
  const slow = await findInstalled(dataFolder, signal, true)
  if (slow) {
    report(`Training with ${slow.probe.python} will be slow: install libopenblas0-pthread to make it ten times faster.`)
    return slow
  }
  throw serviceUnavailable(
    `No Python for training could be found or made (${reasons.join('; ')}). Install torch and torchvision, for ` +
      'instance with "apt-get install python3-torch python3-torchvision libopenblas0-pthread" or ' +
      '"pip install torch torchvision onnx", and name that Python in PLATFORM_MLOPS_TRAINER_PYTHON.',
  )
}

/** What is written down of the last answer. */
interface Memory {
  environment: TrainerEnvironment
  /** The interpreter that was configured then, or null. */
  configured: string | null
  /** When each place of the interpreter and its packages was last changed, in milliseconds since 1970. */
  changedAt: Record<string, number>
}

/** The answer of before, or null when there is none that still holds. */
export async function recallTrainerEnvironment({
  trainerPython,
  dataFolder,
}: Pick<TrainerEnvironmentOptions, 'trainerPython' | 'dataFolder'>): Promise<TrainerEnvironment | null> {
  const { environment, configured, changedAt } = parsed(await readFile(cacheFile(dataFolder), 'utf8').catch(() => '{}'))
  if (!environment || !changedAt || configured !== (trainerPython ?? null)) return null
  const now = await timesOf(Object.keys(changedAt))
  return isDeepStrictEqual(now, changedAt) ? environment : null
}

async function remember(
  dataFolder: string,
  trainerPython: string | undefined,
  { probe, source }: Found,
): Promise<TrainerEnvironment> {
  const { places, slowBlas: _, ...told } = probe
  const environment = { ...told, source }
  const memory: Memory = { environment, configured: trainerPython ?? null, changedAt: await timesOf(places) }
  const unfinished = `${cacheFile(dataFolder)}.${process.pid}.unfinished`
  await writeFile(unfinished, `${JSON.stringify(memory, null, 2)}\n`)
  await rename(unfinished, cacheFile(dataFolder))
  return environment
}

/** A place that is gone has time 0. */
async function timesOf(places: string[]): Promise<Record<string, number>> {
  const timeOf = (place: string) =>
    stat(place).then(
      ({ mtimeMs }) => mtimeMs,
      () => 0,
    )
  return Object.fromEntries(await Promise.all(places.map(async (place) => [place, await timeOf(place)] as const)))
}

function parsed(content: string): Partial<Memory> {
  try {
    return JSON.parse(content) as Partial<Memory>
  } catch {
    return {}
  }
}

function cacheFile(dataFolder: string): string {
  return join(dataFolder, 'trainer-environment.json')
}
