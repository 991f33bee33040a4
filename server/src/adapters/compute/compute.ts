import type { Readable } from 'node:stream'

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
  /**
   * Bytes of the combined output from `offset` on, at most `maxBytes`, cut at nothing in particular. A negative offset
   * counts from the end.
   */
  logs(handle: WorkHandle, offset: number, maxBytes: number): Promise<Buffer>
  /** Frees everything the driver kept of ended work (folder, logs). Running work is killed first. */
  remove(handle: WorkHandle): Promise<void>
  /** Everything of this instance that is still there, for adoption and for finding strays. */
  list(): Promise<{ handle: WorkHandle; status: WorkStatus }[]>
  /** Makes an image ready, so that `start` with it is quick; one that is there already costs nothing. */
  prepareImage(image: WorkImage, signal?: AbortSignal): Promise<void>
  /** Frees what the driver keeps of images other than these; one that is missing is made ready again by `start`. */
  keepImages(digests: ReadonlySet<string>): Promise<void>
}

export interface WorkSpec {
  /** Unique in this instance: `[a-z0-9][a-z0-9-]{0,62}`. */
  name: string
  /** Absolute program and its arguments, never passed through a shell; empty with an image: what the image starts. */
  command: string[]
  /** The files it runs from. Its variables stand behind those of `env`. */
  image?: WorkImage
  /** The whole environment; nothing of the server's own leaks in. PATH, HOME and TMPDIR are set when absent. */
  env: Record<string, string>
  /** Working directory, which must exist; absent with an image: the image's own. */
  folder?: string
  /**
   * The work answers on a TCP port: it gets HOST, PORT (0 means any free one) and, where it may choose, PORT_FILE to
   * write its choice to. `status` then tells the address.
   */
  listens?: boolean
  limits?: {
    /** Resident memory of all its processes together, in bytes; above it the work is killed with reason `memory`. */
    memoryBytes?: number
    /** Wall time in seconds; after it the work is asked to end, then killed, with reason `time`. */
    seconds?: number
  }
  /** For finding things by eye: tenant, kind, owner id. */
  labels?: Record<string, string>
}

/** An image that lies in a store of ours. @source OCI Image Specification 1.1 */
export interface WorkImage {
  /** Of the manifest. */
  digest: string
  /** From the lowest to the uppermost. */
  layers: { digest: string }[]
  /** The image configuration as JSON. */
  config: { config?: ImageRunConfig }
  /** Reads a layer. */
  open(digest: string): Promise<Readable>
}

/** The part of an image configuration that says how to run it. @source OCI Image Specification 1.1 "config" */
export interface ImageRunConfig {
  Entrypoint?: string[] | null
  Cmd?: string[] | null
  Env?: string[] | null
  WorkingDir?: string
}

export interface WorkHandle {
  driver: string
  name: string
}

export type WorkStatus =
  | { state: 'absent' }
  | {
      state: 'running'
      pid?: number
      startedAt: string
      memoryBytes?: number
      /** `host:port` of work that listens, once it does. */
      address?: string
    }
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
