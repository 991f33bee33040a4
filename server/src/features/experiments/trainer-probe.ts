import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { machineEnvironment } from '../../platform/config.ts'

/** What a Python that can train says of itself. */
export interface TrainerPython {
  /** Absolute path of the interpreter. */
  python: string
  torchVersion: string
  torchvisionVersion: string
  device: 'cpu' | 'cuda'
  /** Debian's torch runs on the reference BLAS, ten to twenty times slower than on OpenBLAS. */
  slowBlas: boolean
  /** The interpreter and the folders its packages lie in: while none of them changes, neither does the answer. */
  places: string[]
}

export interface CommandOptions {
  report?: (line: string) => void
  signal?: AbortSignal
  timeoutMs?: number
}

const keptLines = 20
const probeTimeoutMs = 180_000

// A torch built for NumPy 1 imports beside NumPy 2 and fails only when an array is handed over, hence from_numpy.
const probeScript = `
import json, os, sys
assert sys.version_info >= (3, 9), "Python 3.9 or newer is needed, this is %d.%d" % sys.version_info[:2]
import numpy, PIL, torch, torchvision
torch.from_numpy(numpy.zeros(1)) @ torch.zeros(1).double()
try:
    slow = any("/blas/libblas.so" in line for line in open("/proc/self/maps"))
except OSError:
    slow = False
packages = {path for module in (numpy, PIL, torch, torchvision) for path in module.__path__}
places = {os.path.realpath(sys.executable), *packages, *map(os.path.dirname, packages)}
print(json.dumps({"python": sys.executable, "torchVersion": torch.__version__, "slowBlas": slow, "places": sorted(places),
    "torchvisionVersion": torchvision.__version__, "device": "cuda" if torch.cuda.is_available() else "cpu"}))
`

/** Whether this interpreter (a path or a name in PATH) can train, and if not the last line it said about why. */
export async function probePython(python: string, signal?: AbortSignal): Promise<TrainerPython | { reason: string }> {
  const { code, lines } = await runCommand(python, ['-c', probeScript], { signal, timeoutMs: probeTimeoutMs })
  const last = lines.at(-1) ?? `it ended with code ${code} and said nothing`
  if (code !== 0) return { reason: last }
  try {
    return JSON.parse(last) as TrainerPython
  } catch {
    return { reason: `it answered ${JSON.stringify(last)}` }
  }
}

/**
 * Run a command to its end, reporting each line of both outputs.
 * A command that cannot be started ends with code 127; an abort of the signal is thrown.
 */
export async function runCommand(
  command: string,
  args: string[],
  { report = () => {}, signal, timeoutMs }: CommandOptions = {},
): Promise<{ code: number; lines: string[] }> {
  signal?.throwIfAborted()
  const lines: string[] = []
  const take = (line: string) => {
    const text = line.trim()
    if (!text) return
    lines.push(text)
    if (lines.length > keptLines) lines.shift()
    report(text)
  }
  const child = spawn(command, args, {
    env: machineEnvironment(),
    stdio: ['ignore', 'pipe', 'pipe'],
    signal,
    timeout: timeoutMs,
  })
  for (const output of [child.stdout, child.stderr]) createInterface(output).on('line', take)
  const code = await new Promise<number>((resolve) => {
    child.on('error', (error) => {
      take(error.message)
      if (child.pid === undefined) resolve(127)
    })
    child.on('close', (exitCode) => resolve(exitCode ?? 128))
  })
  signal?.throwIfAborted()
  return { code, lines }
}
