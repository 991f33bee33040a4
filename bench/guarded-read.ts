/**
 * What it costs that a read proves its login, looks up its tenant and role, and is bound to the tenant by the database:
 * a page of datasets with all of that against the same query, in the same server, without any of it.
 * Target: at most 1.3 times the time of the server's process a request (its own CPU, so that other load does not count).
 * Usage: node bench/guarded-read.ts [items a page] (about a minute)
 */
import { spawn } from 'node:child_process'
import { readFile, rm } from 'node:fs/promises'
import { createInterface } from 'node:readline'
import { load } from './http-load.fixture.ts'
import { dataFolder } from './platform.fixture.ts'

const pageSize = process.argv[2] ?? '50'
const rounds = 6
const roundSeconds = 4
const target = 1.3
// Linux counts a process's time in hundredths of a second.
const ticksPerSecond = 100

const dataDir = await dataFolder()
const server = spawn(process.execPath, [new URL('./guarded-server.fixture.ts', import.meta.url).pathname, pageSize], {
  stdio: ['ignore', 'pipe', 'inherit'],
  env: {
    PATH: process.env.PATH,
    PLATFORM_MLOPS_PORT: '0',
    PLATFORM_MLOPS_DATA_DIR: dataDir,
    PLATFORM_MLOPS_ADMIN_PASSWORD: 'only for this benchmark',
    PLATFORM_MLOPS_ROLES: 'web',
  },
})
const ended = new Promise((resolve) => server.once('exit', resolve))
const [line] = await Promise.race([
  createInterface(server.stdout)
    [Symbol.asyncIterator]()
    .next()
    .then(({ value }) => [value as string | undefined]),
  ended.then(() => [undefined]),
])
if (!line) throw new Error('the server did not come up')
const { port, headers } = JSON.parse(line) as { port: number; headers: Record<string, string> }

async function cpuSeconds(): Promise<number> {
  const fields = (await readFile(`/proc/${server.pid}/stat`, 'utf8')).split(') ')[1]!.split(' ')
  return (Number(fields[11]) + Number(fields[12])) / ticksPerSecond
}

async function round(path: string): Promise<{ cpuMs: number; perSecond: number }> {
  const before = await cpuSeconds()
  const next = () => ({ method: 'GET', path })
  const { perSecond } = await load({ port, headers, connections: 10, seconds: roundSeconds, next })
  return { cpuMs: ((await cpuSeconds()) - before) * 1000, perSecond }
}

const totals = { '/checked': { cpuMs: 0, requests: 0 }, '/open': { cpuMs: 0, requests: 0 } }
try {
  for (const path of ['/open', '/checked']) await round(path)
  for (let n = 0; n < rounds; n++) {
    // In turns, so that what changes on the machine meanwhile meets both.
    for (const path of n % 2 ? (['/open', '/checked'] as const) : (['/checked', '/open'] as const)) {
      const { cpuMs, perSecond } = await round(path)
      totals[path].cpuMs += cpuMs
      totals[path].requests += perSecond * roundSeconds
    }
  }
} finally {
  server.kill('SIGTERM')
  await ended
  await rm(dataDir, { recursive: true, force: true })
}
const cost = (path: keyof typeof totals) => (totals[path].cpuMs / totals[path].requests) * 1000
const rate = (path: keyof typeof totals) => totals[path].requests / (rounds * roundSeconds)
for (const path of ['/open', '/checked'] as const)
  console.log(
    `${path.padEnd(10)} ${cost(path).toFixed(0)} µs of the server's CPU a request, ${rate(path).toFixed(0)} requests/s`,
  )
const ratio = cost('/checked') / cost('/open')
console.log(
  `checked / open: ${ratio.toFixed(2)} of the CPU, ${(rate('/open') / rate('/checked')).toFixed(2)} of the time (target ${target})`,
)
process.exit(ratio > target ? 1 : 0)
