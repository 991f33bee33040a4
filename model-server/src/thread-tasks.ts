import { parentPort, type Transferable } from 'node:worker_threads'

/** What a thread of a pool tells its owner. */
export type ThreadMessage<Result> =
  | { kind: 'ready' }
  | { kind: 'result'; result: Result }
  | { kind: 'fault'; message: string }

/** Answers the tasks that the owning pool sends, one at a time; call it once everything is loaded. */
export function serveTasks<Task, Result>(handle: (task: Task) => Promise<[Result, Transferable[]]>): void {
  const port = parentPort
  if (!port) throw new Error('serveTasks runs in a worker thread')
  const answer = async (task: Task): Promise<void> => {
    try {
      const [result, transfer] = await handle(task)
      port.postMessage({ kind: 'result', result } satisfies ThreadMessage<Result>, transfer)
    } catch (error) {
      port.postMessage({ kind: 'fault', message: (error as Error).message } satisfies ThreadMessage<Result>)
    }
  }
  port.on('message', (task: Task) => void answer(task))
  port.postMessage({ kind: 'ready' } satisfies ThreadMessage<Result>)
}

/**
 * A view that owns its whole memory, and so can be handed to another thread without copying.
 * Copies only a view into larger memory (Node keeps small buffers in a shared pool).
 */
export function ownMemory<View extends Uint8Array | Float32Array>(view: View): View
export function ownMemory(view: Uint8Array | Float32Array): Uint8Array | Float32Array {
  if (view.byteLength === view.buffer.byteLength) return view
  return view instanceof Float32Array ? new Float32Array(view) : new Uint8Array(view)
}
