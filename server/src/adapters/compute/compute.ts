/**
 * The compute port: jobs that end and workloads that stay, on whatever runs them (processes on this machine now;
 * a container engine and Kubernetes later). A handle is plain JSON, so it outlives the server: whoever holds it can
 * watch, stop or remove the work after any restart, and starting twice under one name starts once.
 */
export interface Compute {
  /**
   * Starts the work unless work of that name is there already (then its handle is returned: adoption).
   * Returns as soon as the work was accepted, not when it is up.
   */
  start(spec: WorkSpec): Promise<WorkHandle>
  /** What is known now; `{ state: 'absent' }` when nothing of that name was ever started or it was removed. */
  status(handle: WorkHandle): Promise<WorkStatus>
  /** Asks it to end (SIGTERM), and kills it after `graceMs`. Resolves when it has ended. Ended work is no error. */
  stop(handle: WorkHandle, graceMs: number): Promise<WorkStatus>
  /** Kills at once (SIGKILL to all its processes). */
  kill(handle: WorkHandle): Promise<WorkStatus>
  /** Bytes of the combined output from `offset` on, at most `maxBytes`, cut at nothing in particular. */
  logs(handle: WorkHandle, offset: number, maxBytes: number): Promise<Buffer>
  /** Frees everything the driver kept of ended work (folder, logs). Running work is killed first. */
  remove(handle: WorkHandle): Promise<void>
  /** Everything of this instance that is still there, for adoption and for finding strays. */
  list(): Promise<{ handle: WorkHandle; status: WorkStatus }[]>
}

export interface WorkSpec {
  /** Unique in this instance: `[a-z0-9][a-z0-9-]{0,62}`. */
  name: string
  /** Absolute program and its arguments; never passed through a shell. */
  command: string[]
  /** The whole environment; nothing of the server's own leaks in. PATH, HOME and TMPDIR are set when absent. */
  env: Record<string, string>
  /** Working directory, which must exist. */
  folder: string
  limits?: {
    /** Resident memory of all its processes together, in bytes; above it the work is killed with reason `memory`. */
    memoryBytes?: number
    /** Wall time in seconds; after it the work is asked to end, then killed, with reason `time`. */
    seconds?: number
  }
  /** For finding things by eye: tenant, kind, owner id. */
  labels?: Record<string, string>
}

export interface WorkHandle {
  driver: string
  name: string
}

export type WorkStatus =
  | { state: 'absent' }
  | { state: 'running'; pid?: number; startedAt: string; memoryBytes?: number }
  | {
      state: 'ended'
      startedAt: string
      endedAt: string
      /** Exit code, or null when a signal ended it. */
      exitCode: number | null
      signal: string | null
      /** Why it ended: on its own, because it was asked, over a limit, or unknown (it vanished while nobody watched). */
      reason: 'exited' | 'stopped' | 'killed' | 'memory' | 'time' | 'lost'
    }

declare module '../../platform/context.ts' {
  interface Adapters {
    compute: Compute
  }
}
