/**
 * Moving images: the platform's registry against Debian's docker-registry, both on loopback and on the same disk, in
 * alternating rounds (5 of a large image, 15 of a small one) of which the medians count; the platform checks a token on
 * every request, the peer lets everybody in.
 * Also printed: processor time of both servers per gigabyte, which a busy machine changes little.
 * Targets: push and pull by skopeo ≥ 1.0 ×, one PUT of the whole blob ≥ 1.2 ×, GET of a blob ≥ 0.8 × its speed.
 * Usage: node bench/registry-transfer.ts [largest image in MiB, 1024 when absent] (about 8 minutes)
 */
import { createReadStream } from 'node:fs'
import { rm } from 'node:fs/promises'
import { request } from 'node:http'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { blobPath, type ImageLayout, writeImageLayout } from '../acceptance/registry/image-layout.ts'
import {
  type Arena,
  authorization,
  type Contestant,
  execute,
  median,
  openArena,
  processorSeconds,
  timed,
} from './registry.fixture.ts'

const mebibyte = 1024 * 1024
const largest = Number(process.argv[2] ?? 1024)
const images: Record<string, number[]> = {
  '10 MB': [10 * mebibyte],
  '200 MB': [Math.min(200, largest) * mebibyte],
  [`${largest} MiB`]: [largest * mebibyte],
  [`5 × ${Math.round(largest / 5)} MiB`]: Array.from({ length: 5 }, () => Math.round(largest / 5) * mebibyte),
}

/** What takes a tenth of a second needs more rounds than what takes five, and the first ones compile the server's code. */
const roundsOf = (layers: number[]) => (layers.reduce((sum, size) => sum + size, 0) > 64 * mebibyte ? 5 : 15)

interface Row {
  what: string
  megabytesPerSecond: number
  ratio: number
  /** Processor seconds per gigabyte, ours and the peer's. */
  processor: [number, number]
  target: number
}

async function compareImage({ folder, platform, peer }: Arena, title: string, layers: number[]): Promise<Row[]> {
  const image = await writeImageLayout(join(folder, 'image'), layers)
  const megabytes = image.layers.reduce((sum, { size }) => sum + size, 0) / 1e6
  const works: [string, number, (to: Contestant, name: string) => Promise<unknown>][] = [
    [`push ${title}`, 1, (to, name) => push(image, to, name)],
    [`pull ${title}`, 1, (to, name) => pull(folder, to, name)],
  ]
  if (layers.length === 1 && layers[0] === largest * mebibyte) {
    works.push([`PUT ${title}`, 1.2, (to, name) => put(image, to, `${name}-put`)])
    works.push([`GET ${title}`, 0.8, (to, name) => get(image, to, name)])
  }
  const rows: Row[] = []
  const rounds = roundsOf(layers)
  const seconds = works.map(() => ({ platform: [] as number[], peer: [] as number[] }))
  const processor = works.map(() => ({ platform: 0, peer: 0 }))
  for (let round = 0; round < rounds; round++) {
    // A fresh image every time: neither registry may know its blobs.
    const fresh = round === 0 ? image : await rewritten(image, folder, layers)
    Object.assign(image, fresh)
    for (const [index, [, , work]] of works.entries()) {
      const name = `bench/${title.replace(/\W+/g, '-').toLowerCase()}-${round}`
      for (const contestant of round % 2 ? [platform, peer] : [peer, platform]) {
        await forgetCaches()
        // What the peer leaves to the kernel to write later would be written at the expense of whoever comes next.
        await execute('sync')
        const side = contestant === platform ? 'platform' : 'peer'
        const before = await processorSeconds(contestant.pid)
        seconds[index]![side].push(await timed(() => work(contestant, name)))
        processor[index]![side] += (await processorSeconds(contestant.pid)) - before
      }
    }
  }
  for (const [index, [what, target]] of works.entries()) {
    const ours = median(seconds[index]!.platform)
    const perGigabyte = (total: number) => total / rounds / (megabytes / 1000)
    rows.push({
      ...{ what, target, megabytesPerSecond: megabytes / ours, ratio: median(seconds[index]!.peer) / ours },
      processor: [perGigabyte(processor[index]!.platform), perGigabyte(processor[index]!.peer)],
    })
  }
  await rm(image.folder, { recursive: true })
  return rows
}

async function rewritten(image: ImageLayout, folder: string, layers: number[]): Promise<ImageLayout> {
  await rm(image.folder, { recursive: true })
  return writeImageLayout(join(folder, 'image'), layers)
}

/** skopeo remembers where blobs are and would skip their transfer. */
const forgetCaches = () => rm('/var/lib/containers/cache/blob-info-cache-v1.boltdb', { force: true })

const remote = (registry: Contestant, name: string) =>
  `docker://${new URL(registry.url).host}/${registry.prefix}${name}:v1`
const credentials = (side: 'src' | 'dest', registry: Contestant) => [
  `--${side}-tls-verify=false`,
  ...(registry.credentials ? [`--${side}-creds`, registry.credentials] : [`--${side}-no-creds`]),
]
const copy = (...args: string[]) => execute('skopeo', ['--insecure-policy', 'copy', '-q', ...args])

const push = (image: ImageLayout, to: Contestant, name: string) =>
  copy(...credentials('dest', to), `oci:${image.folder}:v1`, remote(to, name))

async function pull(folder: string, from: Contestant, name: string): Promise<void> {
  const target = join(folder, 'pulled')
  await copy(...credentials('src', from), remote(from, name), `oci:${target}:v1`)
  await rm(target, { recursive: true })
}

/** Monolithic: POST for a session, then one PUT with everything. */
async function put(image: ImageLayout, to: Contestant, name: string): Promise<void> {
  const [{ digest, size }] = image.layers as [ImageLayout['layers'][number]]
  const session = await fetch(`${to.url}/v2/${to.prefix}${name}/blobs/uploads/`, {
    method: 'POST',
    headers: authorization(to),
  })
  const url = new URL(session.headers.get('location')!, to.url)
  url.searchParams.set('digest', digest)
  await new Promise<void>((resolve, reject) => {
    const headers = { ...authorization(to), 'content-type': 'application/octet-stream', 'content-length': size }
    const sent = request(url, { method: 'PUT', headers }, (answer) => {
      answer.resume()
      answer.once('end', () => (answer.statusCode === 201 ? resolve() : reject(new Error(`PUT: ${answer.statusCode}`))))
    })
    pipeline(createReadStream(blobPath(image.folder, digest), { highWaterMark: mebibyte }), sent).catch(reject)
  })
}

const get = (image: ImageLayout, from: Contestant, name: string) =>
  execute('curl', [
    ...['-s', '-f', '-o', '/dev/null'],
    ...(from.credentials ? ['-u', from.credentials] : []),
    `${from.url}/v2/${from.prefix}${name}/blobs/${image.layers[0]!.digest}`,
  ])

function report(rows: Row[]): void {
  for (const { what, megabytesPerSecond, ratio, target, processor } of rows) {
    const [ours, theirs] = processor.map((seconds) => seconds.toFixed(2))
    const verdict = ratio >= target ? 'ok' : 'MISSED'
    console.log(
      `${what.padEnd(18)} ${megabytesPerSecond.toFixed(0).padStart(6)} MB/s  ${ratio.toFixed(2)} × docker-registry  (target ${target.toFixed(1)}) ${verdict}; CPU ${ours} s/GB, peer ${theirs}`,
    )
  }
  if (rows.some(({ ratio, target }) => ratio < target)) process.exitCode = 1
}

const arena = await openArena()
try {
  const rows: Row[] = []
  for (const [title, layers] of Object.entries(images)) rows.push(...(await compareImage(arena, title, layers)))
  report(rows)
} finally {
  await arena.close()
}
