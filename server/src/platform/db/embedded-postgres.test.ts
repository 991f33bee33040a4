import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { copyFile, mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import pino from 'pino'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { embeddedUrls, openDatabase } from './database.ts'
import { type EmbeddedPostgres, startEmbeddedPostgres } from './embedded-postgres.ts'
import { migrationsFolder } from './migrations.ts'

const log = pino({ level: 'silent' })
const settings = { fsync: 'off', shared_buffers: '16MB' }
let root: string
/** A folder whose cluster exists, because making one is the slowest part by far. */
let folder: string
let migrations: string

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'embedded-'))
  folder = join(root, 'one')
  const server = await startEmbeddedPostgres({ folder, log, settings })
  await server.stop()
  migrations = join(root, 'migrations')
  await mkdir(migrations)
  await copyFile(join(migrationsFolder, '0000_foundation.sql'), join(migrations, '0000_foundation.sql'))
})
afterAll(() => rm(root, { recursive: true, force: true }))

async function query(server: Pick<EmbeddedPostgres, 'socketFolder' | 'port'>, text: string): Promise<unknown[]> {
  const client = new pg.Client({ connectionString: embeddedUrls(server, 'postgres').ownerUrl })
  client.on('error', () => {})
  await client.connect()
  try {
    return (await client.query(text)).rows
  } finally {
    await client.end()
  }
}

async function eventually<T>(look: () => Promise<T> | T): Promise<T> {
  for (let tries = 0; ; tries++) {
    try {
      return await look()
    } catch (error) {
      if (tries === 1200) throw error
      await sleep(50)
    }
  }
}

describe('startEmbeddedPostgres()', () => {
  test('two servers on two folders run side by side, each behind a private socket', async () => {
    const long = join(root, 'a-path-that-is-too-long-for-a-unix-socket-'.repeat(3))
    const one = await startEmbeddedPostgres({ folder, log, settings })
    const other = await startEmbeddedPostgres({ folder: long, log, settings })
    try {
      await query(one, 'create table only_here (id int)')
      await expect(query(other, 'select * from only_here')).rejects.toThrow(/does not exist/)
      for (const { socketFolder } of [one, other]) {
        expect(Buffer.byteLength(socketFolder)).toBeLessThan(100)
        expect((await stat(socketFolder)).mode & 0o777).toBe(0o700)
      }
      expect(await query(one, 'show listen_addresses')).toEqual([{ listen_addresses: '' }])
    } finally {
      await Promise.all([one.stop(), other.stop()])
    }
  })

  test('a folder in use is refused, and free again after stop()', async () => {
    const first = await startEmbeddedPostgres({ folder, log, settings })
    await query(first, 'create table kept (id int)')
    await expect(startEmbeddedPostgres({ folder, log, settings })).rejects.toThrow(/in use by process/)
    expect(await query(first, 'select 1 as alive')).toEqual([{ alive: 1 }])
    await first.stop()
    const second = await startEmbeddedPostgres({ folder, log, settings })
    expect(await query(second, 'select * from kept')).toEqual([])
    await second.stop()
  })

  test('the data of another major version is refused and left alone', async () => {
    const older = join(root, 'older')
    await mkdir(join(older, 'cluster'), { recursive: true })
    await writeFile(join(older, 'cluster/PG_VERSION'), '17\n')
    await expect(startEmbeddedPostgres({ folder: older, log })).rejects.toThrow(/by PostgreSQL 17 and this is .* 18/)
    expect(await readdir(join(older, 'cluster'))).toEqual(['PG_VERSION'])
  })

  test('what an interrupted first start left behind is removed', async () => {
    const interrupted = join(root, 'interrupted')
    await mkdir(join(interrupted, 'initdb-killed'), { recursive: true })
    await writeFile(join(interrupted, 'initdb-killed/PG_VERSION'), '18\n')
    const server = await startEmbeddedPostgres({ folder: interrupted, log, settings })
    await server.stop()
    expect(await readdir(interrupted)).toEqual(['cluster'])
  })

  test('a lock file that names a live process of another kind does not keep the server from starting', async () => {
    const first = await startEmbeddedPostgres({ folder, log, settings })
    const lock = await readFile(join(folder, 'cluster/postmaster.pid'), 'utf8')
    await first.stop()
    const bystander = spawn('sleep', ['60'])
    try {
      await writeFile(join(folder, 'cluster/postmaster.pid'), lock.replace(/^\d+/, String(bystander.pid)))
      const second = await startEmbeddedPostgres({ folder, log, settings })
      expect(await query(second, 'select 1 as alive')).toEqual([{ alive: 1 }])
      await second.stop()
      expect(bystander.exitCode).toBeNull()
    } finally {
      bystander.kill()
    }
  })

  test('stop() in the middle of a restart stops the new server too', async () => {
    const server = await startEmbeddedPostgres({ folder, log, settings })
    process.kill(server.pid, 'SIGKILL')
    await sleep(20)
    await server.stop()
    await expect(query(server, 'select 1')).rejects.toThrow(/ENOENT|ECONNREFUSED/)
    const next = await startEmbeddedPostgres({ folder, log, settings })
    await next.stop()
  })

  test('a server that dies is started again once; dying again soon is reported as fatal', async () => {
    const fatal: Error[] = []
    const server = await startEmbeddedPostgres({ folder, log, settings, onFatal: (error) => fatal.push(error) })
    await query(server, 'create table survivor (id int)')
    const before = server.pid
    process.kill(before, 'SIGKILL')
    expect(await eventually(() => query(server, 'select * from survivor'))).toEqual([])
    await eventually(() => expect(server.pid).not.toBe(before))
    process.kill(server.pid, 'SIGKILL')
    await eventually(() => expect(fatal).toHaveLength(1))
    expect(fatal[0]?.message).toMatch(/SIGKILL, for the second time/)
    await server.stop()
  })

  test('a setting that the server refuses fails the start with its own words', async () => {
    const start = startEmbeddedPostgres({ folder, log, settings: { ...settings, shared_buffers: 'plenty' } })
    await expect(start).rejects.toThrow(/invalid value for parameter "shared_buffers": "plenty"/)
  })
})

describe('kill -9 of the process that owns the server', { timeout: 120_000 }, () => {
  // Commits rows as fast as it can, and tells of each one only after the database acknowledged it.
  const writer = `
    import { openDatabase } from ${JSON.stringify(fileURLToPath(new URL('database.ts', import.meta.url)))}
    import pg from 'pg'
    import pino from 'pino'
    const db = await openDatabase({ folder: process.argv[1], migrations: process.argv[2], log: pino({ level: 'silent' }) })
    const owner = new pg.Client({ connectionString: db.ownerUrl })
    await owner.connect()
    await owner.query('create table if not exists commits (id bigint primary key)')
    const { rows } = await owner.query('select coalesce(max(id), 0) as last from commits')
    for (let id = Number(rows[0].last) + 1; ; id++) {
      await owner.query('insert into commits values ($1)', [id])
      process.stdout.write(id + '\\n')
    }`

  async function writeUntilKilled(rows: number): Promise<number> {
    const child = spawn(process.execPath, ['--input-type=module', '-e', writer, folder, migrations], {
      cwd: fileURLToPath(new URL('.', import.meta.url)),
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    let last = 0
    let count = 0
    for await (const line of createInterface({ input: child.stdout })) {
      last = Number(line)
      if (++count === rows) child.kill('SIGKILL')
    }
    if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
    expect(child.signalCode).toBe('SIGKILL')
    return last
  }

  test('the next start waits for the old server, works, and has every acknowledged row', async () => {
    const acknowledged = [await writeUntilKilled(50), await writeUntilKilled(50)]
    const db = await openDatabase({ folder, log, migrations })
    try {
      const { rows } = await db.pool.query('select count(*) as count, max(id) as last from commits')
      expect(acknowledged[1]).toBeGreaterThan(acknowledged[0] ?? 0)
      expect(rows[0].last).toBeGreaterThanOrEqual(acknowledged[1] ?? Number.NaN)
      expect(rows[0].count).toBe(rows[0].last)
    } finally {
      await db.close()
    }
    await expect(readFile(join(folder, 'cluster/postmaster.pid'))).rejects.toThrow(/ENOENT/)
  })
})
