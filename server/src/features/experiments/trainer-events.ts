import { open, stat } from 'node:fs/promises'

/** What a training job says, one JSON object per line. @source trainer/PROTOCOL.md "Events" */
export type TrainerEvent = { ts: number } & (
  | { type: 'plan'; steps: { id: string; title: string }[] }
  | {
      type: 'step'
      id: string
      state: 'running' | 'succeeded' | 'failed' | 'skipped'
      message: string
      progress?: number
    }
  | { type: 'progress'; percent: number; epoch: number; epochs: number }
  | { type: 'metrics'; points: { key: string; step: number; value: number; ts: number }[] }
  | { type: 'log'; level: string; message: string }
  | { type: 'artifact'; path: string; kind: string; size: number; sha256: string }
  | { type: 'result'; state: 'succeeded' | 'stopped'; metrics: Record<string, number>; best_epoch: number }
  | { type: 'error'; message: string; remedy: string }
)

const readBytes = 256 * 1024

/**
 * The whole lines of an event file from a byte offset on, at most 256 KiB of them, and where the next ones begin.
 * A file that is not there yet has none; a line that a crash tore is no event.
 */
export async function readTrainerEvents(
  path: string,
  offset: number,
): Promise<{ events: TrainerEvent[]; nextOffset: number }> {
  const nothing = { events: [], nextOffset: offset }
  const size = await sizeOf(path)
  if (size <= offset) return nothing
  const file = await open(path, 'r')
  try {
    const buffer = Buffer.allocUnsafe(Math.min(readBytes, size - offset))
    const { bytesRead } = await file.read(buffer, 0, buffer.length, offset)
    const end = buffer.subarray(0, bytesRead).lastIndexOf(10) + 1
    if (end > 0) return { events: parseLines(buffer.toString('utf8', 0, end)), nextOffset: offset + end }
    // No event is that long: whatever it is, what follows is worth more.
    return bytesRead === readBytes ? { events: [], nextOffset: offset + bytesRead } : nothing
  } finally {
    await file.close()
  }
}

async function sizeOf(path: string): Promise<number> {
  try {
    return (await stat(path)).size
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return 0
    throw error
  }
}

function parseLines(text: string): TrainerEvent[] {
  return text.split('\n').flatMap((line) => {
    try {
      const event = JSON.parse(line) as TrainerEvent
      return typeof event?.type === 'string' && typeof event.ts === 'number' ? [event] : []
    } catch {
      return []
    }
  })
}
