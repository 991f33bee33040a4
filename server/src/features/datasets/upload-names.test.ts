import { expect, test } from 'vitest'
import { baseName } from './upload-names.ts'

test('a name is cut to what a file system takes, at a letter, and keeps its extension', () => {
  expect(baseName('a/b\\c.png')).toBe('c.png')
  expect(baseName(`${'x'.repeat(300)}.png`)).toBe(`${'x'.repeat(251)}.png`)
  expect(baseName('😀'.repeat(100))).toBe('😀'.repeat(63))
})

test('a name of a million letters holds up nobody (denial of service)', () => {
  expect(baseName(`${'x'.repeat(1_000_000)}.png`)).toBe(`${'x'.repeat(251)}.png`)
})
