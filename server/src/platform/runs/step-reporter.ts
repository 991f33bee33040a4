import type { Tx } from '../db/transaction.ts'

const flushMs = 250
const logFlushBytes = 64 * 1024

export interface Report {
  progress: { fraction: number; message: string | null } | null
  log: string
}

/**
 * Collects what a step says many times a second and writes it a few times a second, in order, one write at a time.
 */
export class StepReporter {
  #write: (report: Report) => Promise<void>
  #progress: Report['progress'] = null
  #log: string[] = []
  #logBytes = 0
  #timer: NodeJS.Timeout | null = null
  #chain: Promise<void> = Promise.resolve()

  constructor(write: (report: Report) => Promise<void>) {
    this.#write = write
  }

  progress(fraction: number, message?: string): void {
    const bounded = Math.min(1, Math.max(0, Number.isFinite(fraction) ? fraction : 0))
    this.#progress = { fraction: bounded, message: message?.slice(0, 500) ?? this.#progress?.message ?? null }
    this.#arm()
  }

  log(line: string): void {
    // PostgreSQL text can't hold NUL, and a line is one line.
    const clean = `${line.replaceAll('\0', '�').replace(/\r?\n$/, '')}\n`
    this.#log.push(clean)
    this.#logBytes += clean.length
    if (this.#logBytes >= logFlushBytes) void this.flush().catch(() => undefined)
    else this.#arm()
  }

  /** Writes what has gathered; resolves when it and everything before it is written. */
  flush(): Promise<void> {
    if (this.#timer) clearTimeout(this.#timer)
    this.#timer = null
    if (!this.#progress && this.#log.length === 0) return this.#chain
    const report: Report = { progress: this.#progress, log: this.#log.join('') }
    this.#progress = null
    this.#log = []
    this.#logBytes = 0
    this.#chain = this.#chain.catch(() => undefined).then(() => this.#write(report))
    return this.#chain
  }

  #arm(): void {
    this.#timer ??= setTimeout(() => void this.flush().catch(() => undefined), flushMs)
  }
}

/** A transaction in the scope of the run. */
export type RunTransaction = <T>(work: (tx: Tx) => Promise<T>) => Promise<T>
