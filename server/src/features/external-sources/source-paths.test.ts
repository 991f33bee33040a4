import { describe, expect, test } from 'vitest'
import { fitsPattern } from './path-patterns.ts'
import { datasetPath, folderPrefix, shownName } from './source-paths.ts'

describe('datasetPath', () => {
  test.each([
    ['a/b/c.jpg', { path: 'a/b/c.jpg' }],
    ['Spa\u0308ß 1.jpg', { path: 'Späß 1.jpg' }],
    ['.DS_Store', null],
    ['x/__MACOSX/._a', null],
    ['photos/Thumbs.db', null],
  ])('%j', (name, expected) => expect(datasetPath(name)).toEqual(expected))

  test.each([
    '../etc/passwd',
    'a/../b',
    '/a',
    'a//b',
    'a/',
    './a',
    'a\\b',
    'a\0b',
    'a\nb',
    '\ud800',
    'x'.repeat(256),
    'a/'.repeat(600),
  ])('has no path for %j', (name) => expect(datasetPath(name)).toMatchObject({ unfit: expect.any(String) }))

  test('shows an unfit name in a way that can be stored', () => {
    expect(shownName('a\0\ud800b')).toBe('a\ufffd\ufffdb')
    expect(shownName('x'.repeat(9000))).toHaveLength(500)
  })
})

describe('folderPrefix', () => {
  test.each([
    ['', ''],
    ['/', ''],
    ['a/b', 'a/b/'],
    ['/a/b/', 'a/b/'],
    ['../a', null],
    ['a/../../b', null],
  ])('%j is %j', (given, expected) => expect(folderPrefix(given)).toBe(expected))
})

describe('fitsPattern', () => {
  test.each([
    ['a/b.jpg', '*.jpg', true],
    ['a/b.jpg', '*.png', false],
    ['a/b.jpg', '**/*.jpg', true],
    ['b.jpg', '**/*.jpg', true],
    ['a/b/c.jpg', 'a/*.jpg', false],
    ['a/b/c.jpg', 'a/**', true],
    ['a/b/c.jpg', '/a/**/c.*', true],
    ['a/c.jpg', 'a/**/c.jpg', true],
    ['train/x/1.jpg', 'train/?/1.jpg', true],
    ['train/xy/1.jpg', 'train/?/1.jpg', false],
    ['a.b+(c).jpg', 'a.b+(c).*', true],
    ['axb', 'a.b', false],
    ['ab', 'a*b*', true],
    ['😀.jpg', '?.jpg', true],
    ['', '*', true],
  ])('%j, %j: %j', (path, pattern, expected) => expect(fitsPattern(path, pattern)).toBe(expected))

  test('takes no longer for a pattern that was made to take long', () => {
    const began = performance.now()
    expect(fitsPattern(`${'a'.repeat(255)}c`, `${'a*'.repeat(99)}b`)).toBe(false)
    expect(fitsPattern(`${'a/'.repeat(400)}c`, `${'**/a/'.repeat(39)}b`)).toBe(false)
    expect(performance.now() - began).toBeLessThan(5000)
  })
})
