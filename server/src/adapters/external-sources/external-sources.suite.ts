import { buffer } from 'node:stream/consumers'
import { describe, expect, test } from 'vitest'
import type { ExternalSource, Listed, SourceObject } from './external-sources.ts'

/** What the suite does with the place behind a source. */
export interface SourcePlace {
  open(): ExternalSource
  put(path: string, content: string): Promise<void>
  remove(path: string): Promise<void>
}

const going = new AbortController().signal
const isObject = (listed: Listed): listed is SourceObject => !('skipped' in listed)
export const listAll = (source: ExternalSource, prefix = '') => Array.fromAsync(source.list(prefix, going))

/** Held by every driver: what a sync relies on. */
export function describeExternalSource(name: string, place: () => SourcePlace): void {
  describe(name, () => {
    const names = async (prefix = '') => (await listAll(place().open(), prefix)).map((listed) => listed.name).sort()
    const find = async (path: string) => (await listAll(place().open())).filter(isObject).find((o) => o.name === path)!
    const readText = async (object: SourceObject, known: string | null = null) => {
      const opened = await place().open().read(object, known, going)
      return opened && { text: (await buffer(opened.content)).toString(), version: opened.version, size: opened.size }
    }

    test('lists everything by its path, whatever it is called', async () => {
      await place().put('plain.txt', 'one')
      await place().put('a/b/deep.txt', 'two')
      await place().put('a/spaß & more #1?.txt', 'three')
      await place().put('a/50% + "q".txt', 'four')
      expect(await names()).toEqual(['a/50% + "q".txt', 'a/b/deep.txt', 'a/spaß & more #1?.txt', 'plain.txt'])
      for (const [path, text] of [
        ['plain.txt', 'one'],
        ['a/spaß & more #1?.txt', 'three'],
        ['a/50% + "q".txt', 'four'],
      ] as const)
        expect(await readText(await find(path))).toMatchObject({ text, size: text.length })
    })

    test('lists a folder with paths that begin there', async () => {
      expect(await names('a/b/')).toEqual(['deep.txt'])
    })

    test('tells an unchanged object without reading it, and a changed one by another version', async () => {
      const object = await find('plain.txt')
      const first = (await readText(object))!
      expect(first.version).not.toBeNull()
      expect(await readText(object, first.version)).toBeNull()
      await place().put('plain.txt', 'new')
      const second = (await readText(await find('plain.txt'), first.version))!
      expect(second.text).toBe('new')
      expect(second.version).not.toBe(first.version)
    })

    test('says that an object is missing which went after it was listed', async () => {
      await place().put('going.txt', 'x')
      const object = await find('going.txt')
      await place().remove('going.txt')
      await expect(readText(object)).rejects.toMatchObject({ name: 'SourceError', fault: 'missing' })
    })

    test('stops when it is told to', async () => {
      const stop = AbortSignal.abort(new Error('told to stop'))
      await expect(Array.fromAsync(place().open().list('', stop))).rejects.toThrow('told to stop')
    })
  })
}
