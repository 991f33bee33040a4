import { execFile } from 'node:child_process'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createTestDatabase, type TestDatabase } from '../test/database.ts'

const program = fileURLToPath(new URL('./backup.ts', import.meta.url))
let database: TestDatabase
let folder: string
beforeAll(async () => {
  database = await createTestDatabase()
  folder = await mkdtemp(`${tmpdir()}/backup-command-`)
})
afterAll(async () => {
  await database?.drop()
  await rm(folder, { recursive: true, force: true })
})

/** What the command says at its end: on standard output when it worked. */
const run = (args: string[], env: Record<string, string>) =>
  promisify(execFile)(process.execPath, [program, ...args], {
    cwd: folder,
    env: { PATH: process.env.PATH, PLATFORM_MLOPS_DATA_DIR: `${folder}/data`, ...env },
  }).catch((error: { stderr: string }) => ({ stdout: '', stderr: error.stderr }))

describe('npm run backup -- --taken', () => {
  test('notes a backup of a database server of one’s own', async () => {
    const before = Date.now()
    const { stdout } = await run(['backup', '--taken'], { PLATFORM_MLOPS_DATABASE_URL: database.ownerUrl })
    expect(stdout).toContain('Noted')
    const { rows } = await database.pool.query('select taken_at, kind from backups')
    expect(rows).toEqual([{ taken_at: expect.any(Date), kind: 'other' }])
    expect(rows[0].taken_at.getTime()).toBeGreaterThanOrEqual(before)
  })

  test('is refused for the embedded database, and no option is taken for a file', async () => {
    for (const [option, message] of [
      ['--taken', 'embedded'],
      ['--help', 'Usage'],
    ] as const) {
      const { stdout, stderr } = await run(['backup', option], {})
      expect([stdout, stderr]).toEqual(['', expect.stringContaining(message)])
    }
    expect(await readdir(folder)).toEqual([])
  })
})
