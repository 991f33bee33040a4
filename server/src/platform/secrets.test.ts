import { mkdtemp, readdir, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openSecretBox, secretBox } from './secrets.ts'

let dataDir: string
beforeAll(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'platform-mlops-secrets-'))
})
afterAll(() => rm(dataDir, { recursive: true, force: true }))

describe('secretBox', () => {
  const box = secretBox(Buffer.alloc(32, 1))

  test('gives back what was sealed, and never seals the same way twice', () => {
    const secret = { token: 'ünlesbar', n: 1 }
    const sealed = box.seal(secret, 'a')
    expect(sealed).not.toContain('nlesbar')
    expect(box.open(sealed, 'a')).toEqual(secret)
    expect(box.seal(secret, 'a')).not.toBe(sealed)
  })

  test.each([
    ['under another purpose', (sealed: string) => box.open(sealed, 'b')],
    ['under another key', (sealed: string) => secretBox(Buffer.alloc(32, 2)).open(sealed, 'a')],
    ['when a byte was changed', (sealed: string) => box.open(`${sealed.slice(0, -4)}AAAA`, 'a')],
    ['when it was cut short', (sealed: string) => box.open(sealed.slice(0, 20), 'a')],
    ['when it never was one', () => box.open('plain', 'a')],
  ])('does not open %s', (_name, open) => {
    expect(() => open(box.seal('secret', 'a'))).toThrow('does not open')
  })
})

describe('openSecretBox', () => {
  test('makes a key that only the owner reads, once for all processes', async () => {
    const boxes = await Promise.all([1, 2, 3].map(() => openSecretBox({ dataDir, secretKey: null })))
    for (const box of boxes) expect(box.open(boxes[0]!.seal('secret', 'a'), 'a')).toBe('secret')
    expect(await readdir(join(dataDir, 'secrets'))).toEqual(['secrets.key'])
    expect((await stat(join(dataDir, 'secrets/secrets.key'))).mode & 0o777).toBe(0o600)
  })

  test('takes the configured key in its place', async () => {
    const configured = await openSecretBox({ dataDir, secretKey: '07'.repeat(32) })
    expect(configured.open(secretBox(Buffer.alloc(32, 7)).seal('secret', 'a'), 'a')).toBe('secret')
  })
})
