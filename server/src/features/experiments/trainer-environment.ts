import { mkdir, readFile, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
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
 * The answer is remembered in the data folder and checked with one start of the interpreter, which takes a second.
 * Throws service_unavailable with every reason and what to do when nothing works.
 */
export async function findTrainerEnvironment(options: TrainerEnvironmentOptions): Promise<TrainerEnvironment> {
  const { trainerPython, dataFolder, report, signal } = options
  if (trainerPython) return configured(trainerPython, signal)
  await mkdir(dataFolder, { recursive: true })
  const known = (await recall(dataFolder, signal)) ?? (await findInstalled(dataFolder, signal))
  if (known) return remember(dataFolder, known)
  report('No Python here imports torch: installing it. This happens once and takes one to several minutes.')
  const made = await withInstallationLock(
    async () => (await findInstalled(dataFolder, signal)) ?? (await install(options)),
    options,
  )
  return remember(dataFolder, made)
}

async function configured(python: string, signal?: AbortSignal): Promise<TrainerEnvironment> {
  const probe = await probePython(python, signal)
  if (!('reason' in probe)) return environment(probe, 'configured')
  throw serviceUnavailable(
    `TRAINER_PYTHON is ${python}, which cannot train: ${probe.reason}. ` +
      'Name a Python 3.9 or newer that imports torch, torchvision, numpy and PIL, or leave it out to have one found.',
  )
}

/** An interpreter that can train already, at full speed unless told; the instance's own environment comes first. */
async function findInstalled(
  dataFolder: string,
  signal?: AbortSignal,
  slowToo = false,
): Promise<TrainerEnvironment | null> {
  for (const candidate of [venvPython(dataFolder), ...systemPythons]) {
    const probe = await probePython(candidate, signal)
    if ('reason' in probe || (probe.slowBlas && !slowToo)) continue
    return environment(probe, candidate === venvPython(dataFolder) ? 'venv' : 'found')
  }
  return null
}

async function install({ dataFolder, report, signal }: TrainerEnvironmentOptions): Promise<TrainerEnvironment> {
  const ways: [TrainerEnvironment['source'], () => Promise<Installation>][] = [
    ['apt', () => installWithApt({ report, signal })],
    ['venv', () => installInVenv(systemPythons, dataFolder, { report, signal })],
  ]
  const reasons: string[] = []
  for (const [source, work] of ways) {
    const outcome = await work()
    const probe = 'python' in outcome ? await probePython(outcome.python, signal) : outcome
    if (!('reason' in probe)) return environment(probe, source)
    report(`${source}: ${probe.reason}`)
    reasons.push(`${source}: ${probe.reason}`)
  }
  const slow = await findInstalled(dataFolder, signal, true)
  if (slow) {
    report(`Training with ${slow.python} will be slow: install libopenblas0-pthread to make it ten times faster.`)
    return slow
  }
  throw serviceUnavailable(
    `No Python for training could be found or made (${reasons.join('; ')}). Install torch and torchvision, for ` +
      'instance with "apt-get install python3-torch python3-torchvision libopenblas0-pthread" or ' +
      '"pip install torch torchvision onnx", and name that Python in TRAINER_PYTHON.',
  )
}

async function recall(dataFolder: string, signal?: AbortSignal): Promise<TrainerEnvironment | null> {
  const content = await readFile(cacheFile(dataFolder), 'utf8').catch(() => '{}')
  const { python, source } = parsed(content)
  if (!python || !source) return null
  const probe = await probePython(python, signal)
  return 'reason' in probe ? null : environment(probe, source)
}

async function remember(dataFolder: string, found: TrainerEnvironment): Promise<TrainerEnvironment> {
  const unfinished = `${cacheFile(dataFolder)}.${process.pid}.unfinished`
  await writeFile(unfinished, `${JSON.stringify(found, null, 2)}\n`)
  await rename(unfinished, cacheFile(dataFolder))
  return found
}

function environment(probe: TrainerPython, source: TrainerEnvironment['source']): TrainerEnvironment {
  const { python, torchVersion, torchvisionVersion, device } = probe
  return { python, torchVersion, torchvisionVersion, device, source }
}

function parsed(content: string): Partial<TrainerEnvironment> {
  try {
    return JSON.parse(content) as Partial<TrainerEnvironment>
  } catch {
    return {}
  }
}

function cacheFile(dataFolder: string): string {
  return join(dataFolder, 'trainer-environment.json')
}
