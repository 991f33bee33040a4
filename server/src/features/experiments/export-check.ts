import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { experimentFailure } from './job-failure.ts'

const script = fileURLToPath(new URL('../../../../model-server/src/check-export.ts', import.meta.url))
const timeoutMs = 10 * 60_000
const keptLines = 20

/**
 * Runs the exported model as it will be served and compares it with what the framework answered; gives the largest
 * difference. In a process of its own, because the runtime blocks the event loop and may crash on a broken file; with
 * nothing of the server's environment, because that holds its secrets.
 */
export async function checkExport(modelFolder: string, checkFile: string, signal: AbortSignal): Promise<number> {
  const { code, stdout, stderr } = await run([script, modelFolder, checkFile], signal)
  if (code === 0) return (JSON.parse(stdout.trim().split('\n').at(-1)!) as { max_difference: number }).max_difference
  const lines = `${stdout}${stderr}`.trim().split('\n').slice(-keptLines)
  const last = lines.at(-1) || `the check ended with ${code} and said nothing`
  throw experimentFailure({
    step: 'verify',
    reason: 'export_check',
    message: `The exported model does not answer as the trained one: ${last}.`,
    remedy: 'Choose another export.opset or another model.',
    log_tail: lines,
  })
}

interface Ended {
  /** Exit code, or the signal that ended it. */
  code: string | number
  stdout: string
  stderr: string
}

/** Throws nothing but the reason of an abort. */
function run(args: string[], signal: AbortSignal): Promise<Ended> {
  signal.throwIfAborted()
  return new Promise((resolve, reject) => {
    execFile(process.execPath, args, { env: {}, signal, timeout: timeoutMs }, (error, stdout, stderr) => {
      if (signal.aborted) reject(signal.reason)
      else resolve({ code: error ? (error.signal ?? error.code ?? 1) : 0, stdout, stderr })
    })
  })
}
