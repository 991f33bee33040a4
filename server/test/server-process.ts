import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { pino } from 'pino'
import type { Compute } from '../src/adapters/compute/compute.ts'
import { localCompute } from '../src/adapters/compute/local/local.driver.ts'
import type { TestDatabase } from './database.ts'
import { signIn, type TestClient, testPassword } from './harness.ts'

const main = fileURLToPath(new URL('../src/main.ts', import.meta.url))

export interface ServerProcess {
  url: string
  /** Global administrator; chooses the tenant `default`. */
  admin: TestClient
  /** SIGTERM as an operator ends it, SIGKILL as a power cut does; several arrive together. Gives its exit code. */
  end(...signals: NodeJS.Signals[]): Promise<number | null>
}

/** The whole server in a process of its own, so that it can be killed; another one may go on with the same data. */
export async function startServerProcess(
  database: TestDatabase,
  dataDir: string,
  settings: Record<string, string> = {},
): Promise<ServerProcess> {
  const child = spawn(process.execPath, [main], {
    stdio: ['ignore', 'ignore', 'pipe'],
    env: {
      PATH: process.env.PATH,
      PLATFORM_MLOPS_DATABASE_URL: database.ownerUrl,
      PLATFORM_MLOPS_DATA_DIR: dataDir,
      PLATFORM_MLOPS_PORT: '0',
      PLATFORM_MLOPS_ADMIN_PASSWORD: testPassword,
      PLATFORM_MLOPS_LOG_LEVEL: 'error',
      ...settings,
    },
  })
  const exited = new Promise<number | null>((resolve) => child.once('exit', resolve))
  let said = ''
  const url = await new Promise<string>((resolve, reject) => {
    child.stderr.on('data', (piece) => {
      said += piece
      const address = /Address\s+(http:\S+)/.exec(said)
      if (address) resolve(address[1]!)
    })
    void exited.then(() => reject(new Error(`the server ended: ${said}`)))
  })
  return {
    url,
    admin: await signIn(url, 'admin@example.com', 'default'),
    end(...signals) {
      for (const signal of signals) child.kill(signal)
      return exited
    },
  }
}

/** The works of a server, also while it is dead. */
export const openCompute = (dataDir: string): Promise<Compute> =>
  localCompute({ folder: join(dataDir, 'compute'), log: pino({ level: 'silent' }) })
