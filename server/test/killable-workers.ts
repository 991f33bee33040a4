import { type ChildProcess, spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { afterEach } from 'vitest'
import type { TestPlatform } from './harness.ts'

/**
 * Starts workers of a platform as processes of their own, for the tests of a file to kill; what is left of them after
 * each test is killed too. `env` are settings besides those that every worker needs.
 */
export function killableWorkers(platform: () => TestPlatform, env: Record<string, string> = {}): () => ChildProcess {
  const workers: ChildProcess[] = []
  afterEach(() => {
    for (const worker of workers.splice(0)) worker.kill('SIGKILL')
  })
  return () => {
    const { database, dataDir } = platform()
    const worker = spawn(process.execPath, [fileURLToPath(new URL('../src/main.ts', import.meta.url))], {
      stdio: ['ignore', 'ignore', 'ignore'],
      env: {
        PATH: process.env.PATH,
        PLATFORM_MLOPS_DATABASE_URL: database.ownerUrl,
        PLATFORM_MLOPS_DATA_DIR: dataDir,
        PLATFORM_MLOPS_ROLES: 'worker',
        PLATFORM_MLOPS_LOG_LEVEL: 'silent',
        ...env,
      },
    })
    workers.push(worker)
    return worker
  }
}
