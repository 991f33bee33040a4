import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { createWriteStream } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { JobError } from './client.ts'

export interface OwnPlatform {
  url: string
  password: string
  /** Ends it as an operator would. */
  stop(): Promise<void>
  /** Ends it as a power cut would: it learns nothing of it. */
  kill(): Promise<void>
}

const main = fileURLToPath(new URL('../../server/src/main.ts', import.meta.url))

/** Starts a platform on a free port with everything below `folder`; a second start there finds what the first left. */
export async function startOwnPlatform(
  folder: string,
  email: string,
  password = randomBytes(12).toString('base64url'),
): Promise<OwnPlatform> {
  const logPath = join(folder, 'platform.log')
  const inherited = Object.fromEntries(
    Object.entries(process.env).filter(([name]) => !/^PLATFORM_MLOPS_(DATABASE_URL|PUBLIC_URL|ROLES)$/.test(name)),
  )
  const child = spawn(process.execPath, [main], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: {
      ...inherited,
      PLATFORM_MLOPS_DATA_DIR: join(folder, 'data'),
      PLATFORM_MLOPS_PORT: '0',
      PLATFORM_MLOPS_HOST: '127.0.0.1',
      PLATFORM_MLOPS_ADMIN_EMAIL: email,
      PLATFORM_MLOPS_ADMIN_PASSWORD: password,
    },
  })
  const log = createWriteStream(logPath, { flags: 'a' })
  child.stdout.pipe(log, { end: false })
  child.stderr.pipe(log, { end: false })
  const exited = new Promise<void>((resolve) => child.once('exit', () => resolve()))
  const end = async (signal: 'SIGTERM' | 'SIGKILL') => {
    child.kill(signal)
    await exited
    log.end()
  }
  const url = await new Promise<string>((resolve, reject) => {
    let banner = ''
    child.stderr.on('data', (piece) => {
      banner += piece
      const match = /Address\s+(http:\/\/\S+)/.exec(banner)
      if (match) resolve(match[1]!)
    })
    void exited.then(async () =>
      reject(new JobError(`the platform did not start:\n${(await readFile(logPath, 'utf8')).slice(-2000)}`)),
    )
  })
  return { url, password, stop: () => end('SIGTERM'), kill: () => end('SIGKILL') }
}
