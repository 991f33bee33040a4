import { fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

export interface OwnPlatform {
  url: string
  prepare(tenantCode: string): Promise<void>
  /** The line of the log that an answer with an error id leads to; null when there is none. */
  logOf(answer: string): Promise<string | null>
  stop(): Promise<void>
}

/** Starts a platform with a folder of its own, which goes when it stops. Throws when it does not come up. */
export async function startOwnPlatform(password: string): Promise<OwnPlatform> {
  const folder = await mkdtemp(join(tmpdir(), 'platform-fuzz-'))
  const child = fork(join(import.meta.dirname, 'platform.process.ts'), [folder, password])
  const exited = once(child, 'exit')
  const told = (key: 'url' | 'prepared', wanted?: string) => {
    const { promise, resolve, reject } = Promise.withResolvers<string>()
    const take = (message: Record<string, string>) => {
      if (!(key in message) || (wanted && message[key] !== wanted)) return
      child.off('message', take)
      resolve(message[key]!)
    }
    child.on('message', take)
    void exited.then(() => reject(new Error('the platform ended')))
    return promise
  }
  return {
    url: await told('url'),
    async prepare(tenantCode) {
      const ready = told('prepared', tenantCode)
      child.send({ prepare: tenantCode })
      await ready
    },
    async logOf(answer) {
      const id = /"error_id":"(\w+)"/.exec(answer)?.[1]
      if (!id) return null
      // The log is written a moment after the answer.
      await sleep(300)
      const lines = (await readFile(join(folder, 'platform.log'), 'utf8')).split('\n')
      return lines.find((line) => line.includes(id))?.slice(0, 1500) ?? null
    },
    async stop() {
      if (child.exitCode === null && child.connected) child.send({ stop: true })
      await exited
      await rm(folder, { recursive: true, force: true })
    },
  }
}
