import { createHash, randomBytes } from 'node:crypto'
import { copyFile, mkdir, mkdtemp, readdir, readFile, rm, stat, symlink, truncate, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import pino from 'pino'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type BackupResult, backup } from './backup.ts'
import { holdBlobs, mayDeleteBlobs } from './backup-lock.ts'
import { databaseFolderName, openDatabase } from './database.ts'
import { migrationsFolder } from './migrations.ts'
import { restore } from './restore.ts'
import { transaction } from './transaction.ts'

const log = pino({ level: 'silent' })
// The disk of the machine is not what is tested.
const settings = { fsync: 'off', shared_buffers: '32MB' }
const content = randomBytes(700_000)
const digest = createHash('sha256').update(content).digest('hex')
let folder: string
let dataFolder: string

const open = (root = dataFolder) =>
  openDatabase({ folder: join(root, databaseFolderName), log, settings, migrations: join(folder, 'migrations') })
const countOf = async (db: { pool: pg.Pool }) =>
  Number((await db.pool.query('select count(*) as count from things')).rows[0].count)

async function asOwner<T>(ownerUrl: string, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString: ownerUrl })
  await client.connect()
  try {
    return await work(client)
  } finally {
    await client.end()
  }
}

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'backup-'))
  dataFolder = join(folder, 'data')
  await mkdir(join(folder, 'migrations'))
  await copyFile(join(migrationsFolder, '0000_foundation.sql'), join(folder, 'migrations/0000_foundation.sql'))
  await mkdir(join(dataFolder, 'blobs/sha256'), { recursive: true })
  await writeFile(join(dataFolder, 'blobs/sha256', digest), content)
  await mkdir(join(dataFolder, 'secrets'), { mode: 0o700 })
  await writeFile(join(dataFolder, 'secrets/key'), 'secret', { mode: 0o600 })
  await writeFile(join(dataFolder, 'empty'), '')
  await mkdir(join(dataFolder, 'trainer-venv'))
  await writeFile(join(dataFolder, 'trainer-venv/large'), 'can be made again')
  await symlink('nowhere', join(dataFolder, 'link'))
})
afterAll(() => rm(folder, { recursive: true, force: true }))

async function checkRestored(result: BackupResult, rowsMin: number, rowsMax: number): Promise<void> {
  const restored = await mkdtemp(join(folder, 'restored-'))
  const manifest = await restore({ dataFolder: restored, source: result.path })
  expect(manifest).toMatchObject({ format: 1, postgresVersion: expect.stringMatching(/^18\./) })
  expect(manifest.files).toHaveLength(result.fileCount)
  expect((await readdir(restored)).sort()).toEqual(['blobs', databaseFolderName, 'empty', 'secrets'])
  expect(await readFile(join(restored, 'blobs/sha256', digest))).toEqual(content)
  expect((await stat(join(restored, 'secrets'))).mode & 0o777).toBe(0o700)
  expect((await stat(join(restored, 'secrets/key'))).mode & 0o777).toBe(0o600)
  const db = await open(restored)
  try {
    const count = await countOf(db)
    expect(count).toBeGreaterThanOrEqual(rowsMin)
    expect(count).toBeLessThanOrEqual(rowsMax)
  } finally {
    await db.close()
  }
}

describe('backup() and restore()', { timeout: 120_000 }, () => {
  const left: string[] = []
  const options = () => ({
    dataFolder,
    target: folder,
    exclude: ['trainer-venv'],
    log,
    report: (l: string) => left.push(l),
  })

  test('a working instance is copied while it writes, and the copy starts with everything there', async () => {
    const db = await open()
    try {
      await asOwner(db.ownerUrl, (client) => client.query('create table things (id int generated always as identity)'))
      const insert = () => db.pool.query('insert into things default values')
      for (let i = 0; i < 100; i++) await insert()
      let writing = true
      const writer = (async () => {
        while (writing) await insert()
      })()
      const result = await backup(options())
      writing = false
      await writer
      expect(await countOf(db)).toBeGreaterThan(100)
      expect((await stat(result.path)).mode & 0o777).toBe(0o600)
      expect(left).toEqual(['left out link: neither a file nor a folder'])
      await checkRestored(result, 100, await countOf(db))
    } finally {
      await db.close()
    }
  })

  test('a stopped instance is copied too, and stays stopped', async () => {
    const db = await open()
    const count = await countOf(db)
    await db.close()
    const result = await backup({ ...options(), target: join(folder, 'cold.tar') })
    expect(await readdir(join(dataFolder, databaseFolderName))).not.toContain('owner')
    await checkRestored(result, count, count)
  })

  test('refuses a target that exists or lies in the data folder, and a folder without a database', async () => {
    await expect(backup({ ...options(), target: join(folder, 'cold.tar') })).rejects.toThrow(/exists already/)
    await expect(backup({ ...options(), target: dataFolder })).rejects.toThrow(/outside the data folder/)
    await expect(backup({ ...options(), dataFolder: join(dataFolder, 'blobs') })).rejects.toThrow(
      /no embedded database/,
    )
  })

  test('refuses to restore over anything', async () => {
    const used = join(folder, 'used')
    await mkdir(used)
    await writeFile(join(used, 'file'), 'mine')
    await expect(restore({ dataFolder: used, source: join(folder, 'cold.tar') })).rejects.toThrow(/not empty/)
    expect(await readdir(used)).toEqual(['file'])
  })

  test('refuses a damaged or cut archive, and leaves the folder empty', async () => {
    const archive = await readFile(join(folder, 'cold.tar'))
    const damaged = join(folder, 'damaged.tar')
    const position = archive.indexOf(content.subarray(0, 64)) + 1000
    archive[position] = (archive[position] ?? 0) ^ 1
    await writeFile(damaged, archive)
    const target = join(folder, 'target')
    await expect(restore({ dataFolder: target, source: damaged })).rejects.toThrow(/damaged: blobs\/sha256/)
    expect(await readdir(target)).toEqual([])
    await truncate(damaged, archive.length - 700_000)
    await expect(restore({ dataFolder: target, source: damaged })).rejects.toThrow()
    expect(await readdir(target)).toEqual([])
  })
})

test('no blob may be deleted while a backup holds them', async () => {
  const db = await open()
  try {
    const may = () => transaction(db, 'system', mayDeleteBlobs)
    expect(await may()).toBe(true)
    await asOwner(db.ownerUrl, async (client) => {
      await holdBlobs(client)
      expect(await may()).toBe(false)
    })
    expect(await may()).toBe(true)
  } finally {
    await db.close()
  }
})
