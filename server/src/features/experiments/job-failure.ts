import { statfs } from 'node:fs/promises'
import type { WorkHandle, WorkStatus } from '../../adapters/compute/compute.ts'
import type { TenantCtx } from '../../platform/context.ts'
import { PlatformError } from '../../platform/errors.ts'
import type { ExperimentError } from './experiments.store.ts'
import type { JobState } from './job-report.ts'
import { withoutPlaces } from './launch.ts'

const logReadBytes = 64 * 1024
const tailLines = 40
/** With less room than this nothing of use can be written. */
const fullBytes = 4 * 1024 ** 2

/** Why an experiment failed, as its owner reads it. */
export type FailureDetail = Omit<ExperimentError, 'message' | 'step'> & { step: string | null }

type Failure = Pick<ExperimentError, 'reason' | 'message'> & Partial<FailureDetail>

/** An error that ends a step of an experiment; its detail becomes the experiment's `error`. */
export function experimentFailure({ message, ...known }: Failure): PlatformError {
  const detail: FailureDetail = { step: null, remedy: null, exit_code: null, log_tail: [], ...known }
  return new PlatformError('internal_error', message, { detail })
}

/** Names why a job ended without a result; `tail` is the end of what it printed. */
export async function jobFailure(
  ctx: TenantCtx,
  { end, state }: { end: WorkStatus; state: JobState },
  tail: string[],
): Promise<PlatformError> {
  const exitCode = end.state === 'ended' ? end.exitCode : null
  const steps = state.jobSteps
  const step =
    steps.find(({ state }) => state === 'failed' || state === 'running') ?? steps.find(isOpen) ?? steps.at(-1)
  const told = { step: step?.id ?? null, exit_code: exitCode, log_tail: tail }
  if (end.state === 'ended' && end.reason === 'memory') return experimentFailure({ ...told, ...overLimit(ctx) })
  if (state.fault) return experimentFailure({ ...told, reason: 'trainer', ...state.fault })
  if (end.state === 'ended' && end.signal === 'SIGKILL')
    return experimentFailure({
      ...told,
      reason: 'memory',
      message: 'The job was killed by the system, most likely because the memory of the machine ran out.',
      remedy: 'Lower batch_size or image_size, choose a smaller model, or let fewer things run at the same time.',
    })
  // A job on a full disk cannot write down why it ends.
  if (await isFull(ctx.config.dataDir)) return experimentFailure({ ...told, ...diskFull })
  const how = end.state === 'ended' && end.signal ? `by the signal ${end.signal}` : `with the exit code ${exitCode}`
  return experimentFailure({
    ...told,
    reason: 'exit',
    message: `The job ended ${how} and gave no reason.`,
    remedy: 'The last lines of its output may tell more.',
  })
}

const diskFull = {
  reason: 'exit',
  message: 'The disk is full.',
  remedy: 'Free some space where the platform keeps its data, then train again.',
}

async function isFull(folder: string): Promise<boolean> {
  const { bavail, bsize } = await statfs(folder)
  return bavail * bsize < fullBytes
}

const isOpen = ({ state }: { state: string }) => state === 'pending'

const overLimit = (ctx: TenantCtx) => ({
  reason: 'memory',
  message: `The job went over its memory limit of ${ctx.config.trainingMemoryBytes} bytes.`,
  remedy:
    'Lower batch_size or image_size, choose a smaller model, or raise PLATFORM_MLOPS_TRAINING_MEMORY_BYTES of the server.',
})

/** The last lines of everything the job printed, the traceback included. */
export async function readLogTail(ctx: TenantCtx, handle: WorkHandle): Promise<string[]> {
  let tail = Buffer.alloc(0)
  for (let offset = 0; ; ) {
    const piece = await ctx.adapters.compute.logs(handle, offset, logReadBytes)
    if (piece.length === 0) break
    offset += piece.length
    tail = Buffer.concat([tail, piece]).subarray(-logReadBytes)
  }
  const text = withoutPlaces(tail.toString('utf8'), ctx.config)
  return text.replaceAll('\0', '�').trimEnd().split('\n').slice(-tailLines)
}
