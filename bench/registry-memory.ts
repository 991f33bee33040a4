/**
 * Memory while eight large blobs are pushed at once. Target: at most 200 MB above idle, whatever their size.
 * Usage: node bench/registry-memory.ts [MiB of each blob, 1024 when absent] (about 2 minutes)
 */
import { createHash, randomBytes } from 'node:crypto'
import { request } from 'node:http'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { authorization, type Contestant, openArena, residentBytes } from './registry.fixture.ts'

const mebibyte = 1024 * 1024
const size = Number(process.argv[2] ?? 1024) * mebibyte
const pushes = 8
const target = 200e6
const block = randomBytes(mebibyte)

/** The same random block again and again, told apart by its first bytes. */
function* content(seed: number): Generator<Buffer> {
  const first = Buffer.from(block)
  first.writeUInt32BE(seed)
  yield first
  for (let sent = mebibyte; sent < size; sent += mebibyte) yield block
}

function digestOf(seed: number): string {
  const hash = createHash('sha256')
  for (const part of content(seed)) hash.update(part)
  return `sha256:${hash.digest('hex')}`
}

async function push(to: Contestant, seed: number, digest: string): Promise<void> {
  const url = `${to.url}/v2/${to.prefix}bench/memory/blobs/uploads/?digest=${digest}`
  await new Promise<void>((resolve, reject) => {
    const headers = { ...authorization(to), 'content-type': 'application/octet-stream', 'content-length': size }
    const sent = request(url, { method: 'POST', headers }, (answer) => {
      answer.resume()
      answer.once('end', () =>
        answer.statusCode === 201 ? resolve() : reject(new Error(`POST: ${answer.statusCode}`)),
      )
    })
    pipeline(Readable.from(content(seed), { objectMode: false }), sent).catch(reject)
  })
}

const arena = await openArena()
try {
  const { platform } = arena
  const digests = Array.from({ length: pushes }, (_, seed) => digestOf(seed))
  await new Promise((resolve) => setTimeout(resolve, 2000))
  const idle = await residentBytes(platform.pid)
  let most = idle
  const timer = setInterval(async () => {
    most = Math.max(most, await residentBytes(platform.pid))
  }, 100)
  await Promise.all(digests.map((digest, seed) => push(platform, seed, digest)))
  clearInterval(timer)
  const above = most - idle
  const verdict = above <= target ? 'ok' : 'MISSED'
  if (above > target) process.exitCode = 1
  console.log(
    `${pushes} pushes of ${size / mebibyte} MiB: ${(above / 1e6).toFixed(0)} MB above idle (${(idle / 1e6).toFixed(0)} MB)  (target ${target / 1e6}) ${verdict}`,
  )
} finally {
  await arena.close()
}
