import { once } from 'node:events'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type CommandOptions, probePython, runCommand } from './trainer-probe.ts'

/** Debian's packages for training. Without the last one its torch falls back to a BLAS ten times slower. */
const debianPackages = ['python3-torch', 'python3-torchvision', 'libopenblas0-pthread']
const debianPython = '/usr/bin/python3'
const cpuWheels = 'https://download.pytorch.org/whl/cpu'
const lockRetryMs = 500

/** What came of a way to install: the interpreter, or why it did not work. */
export type Installation = { python: string } | { reason: string }

/** Where the virtual environment of an instance lies, and the interpreter in it. */
export function venvPython(dataFolder: string): string {
  return join(dataFolder, 'trainer-venv', 'bin', 'python')
}

/**
 * Do the work while no other process of this user installs; waits for its turn.
 * The lock is a name in Linux' abstract socket space, which the kernel frees when its holder dies, however it dies.
 */
export async function withInstallationLock<T>(work: () => Promise<T>, { report, signal }: CommandOptions): Promise<T> {
  const name = `\0platform-mlops-trainer-installation-${process.getuid?.() ?? 0}`
  const server = createServer()
  const attempt = () => {
    // `once` takes its listeners off again: one may wait for minutes, with an attempt every half second.
    const listening = once(server, 'listening').then(() => true)
    server.listen(name)
    return listening.catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'EADDRINUSE') return false
      throw error
    })
  }
  for (let waits = 0; !(await attempt()); waits++) {
    if (waits === 0) report?.('Another process is installing the training environment: waiting for it.')
    await sleep(lockRetryMs, undefined, { signal })
  }
  try {
    return await work()
  } finally {
    await new Promise<void>((resolve) => server.close(() => resolve()))
  }
}

/** Install Debian's packages; only root can, and only where apt-get is. */
export async function installWithApt(options: CommandOptions): Promise<Installation> {
  if (process.getuid?.() !== 0) return { reason: 'only root may install packages' }
  if ((await runCommand('apt-get', ['--version'], { signal: options.signal })).code !== 0)
    return { reason: 'there is no apt-get' }
  options.report?.(`Installing ${debianPackages.join(', ')} (about 150 MB).`)
  const apt = (...args: string[]) =>
    runCommand('env', ['DEBIAN_FRONTEND=noninteractive', 'apt-get', '-o', 'DPkg::Lock::Timeout=600', ...args], options)
  // An update that fails need not matter: the lists may be there already.
  await apt('update', '-q')
  const { code, lines } = await apt('install', '-y', '-q', '--no-install-recommends', ...debianPackages)
  if (code !== 0)
    return { reason: lines.findLast((line) => line.startsWith('E:')) ?? `apt-get ended with code ${code}` }
  return { python: debianPython }
}

/** Make the virtual environment of this instance with CPU wheels, from the first of these interpreters that can. */
export async function installInVenv(
  basePythons: string[],
  dataFolder: string,
  options: CommandOptions,
): Promise<Installation> {
  const folder = join(dataFolder, 'trainer-venv')
  let reason = 'there is no Python 3.9 or newer'
  for (const base of basePythons) {
    const recent = await runCommand(base, ['-c', 'import sys; sys.exit(sys.version_info < (3, 9))'], options)
    if (recent.code !== 0) continue
    options.report?.(`Making a virtual environment with ${base}.`)
    const made = await runCommand(base, ['-m', 'venv', '--clear', folder], options)
    const outcome = made.code === 0 ? await installWheels(venvPython(dataFolder), options) : { reason: lastLine(made) }
    if ('python' in outcome) return outcome
    reason = `${base}: ${outcome.reason}`
    options.report?.(reason)
  }
  return { reason }
}

async function installWheels(python: string, options: CommandOptions): Promise<Installation> {
  const pip = (...args: string[]) =>
    runCommand(python, ['-m', 'pip', 'install', '--disable-pip-version-check', '--progress-bar=off', ...args], options)
  options.report?.('Installing torch and torchvision by pip (about 200 MB for the CPU).')
  let torch = await pip('torch', 'torchvision', '--index-url', cpuWheels)
  if (torch.code !== 0) {
    options.report?.('The CPU wheels are out of reach: taking the usual ones, which may bring 3 GB for GPUs.')
    torch = await pip('torch', 'torchvision')
  }
  if (torch.code !== 0) return { reason: lastLine(torch) }
  // From torch 2 on the ONNX exporter imports the onnx package.
  const rest = await pip('numpy', 'pillow', 'onnx')
  if (rest.code !== 0) return { reason: lastLine(rest) }
  let probe = await probePython(python, options.signal)
  if ('reason' in probe && (await pip('numpy<2')).code === 0) probe = await probePython(python, options.signal)
  return 'reason' in probe ? { reason: probe.reason } : { python }
}

function lastLine({ code, lines }: { code: number; lines: string[] }): string {
  return lines.findLast((line) => /error/i.test(line)) ?? lines.at(-1) ?? `it ended with code ${code}`
}
