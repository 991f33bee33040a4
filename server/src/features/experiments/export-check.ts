import { fileURLToPath } from 'node:url'
import { experimentFailure } from './job-failure.ts'
import { runCommand } from './trainer-probe.ts'

const script = fileURLToPath(new URL('../../../../model-server/src/check-export.ts', import.meta.url))
const timeoutMs = 10 * 60_000

/**
 * Runs the exported model as it will be served and compares it with what the framework answered; gives the largest
 * difference. In a process of its own, because the runtime blocks the event loop and may crash on a broken file.
 */
export async function checkExport(modelFolder: string, checkFile: string, signal: AbortSignal): Promise<number> {
  const { code, lines } = await runCommand(process.execPath, [script, modelFolder, checkFile], { signal, timeoutMs })
  const last = lines.at(-1) ?? `the check ended with the code ${code} and said nothing`
  if (code === 0) return (JSON.parse(last) as { max_difference: number }).max_difference
  throw experimentFailure({
    step: 'verify',
    reason: 'export_check',
    message: `The exported model does not answer as the trained one: ${last}.`,
    remedy: 'Choose another export.opset or another model.',
    log_tail: lines,
  })
}
