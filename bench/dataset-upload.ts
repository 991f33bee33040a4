/**
 * A chunked upload of 1 GiB, four chunks in flight, durable and verified against its SHA-256, against
 * `dd conv=fdatasync` of the same bytes on the same disk, in turns.
 * Target: at least 0.6 times the speed of dd; the server's memory stays within 100 MB.
 * Usage: node bench/dataset-upload.ts [MiB] (about 40 seconds and 4 GiB of disk)
 */
import { execFile } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { type FileHandle, open, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { seconds, sendFile, startPlatform } from './platform.fixture.ts'

const megabyte = 1 << 20
const sizeBytes = Number(process.argv[2] ?? 1024) * megabyte
const rounds = 3

async function makeFile(path: string): Promise<string> {
  const file = await open(path, 'w')
  const hash = createHash('sha256')
  const block = randomBytes(8 * megabyte)
  for (let at = 0; at < sizeBytes; at += block.length) {
    block.writeDoubleLE(Math.random(), 0)
    const part = block.subarray(0, Math.min(block.length, sizeBytes - at))
    hash.update(part)
    await file.write(part)
  }
  await file.sync()
  await file.close()
  return hash.digest('hex')
}

async function read(file: FileHandle, start: number, length: number): Promise<Uint8Array> {
  const bytes = Buffer.allocUnsafe(length)
  await file.read(bytes, 0, length, start)
  return bytes
}

/** User and system time of a process so far, in seconds: what the load of the machine does not change. */
async function cpuSeconds(pid: number): Promise<number> {
  const fields = (await readFile(`/proc/${pid}/stat`, 'utf8')).split(') ')[1]!.split(' ')
  return (Number(fields[11]) + Number(fields[12])) / 100
}

const platform = await startPlatform()
try {
  const source = join(platform.dataDir, 'source.bin')
  const sha256 = await makeFile(source)
  const file = await open(source, 'r')
  const before = await platform.residentMemory()
  const cpu: number[] = []
  const times = { dd: [] as number[], upload: [] as number[] }
  for (let round = 0; round < rounds; round++) {
    const copy = join(platform.dataDir, 'copy.bin')
    const ddBegan = performance.now()
    await promisify(execFile)('dd', [`if=${source}`, `of=${copy}`, 'bs=1M', 'conv=fdatasync'])
    times.dd.push(performance.now() - ddBegan)
    await rm(copy)
    const { id } = await platform.call('POST', '/api/v1/datasets/drafts', { name: 'bench' })
    const [began, cpuBefore] = [performance.now(), await cpuSeconds(platform.pid)]
    const upload = { filename: 'bench.bin', size: sizeBytes, sha256, read: (s: number, l: number) => read(file, s, l) }
    await sendFile(platform, id, upload, 4)
    times.upload.push(performance.now() - began)
    cpu.push((await cpuSeconds(platform.pid)) - cpuBefore)
    await platform.call('DELETE', `/api/v1/datasets/${id}`)
    await rm(join(platform.dataDir, 'blobs', 'sha256', sha256.slice(0, 2), sha256), { force: true })
  }
  await file.close()
  const grown = ((await platform.peakMemory()) - before) / 1e6
  const [dd, upload] = [Math.min(...times.dd), Math.min(...times.upload)]
  console.log(`dd      ${times.dd.map(seconds).join('  ')}   best ${(sizeBytes / dd / 1000).toFixed(0)} MB/s`)
  console.log(`upload  ${times.upload.map(seconds).join('  ')}   best ${(sizeBytes / upload / 1000).toFixed(0)} MB/s`)
  console.log(`server  ${((Math.min(...cpu) / sizeBytes) * 2 ** 30).toFixed(2)} CPU seconds per GiB`)
  console.log(`ratio   ${(dd / upload).toFixed(2)} (target 0.60)`)
  console.log(`memory  grew by ${grown.toFixed(0)} MB at most (target 100)`)
  process.exitCode = dd / upload >= 0.6 && grown <= 100 ? 0 : 1
} finally {
  await platform.stop()
}
