import { appendFile, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { readTrainerEvents } from './trainer-events.ts'

const ts = 1

describe('readTrainerEvents', () => {
  let folder = ''
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'trainer-events-'))
  })
  afterAll(() => rm(folder, { recursive: true, force: true }))

  test('reads whole lines alone, goes on where it stopped, and passes over torn ones', async () => {
    const path = join(folder, 'events.jsonl')
    expect(await readTrainerEvents(path, 0)).toEqual({ events: [], nextOffset: 0 })
    const line = JSON.stringify({ ts, type: 'log', level: 'info', message: 'grün' })
    await writeFile(path, `${line}\n{"ts":1,"ty`)
    const first = await readTrainerEvents(path, 0)
    expect(first).toEqual({ events: [JSON.parse(line)], nextOffset: Buffer.byteLength(line) + 1 })
    expect(await readTrainerEvents(path, first.nextOffset)).toEqual({ events: [], nextOffset: first.nextOffset })
    await appendFile(path, `\n${line}\n`)
    const { events } = await readTrainerEvents(path, first.nextOffset)
    expect(events).toEqual([JSON.parse(line)])
  })

  test('a file larger than one read comes in pieces, none twice', async () => {
    const path = join(folder, 'long.jsonl')
    const count = 5000
    const lines = Array.from({ length: count }, (_, i) =>
      JSON.stringify({ ts: i, type: 'log', message: 'x'.repeat(80) }),
    )
    await writeFile(path, `${lines.join('\n')}\n`)
    const seen: number[] = []
    for (let offset = 0; ; ) {
      const { events, nextOffset } = await readTrainerEvents(path, offset)
      if (nextOffset === offset) break
      seen.push(...events.map((event) => event.ts))
      offset = nextOffset
    }
    expect(seen).toEqual(Array.from({ length: count }, (_, i) => i))
  })
})
