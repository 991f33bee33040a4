/**
 * Mixed reads at a steady 1,000 requests/s (an open loop, so that a server that falls behind is seen to) while 5,000
 * event streams are connected and once a second something happens that all of them are told.
 * Limits: no error, 99th percentile at most 100 ms, on two cores that the load generator and the database share.
 * Usage: node bench/load.ts [--rate 1000] [--seconds 60] [--streams 5000] [--profile FOLDER] (about 90 seconds)
 */
import { readdir, readFile } from 'node:fs/promises'
import { loadavg } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import pg from 'pg'
import { databaseFolderName, embeddedName, embeddedUrls } from '../server/src/platform/db/database.ts'
import { socketFolderOf } from '../server/src/platform/db/embedded-cluster.ts'
import { openLoad, openStreams, readyRequest, type StreamClient } from './open-load.fixture.ts'
import { type BenchPlatform, startPlatform } from './platform.fixture.ts'

const { values: options } = parseArgs({
  options: {
    rate: { type: 'string', default: '1000' },
    seconds: { type: 'string', default: '60' },
    streams: { type: 'string', default: '5000' },
    profile: { type: 'string' },
  },
})
const [rate, seconds, streams] = [options.rate, options.seconds, options.streams].map(Number) as [
  number,
  number,
  number,
]
const datasets = 300

/** CPU seconds that a process has used so far. */
async function cpuSeconds(pid: number): Promise<number> {
  const fields = (await readFile(`/proc/${pid}/stat`, 'utf8')).split(') ')[1]!.split(' ')
  return (Number(fields[11]) + Number(fields[12])) / 100
}

/** CPU seconds that the processes of the embedded database have used so far, by process. */
async function databaseCpuSeconds(dataDir: string): Promise<number> {
  const lock = await readFile(join(dataDir, databaseFolderName, 'cluster/postmaster.pid'), 'utf8')
  const postmaster = Number.parseInt(lock, 10)
  let sum = 0
  for (const name of (await readdir('/proc')).filter((name) => /^\d+$/.test(name))) {
    const stat = await readFile(`/proc/${name}/stat`, 'utf8').catch(() => '')
    if (Number(stat.split(') ')[1]?.split(' ')[1]) === postmaster) sum += await cpuSeconds(Number(name)).catch(() => 0)
  }
  return sum
}

async function fill(platform: BenchPlatform): Promise<string> {
  for (let index = 0; index < datasets; index++)
    await platform.call('POST', '/api/v1/datasets/drafts', { name: `Dataset ${index}` })
  return (await platform.call('GET', '/api/v1/datasets?page_size=1')).items[0].id
}

const paths = (dataset: string) => [
  '/api/v1/datasets?page_size=20',
  `/api/v1/datasets/${dataset}`,
  '/api/v1/datasets?q=dataset%2012&sort=name',
  `/api/v1/datasets/${dataset}/files`,
  '/api/v1/models',
  '/api/v1/training/experiments',
  '/api/v1/serving/endpoints',
  '/api/v1/registry/repositories',
  '/api/v1/notifications/unread-count',
  '/users/me',
]

/** Says once a second, as any change does, what all streams of that user are told. */
async function tellEverySecond(platform: BenchPlatform, userId: string): Promise<{ stop(): Promise<number> }> {
  const socketFolder = socketFolderOf(join(platform.dataDir, databaseFolderName))
  const client = new pg.Client({ connectionString: embeddedUrls({ socketFolder, port: 5432 }, embeddedName).ownerUrl })
  await client.connect()
  let told = 0
  const payload = JSON.stringify([`notifications:${userId}`, 'notification', { id: userId, group: 'x', unread: 1 }])
  const timer = setInterval(() => {
    told += 1
    void client.query('select pg_notify($1, $2)', ['platform_events', payload])
  }, 1000)
  return {
    async stop() {
      clearInterval(timer)
      await client.end()
      return told
    },
  }
}

const at = (sorted: number[], share: number) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))]!
const milliseconds = (value: number) => `${value.toFixed(1)} ms`

const { profile } = options
const platform = await startPlatform(profile ? { NODE_OPTIONS: `--cpu-prof --cpu-prof-dir=${profile}` } : {})
let failed = false
try {
  const headers = platform.headers
  const port = platform.port
  const dataset = await fill(platform)
  const requests = paths(dataset).map((path) => readyRequest(port, path, headers))
  await openLoad(port, requests, rate / 2, 5)

  const { id: userId } = await platform.call('GET', '/users/me')
  const stream = readyRequest(port, '/api/v1/stream/notifications', headers)
  const before = await platform.residentMemory()
  const clients: StreamClient[] = await openStreams(port, [stream], streams)
  const perStream = (await platform.residentMemory()) - before
  const teller = await tellEverySecond(platform, userId)

  const cpu = await cpuSeconds(platform.pid)
  const databaseCpu = await databaseCpuSeconds(platform.dataDir)
  const own = process.cpuUsage()
  const { times, faults, connections } = await openLoad(port, requests, rate, seconds)
  const used = (await cpuSeconds(platform.pid)) - cpu
  const databaseUsed = (await databaseCpuSeconds(platform.dataDir)) - databaseCpu
  const { user, system } = process.cpuUsage(own)
  const told = await teller.stop()
  await new Promise((resolve) => setTimeout(resolve, 1000))

  const all = [...times.values()].flat().sort((a, b) => a - b)
  const ended = clients.filter((client) => client.ended).length
  const received = clients.reduce((sum, client) => sum + client.events, 0)
  console.log(`load of the machine: ${loadavg()[0]!.toFixed(1)}`)
  console.log(`${all.length} requests at ${rate}/s over ${connections} connections: ${faults.length} errors`)
  console.log(
    `  p50 ${milliseconds(at(all, 0.5))}  p99 ${milliseconds(at(all, 0.99))} (limit 100)  worst ${milliseconds(all.at(-1)!)}`,
  )
  for (const [path, list] of times)
    console.log(
      `  ${milliseconds(
        at(
          list.sort((a, b) => a - b),
          0.5,
        ),
      ).padStart(9)}  ${path}`,
    )
  console.log(
    `${streams} event streams: ${ended} ended, ${received} of ${told * streams} events, ${Math.round(perStream / streams / 1024)} kB each`,
  )
  console.log(
    `server: ${Math.round((used * 1e6) / all.length)} CPU µs per request, streams included; ${Math.round((used / seconds) * 100)} % of a core`,
  )
  console.log(
    `database: ${Math.round((databaseUsed * 1e6) / all.length)} CPU µs per request; ${Math.round((databaseUsed / seconds) * 100)} % of a core`,
  )
  console.log(`generator: ${Math.round(((user + system) / 1e6 / seconds) * 100)} % of a core`)
  for (const fault of [...new Set(faults)].slice(0, 10)) console.log(`  ${fault}`)
  failed = faults.length > 0 || ended > 0 || received < told * streams || at(all, 0.99) > 100
  for (const client of clients) client.close()
} finally {
  await platform.stop()
}
console.log(failed ? 'over the limits' : 'within the limits')
process.exit(failed ? 1 : 0)
