/**
 * Small requests: the platform's registry against Debian's docker-registry over 8 connections, in alternating rounds;
 * the platform checks a token on every request, the peer lets everybody in. Targets: ≥ 1.0 × its requests per second.
 * Usage: node bench/registry-requests.ts (about 1 minute)
 */
import { createHash, randomBytes } from 'node:crypto'
import { Agent, request } from 'node:http'
import { join } from 'node:path'
import { writeImageLayout } from '../acceptance/registry/image-layout.ts'
import { authorization, type Contestant, execute, median, openArena } from './registry.fixture.ts'

const connections = 8
const roundMs = 3000
const rounds = 3
const blobBytes = 64 * 1024
const name = 'bench/small'
const manifestType = 'application/vnd.oci.image.manifest.v1+json'

interface Answer {
  status: number
  location: string | undefined
}

/** One request over a kept connection; the body of the answer is read and dropped. */
function send(
  agent: Agent,
  { url, ...contestant }: Contestant,
  method: string,
  path: string,
  body?: Buffer,
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const headers: Record<string, string | number> = { accept: manifestType, ...authorization({ url, ...contestant }) }
    if (body) Object.assign(headers, { 'content-type': 'application/octet-stream', 'content-length': body.length })
    request(new URL(path, url), { agent, method, headers }, (answer) => {
      answer.resume()
      answer.once('end', () => resolve({ status: answer.statusCode!, location: answer.headers.location }))
    })
      .once('error', reject)
      .end(body)
  })
}

type Work = (agent: Agent, contestant: Contestant) => Promise<void>

const read =
  (path: string): Work =>
  async (agent, contestant) => {
    const { status } = await send(agent, contestant, 'GET', `/v2/${contestant.prefix}${name}/${path}`)
    if (status !== 200) throw new Error(`${contestant.name}: GET ${path} answers ${status}`)
  }

const pushBlob: Work = async (agent, contestant) => {
  const bytes = randomBytes(blobBytes)
  const started = await send(agent, contestant, 'POST', `/v2/${contestant.prefix}${name}/blobs/uploads/`)
  const url = new URL(started.location!, contestant.url)
  url.searchParams.set('digest', `sha256:${createHash('sha256').update(bytes).digest('hex')}`)
  const { status } = await send(agent, contestant, 'PUT', url.pathname + url.search, bytes)
  if (status !== 201) throw new Error(`${contestant.name}: PUT answers ${status}`)
}

/** Finished pieces of work per second. */
async function measure(contestant: Contestant, work: Work): Promise<number> {
  const agent = new Agent({ keepAlive: true, maxSockets: connections })
  const end = Date.now() + roundMs
  let done = 0
  const worker = async () => {
    while (Date.now() < end) {
      await work(agent, contestant)
      done++
    }
  }
  await Promise.all(Array.from({ length: connections }, worker))
  agent.destroy()
  return done / (roundMs / 1000)
}

const arena = await openArena()
try {
  const image = await writeImageLayout(join(arena.folder, 'image'), [100_000])
  for (const contestant of [arena.platform, arena.peer]) {
    const host = new URL(contestant.url).host
    await execute('skopeo', [
      ...['--insecure-policy', 'copy', '-q', '--dest-tls-verify=false'],
      ...(contestant.credentials ? ['--dest-creds', contestant.credentials] : ['--dest-no-creds']),
      ...[`oci:${image.folder}:v1`, `docker://${host}/${contestant.prefix}${name}:v1`],
    ])
  }
  const works: Record<string, Work> = {
    'manifest GET': read('manifests/v1'),
    'tags list': read('tags/list'),
    '64 KiB blob push': pushBlob,
  }
  for (const [title, work] of Object.entries(works)) {
    const rates = { platform: [] as number[], 'docker-registry': [] as number[] }
    for (let round = 0; round < rounds; round++) {
      for (const contestant of [arena.peer, arena.platform])
        rates[contestant.name].push(await measure(contestant, work))
    }
    const [ours, theirs] = [median(rates.platform), median(rates['docker-registry'])]
    const verdict = ours >= theirs ? 'ok' : 'MISSED'
    if (ours < theirs) process.exitCode = 1
    console.log(
      `${title.padEnd(18)} ${ours.toFixed(0).padStart(6)} /s  ${(ours / theirs).toFixed(2)} × docker-registry (${theirs.toFixed(0)} /s)  (target 1.0) ${verdict}`,
    )
  }
} finally {
  await arena.close()
}
