import { describe, expect, test } from 'vitest'
import { eventually } from '../../../test/harness.ts'
import { digestOf as digest, syncPath } from './followed-datasets.fixture.ts'
import { addWeb, developer, filesOf, scene, useSyncScene, web } from './sync-scene.fixture.ts'

useSyncScene(5)

describe('a source that misbehaves', () => {
  test('object by object: DONE with errors, each with its reason, and what was good is kept', {
    timeout: 300_000,
  }, async () => {
    for (const name of ['good', 'stall', 'truncate', 'error', 'gone', 'huge']) web.put(`${name}.bin`, name.repeat(100))
    for (const fault of ['stall', 'truncate', 'error', 'gone', 'huge'] as const) web.mischief.set(`${fault}.bin`, fault)
    const dataset = await scene.follow(await addWeb(), { delete_missing: true })
    const done = await scene.syncNow(dataset)
    expect(done).toMatchObject({
      state: 'DONE',
      error: { code: 'completed_with_errors' },
      counts: { added: 1, failed: 5 },
    })
    expect(Object.keys(await filesOf(dataset))).toEqual(['good.bin'])
    const failed = await scene.outcomes(dataset, done.run_id, '?action=fail')
    expect(
      Object.fromEntries(failed.map(({ path, reason }: { path: string; reason: string }) => [path, reason])),
    ).toEqual({
      'error.bin': expect.stringContaining('503'),
      'gone.bin': expect.stringContaining('404'),
      'huge.bin': expect.stringContaining('larger'),
      'stall.bin': expect.stringContaining('silent'),
      'truncate.bin': expect.any(String),
    })
    const told = await eventually(async () => {
      const { body } = await developer.get('/api/v1/notifications')
      return body.items.find(({ title }: { title: string }) => title.includes(dataset))
    })
    expect(told).toMatchObject({ group: 'dataset' })

    // What could not be read keeps the file that it had.
    web.mischief.clear()
    expect((await scene.syncNow(dataset)).counts).toMatchObject({ added: 5, failed: 0 })
    web.mischief.set('good.bin', 'error')
    web.put('good.bin', 'better')
    expect((await scene.syncNow(dataset)).counts).toMatchObject({ failed: 1, removed: 0 })
    expect((await filesOf(dataset))['good.bin']).toBe(digest('good'.repeat(100)))
  })

  test('that disappears half way: FAILED, what was good is kept, nothing is removed', {
    timeout: 300_000,
  }, async () => {
    for (let i = 0; i < 400; i++) web.put(`${String(i).padStart(3, '0')}.txt`, `file ${i}`)
    const dataset = await scene.follow(await addWeb(), { delete_missing: true })
    web.vanishAfter(150)
    const failed = await scene.syncNow(dataset)
    expect(failed).toMatchObject({ state: 'FAILED', error: { code: 'source_unreachable' }, counts: { removed: 0 } })
    expect(failed.counts.added).toBeGreaterThan(100)
    const kept = (await developer.get(`/api/v1/datasets/${dataset}`)).body
    expect(kept.file_count).toBe(failed.counts.added)
    expect((await developer.get(`${syncPath(dataset)}/runs`)).body).toMatchObject({
      total: 1,
      items: [{ state: 'FAILED' }],
    })
  })

  test('that is gone from the start, or suddenly empty: FAILED, and everything stays', {
    timeout: 300_000,
  }, async () => {
    web.put('a.txt', 'a')
    const dataset = await scene.follow(await addWeb(), { delete_missing: true })
    await scene.syncNow(dataset)
    web.files.clear()
    expect(await scene.syncNow(dataset)).toMatchObject({
      state: 'FAILED',
      error: { message: expect.stringContaining('empty') },
    })
    web.vanish()
    expect(await scene.syncNow(dataset)).toMatchObject({ state: 'FAILED', error: { code: 'source_unreachable' } })
    expect(await filesOf(dataset)).toEqual({ 'a.txt': digest('a') })
  })

  test('whose manifest lies about length or digest: the liars are left out', { timeout: 300_000 }, async () => {
    for (const name of ['good', 'long', 'other']) web.put(`${name}.bin`, name)
    const entry = (name: string, content: string) => ({
      url: `${name}.bin`,
      size: content.length,
      sha256: digest(content).slice(7),
    })
    web.put('list.json', JSON.stringify([entry('good', 'good'), entry('long', 'longer'), entry('other', 'OTHER')]))
    const dataset = await scene.follow(await addWeb('/list.json'))
    const done = await scene.syncNow(dataset)
    expect(done.counts).toMatchObject({ added: 1, failed: 2 })
    expect(await filesOf(dataset)).toEqual({ 'good.bin': digest('good') })
    web.sent.length = 0
    await scene.syncNow(dataset)
    expect(web.sent).not.toContain('good.bin')
  })
})
