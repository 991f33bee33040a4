/**
 * Loaded with `--import` into a server under test: the thread whose kind is named in the file KILL_THREAD_FILE dies
 * with its next task in hand, once.
 */
import { readFileSync, rmSync } from 'node:fs'
import { isMainThread, parentPort, workerData } from 'node:worker_threads'

const file = process.env.KILL_THREAD_FILE!
if (!isMainThread) {
  const kind = 'maxBatch' in workerData ? 'inference' : 'image'
  parentPort!.on('message', () => {
    if (victim() !== kind) return
    rmSync(file)
    process.exit(9)
  })
}

function victim(): string {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return ''
  }
}
