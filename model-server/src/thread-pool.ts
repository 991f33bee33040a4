import { type Transferable, Worker } from 'node:worker_threads'
import type { ThreadMessage } from './thread-tasks.ts'

const respawnDelayMs = 1_000
// A thread's objects die young and small; V8 would keep some 50 MB of nursery for each before it cleans up.
const resourceLimits = { maxYoungGenerationSizeMb: 4 }

/** The task itself failed; its thread goes on. */
export class TaskFault extends Error {}

/** The thread died, or none is left to take the task. */
export class ThreadLost extends Error {}

/** Threads that each do one task at a time; a thread that dies fails its task and is replaced. */
export type ThreadPool<Task, Result> = {
  /** Resolves when every thread is loaded; rejects with the reason of the first that cannot load. */
  started: Promise<void>
  size: number
  idle(): number
  /** Whether any thread is loaded, busy or not. */
  ready(): boolean
  /** Whether every thread died and none is being replaced yet: waiting work has nobody to wait for. */
  lost(): boolean
  /** Waits in line for a thread. Rejects with `TaskFault` or `ThreadLost`. */
  run(task: Task, transfer: Transferable[]): Promise<Result>
  close(): Promise<void>
}

type PoolOptions = {
  file: URL
  size: number
  workerData: unknown
  /** A thread became free, or the last one was lost. */
  onChange?: () => void
  onThreadLost?: (reason: string) => void
}

type Job<Task, Result> = {
  task: Task
  transfer: Transferable[]
  resolve: (result: Result) => void
  reject: (error: Error) => void
}

type Thread<Task, Result> = { worker: Worker; ready: boolean; job?: Job<Task, Result>; failure?: string }

export function createThreadPool<Task, Result>(options: PoolOptions): ThreadPool<Task, Result> {
  const threads = new Set<Thread<Task, Result>>()
  const line: Job<Task, Result>[] = []
  const start = Promise.withResolvers<void>()
  let closing = false

  function spawn(): void {
    if (closing) return
    const thread: Thread<Task, Result> = {
      worker: new Worker(options.file, { workerData: options.workerData, resourceLimits }),
      ready: false,
    }
    threads.add(thread)
    thread.worker.on('message', (message: ThreadMessage<Result>) => receive(thread, message))
    thread.worker.on('error', (error) => {
      thread.failure = error.message
    })
    thread.worker.on('exit', (code) => lose(thread, thread.failure ?? `thread ended with code ${code}`))
  }

  function receive(thread: Thread<Task, Result>, message: ThreadMessage<Result>): void {
    const { job } = thread
    delete thread.job
    if (message.kind === 'ready') thread.ready = true
    else if (message.kind === 'result') job?.resolve(message.result)
    else job?.reject(new TaskFault(message.message))
    if (readyCount() === options.size) start.resolve()
    assign()
    options.onChange?.()
  }

  function lose(thread: Thread<Task, Result>, reason: string): void {
    threads.delete(thread)
    thread.job?.reject(new ThreadLost(reason))
    if (closing) return
    options.onThreadLost?.(reason)
    start.reject(new Error(reason))
    // A thread that dies while loading would die again at once.
    if (thread.ready) spawn()
    else setTimeout(spawn, respawnDelayMs).unref()
    if (threads.size === 0) for (const job of line.splice(0)) job.reject(new ThreadLost(reason))
    options.onChange?.()
  }

  function assign(): void {
    for (const thread of threads) {
      if (line.length === 0) return
      if (!thread.ready || thread.job) continue
      const job = line.shift()!
      try {
        thread.worker.postMessage(job.task, job.transfer)
        thread.job = job
      } catch (error) {
        job.reject(error as Error)
      }
    }
  }

  const readyCount = (): number => [...threads].filter((thread) => thread.ready).length

  for (let count = 0; count < options.size; count += 1) spawn()
  return {
    started: start.promise,
    size: options.size,
    idle: () => [...threads].filter((thread) => thread.ready && !thread.job).length - line.length,
    ready: () => readyCount() > 0,
    lost: () => threads.size === 0,
    run: (task, transfer) =>
      new Promise((resolve, reject) => {
        if (threads.size === 0) return reject(new ThreadLost('no thread is left'))
        line.push({ task, transfer, resolve, reject })
        assign()
      }),
    close: async () => {
      closing = true
      for (const job of line.splice(0)) job.reject(new ThreadLost('closing'))
      await Promise.all([...threads].map((thread) => thread.worker.terminate()))
    },
  }
}
