import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createTestDatabase, type TestDatabase } from '../test/database.ts'
import { startServerProcess } from '../test/server-process.ts'

let database: TestDatabase
let dataDir: string
beforeAll(async () => {
  database = await createTestDatabase()
  dataDir = await mkdtemp(join(tmpdir(), 'platform-mlops-'))
})
afterAll(async () => {
  await database?.drop()
  await rm(dataDir, { recursive: true, force: true })
})

test('a Ctrl-C that arrives from the terminal and from npm at once ends the server in order', async () => {
  const server = await startServerProcess(database, dataDir)
  expect(await server.end('SIGINT', 'SIGTERM')).toBe(0)
})
