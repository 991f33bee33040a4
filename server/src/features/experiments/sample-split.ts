import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { open } from 'node:fs/promises'
import { createInterface } from 'node:readline'
import { invalid } from '../../platform/errors.ts'
import type { Config } from './experiment-config.schema.ts'

type SplitConfig = Config['split']

/** Throws a 422 when shares that are used do not add up to one, or leave nothing to train on. */
export function checkSplit({ mode, train, val, test }: SplitConfig): void {
  if (mode !== 'ratio') return
  if (Math.abs(train + val + test - 1) > 1e-6)
    throw invalid({ loc: ['body', 'split'], msg: 'train, val and test must add up to 1', type: 'value_error' })
  if (train === 0)
    throw invalid({ loc: ['body', 'split', 'train'], msg: 'must be more than 0', type: 'greater_than', input: train })
}

interface Sample {
  path: string
  label: string
  split: string
}

/**
 * Writes an index whose samples are dealt to train, val and test anew: class by class, so that each split has the same
 * mix, in an order that follows from the seed and the paths alone. A class of few samples keeps at least one to train.
 */
export async function writeDealtIndex(source: string, target: string, split: SplitConfig): Promise<void> {
  const byLabel = new Map<string, string[]>()
  for await (const line of createInterface({ input: createReadStream(source), crlfDelay: Infinity })) {
    const { path, label } = JSON.parse(line) as Sample
    const paths = byLabel.get(label)
    if (paths) paths.push(path)
    else byLabel.set(label, [path])
  }
  const file = await open(target, 'w', 0o600)
  try {
    for (const [label, paths] of byLabel) {
      const lines = deal(paths, split).map(([path, part]) => `${JSON.stringify({ path, label, split: part })}\n`)
      await file.write(lines.join(''))
    }
  } finally {
    await file.close()
  }
}

/** Each path with the split it falls into. */
export function deal(paths: string[], { train, val, seed }: SplitConfig): [path: string, split: string][] {
  const rank = (path: string) => createHash('sha256').update(`${seed}\0${path}`).digest('hex')
  const order = paths.map((path) => [rank(path), path] as const).sort((a, b) => (a[0] < b[0] ? -1 : 1))
  const trainEnd = Math.max(1, Math.round(order.length * train))
  const valEnd = Math.max(trainEnd, Math.round(order.length * (train + val)))
  return order.map(([, path], place) => [path, place < trainEnd ? 'train' : place < valEnd ? 'val' : 'test'])
}
