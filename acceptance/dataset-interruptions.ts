// Uploads that are broken off at random points, by the client in the middle of a chunk or by kill -9 of the server, then
// resumed: in order, out of order, in parallel, with chunks sent again. Afterwards every byte is compared.
// Usage: node acceptance/dataset-interruptions.ts [ROUNDS] [SEED]   (100 rounds: some minutes)
import { createHash, randomBytes } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { type Client, JobError, signIn, until } from './main-job/client.ts'
import { type OwnPlatform, startOwnPlatform } from './main-job/own-platform.ts'

const email = 'admin@example.com'
const password = 'a password for the test'

export interface Tally {
  uploads: number
  /** Chunks whose sending the client broke off half-way. */
  broken: number
  /** Whole chunks that were sent again. */
  resent: number
  /** Times the server was killed, and of these while it assembled. */
  kills: number
  killsInAssembly: number
}

/** A platform that can be killed and comes back; `client()` waits until it is there. */
interface Victim {
  client(): Promise<Client>
  kill(): Promise<void>
  stop(): Promise<void>
}

async function startVictim(folder: string): Promise<Victim> {
  const start = async (): Promise<{ platform: OwnPlatform; client: Client }> => {
    const platform = await startOwnPlatform(folder, email, password)
    return { platform, client: await signIn(platform.url, email, password, 'default') }
  }
  let current = start()
  await current
  return {
    client: async () => (await current).client,
    async kill() {
      const { platform } = await current
      current = platform.kill().then(start)
      await current
    },
    stop: async () => (await current).platform.stop(),
  }
}

/** Numbers from 0 to 1, the same for the same seed. @source mulberry32, T. Ettinger (public domain) */
function randomFrom(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

interface Upload {
  path: string
  content: Buffer
  chunkSize: number
  chunks: number
}

const kilobyte = 1024
const wait = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

/** Runs the given number of uploads, each interrupted; throws at the first byte that differs. */
export async function interruptUploads(rounds: number, seed: number, say: (line: string) => void): Promise<Tally> {
  const folder = await mkdtemp(join(tmpdir(), 'platform-mlops-interruptions-'))
  const random = randomFrom(seed)
  const tally: Tally = { uploads: 0, broken: 0, resent: 0, kills: 0, killsInAssembly: 0 }
  let victim: Victim | null = null
  try {
    victim = await startVictim(folder)
    for (let round = 0; round < rounds; round++) {
      await interruptOne(victim, random, tally)
      tally.uploads++
      if (tally.uploads % 10 === 0) say(JSON.stringify(tally))
    }
    return tally
  } finally {
    await victim?.stop()
    await rm(folder, { recursive: true, force: true })
  }
}

async function interruptOne(victim: Victim, random: () => number, tally: Tally): Promise<void> {
  const upload = await openUpload(await victim.client(), random)
  const killed = random() < 0.35 ? killLater(victim, random, tally) : null
  for (let attempt = 0; ; attempt++) {
    if (attempt > 100) throw new Error('an upload does not come to its end')
    const session = await (await victim.client()).get(upload.path).catch(() => null)
    if (!session) continue
    const received = new Set<number>(session.received)
    const missing = Array.from({ length: upload.chunks }, (_, index) => index).filter((index) => !received.has(index))
    if (missing.length === 0) break
    await sendSome(await victim.client(), upload, missing, [...received], random, tally)
  }
  await killed
  await (await victim.client()).send('POST', `${upload.path}:complete`)
  if (random() < 0.2) {
    await wait(random() * 60)
    await victim.kill()
    tally.kills++
    tally.killsInAssembly++
  }
  await compare(victim, upload)
}

async function openUpload(client: Client, random: () => number): Promise<Upload> {
  const content = randomBytes(1 + Math.floor(random() ** 2 * 4000 * kilobyte))
  const chunkSize = Math.ceil(Math.max(content.length / 40, (8 + random() * 300) * kilobyte))
  const { id } = await client.send('POST', '/api/v1/datasets/drafts', { name: 'interrupted' })
  const session = await client.send('POST', `/api/v1/datasets/${id}/uploads`, {
    filename: 'content.bin',
    size: content.length,
    chunk_size: chunkSize,
    ...(random() < 0.5 ? { sha256: createHash('sha256').update(content).digest('hex') } : {}),
  })
  const path = `/api/v1/datasets/${id}/uploads/${session.upload_id}`
  return { path, content, chunkSize: session.chunk_size, chunks: session.chunk_count }
}

async function killLater(victim: Victim, random: () => number, tally: Tally): Promise<void> {
  await wait(random() ** 2 * 400)
  await victim.kill()
  tally.kills++
}

/** Sends what is missing in some order over some connections, until one of them breaks. */
async function sendSome(
  client: Client,
  upload: Upload,
  missing: number[],
  received: number[],
  random: () => number,
  tally: Tally,
): Promise<void> {
  const again = received.filter(() => random() < 0.15)
  const order = [...missing, ...again]
  if (random() < 0.6) order.sort(() => random() - 0.5)
  let failed = false
  const lane = async () => {
    for (let index = order.shift(); index !== undefined && !failed; index = order.shift()) {
      const isAgain = again.includes(index)
      const breaks = random() < 0.12
      const sent = await sendChunk(client, upload, index, breaks ? random() : null, isAgain && breaks)
      if (breaks) tally.broken++
      else if (sent && isAgain) tally.resent++
      // A lane that lost its server is over; a broken chunk sometimes ends them all, as a lost network does.
      failed ||= breaks ? random() < 0.3 : !sent
    }
  }
  await Promise.all(Array.from({ length: 1 + Math.floor(random() * 6) }, lane))
}

/** Whole, or up to a part of it and then no more; `wrong` sends other bytes before it breaks. */
async function sendChunk(
  client: Client,
  { path, content, chunkSize }: Upload,
  index: number,
  part: number | null,
  wrong: boolean,
): Promise<boolean> {
  const piece = content.subarray(index * chunkSize, (index + 1) * chunkSize)
  const headers = { 'content-type': 'application/octet-stream' }
  const url = `${path}/chunks/${index}`
  if (part === null) {
    const answer = await client.fetch(url, { method: 'PUT', headers, body: piece as never }).catch(lost)
    return answer !== null
  }
  const cut = new AbortController()
  const start = wrong
    ? randomBytes(Math.floor(piece.length * part))
    : piece.subarray(0, Math.floor(piece.length * part))
  const body = new ReadableStream<Uint8Array>({
    start: (sink) => (start.length > 0 ? sink.enqueue(start) : undefined),
    pull: () => wait(5).then(() => cut.abort()),
  })
  const init = { method: 'PUT', headers, body, duplex: 'half', signal: cut.signal } as RequestInit
  const answer = await client.fetch(url, init).catch((error) => (cut.signal.aborted ? null : lost(error)))
  if (answer !== null) throw new Error('half a chunk was taken for a whole one')
  return false
}

/** The server is gone: no answer, as against one that refuses. */
function lost(error: Error): null {
  if (error instanceof JobError && /does not answer/.test(error.message)) return null
  throw error
}

async function compare(victim: Victim, { path, content }: Upload): Promise<void> {
  const ended = await until('the end of an upload', 120, async () => {
    const session = await (await victim.client()).get(path)
    return ['done', 'failed'].includes(session.state) ? session : null
  })
  if (ended.state !== 'done' || ended.result.created !== 1) throw new Error(JSON.stringify(ended))
  const file = `${path.replace(/\/uploads\/.*$/, '')}/files/${ended.result.file_ids[0]}/content`
  const bytes = Buffer.from(await (await (await victim.client()).fetch(file)).arrayBuffer())
  if (!bytes.equals(content)) throw new Error(`${path}: ${bytes.length} bytes came back that are not what was sent`)
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const [rounds = 100, seed = Date.now() % 1_000_000] = process.argv.slice(2).map(Number)
  console.log(`${rounds} uploads, seed ${seed}`)
  const tally = await interruptUploads(rounds, seed, (line) => console.log(line))
  console.log(`every byte of ${tally.uploads} uploads is as it was sent: ${JSON.stringify(tally)}`)
}
