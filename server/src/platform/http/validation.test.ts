import { Type } from 'typebox'
import { describe, expect, test } from 'vitest'
import type { PlatformError } from '../errors.ts'
import { anyObject, must, nullable } from '../schema.ts'
import { unknownKeysDropper, validator } from './validation.ts'

const faultOf = (check: (value: unknown) => void, value: unknown) => {
  try {
    check(value)
  } catch (error) {
    return (error as PlatformError).detail as { loc: unknown[]; type: string }[]
  }
}

describe('text that can not be stored', () => {
  const check = validator('body', anyObject('Anything.'))

  test('422 names the place of NUL, of half a surrogate pair, and of a key with either', () => {
    expect(faultOf(check, { a: [{ b: 'x\0' }] })).toMatchObject([
      { loc: ['body', 'a', 0, 'b'], type: 'string_unicode' },
    ])
    expect(faultOf(check, { a: '\ud800' })).toMatchObject([{ loc: ['body', 'a'], type: 'string_unicode' }])
    expect(faultOf(check, { a: { 'k\0': 1 } })).toMatchObject([{ loc: ['body', 'a', 'k'] }])
    expect(faultOf(check, { a: '😀', b: [null, 1, true] })).toBeUndefined()
  })

  test('422 for nesting that would exhaust the stack, at once', () => {
    const nested = (levels: number) => JSON.parse(`${'{"a":'.repeat(levels)}1${'}'.repeat(levels)}`)
    expect(faultOf(check, nested(60))).toBeUndefined()
    expect(faultOf(check, nested(50_000))).toMatchObject([{ loc: ['body'], type: 'recursion_loop' }])
  })
})

test('a pattern is told in words', () => {
  const check = validator('body', Type.Object({ name: Type.String(must('^[a-z]+$', 'be lower case letters')) }))
  expect(faultOf(check, { name: 'A' })).toMatchObject([
    { loc: ['body', 'name'], msg: 'must be lower case letters', type: 'string_pattern_mismatch', input: 'A' },
  ])
})

describe('keys that the schema does not name', () => {
  const inner = Type.Object({ known: Type.Integer() })
  const schema = Type.Object({
    name: Type.String(),
    inner: Type.Optional(nullable(inner)),
    list: Type.Optional(Type.Array(inner)),
    free: Type.Optional(anyObject('Anything.')),
    byName: Type.Optional(Type.Record(Type.String(), inner)),
  })

  test('go, at any depth; free objects and records keep theirs', () => {
    const body = {
      name: 'a',
      tenant_id: 'of somebody else',
      inner: { known: 1, state: 'FROZEN' },
      list: [{ known: 2, more: true }],
      free: { any: { thing: 1 } },
      byName: { a: { known: 3 } },
    }
    unknownKeysDropper(schema)!(body)
    expect(body).toEqual({
      name: 'a',
      inner: { known: 1 },
      list: [{ known: 2 }],
      free: { any: { thing: 1 } },
      byName: { a: { known: 3 } },
    })
  })

  test('of a union of several objects stay, for nobody knows which one was meant', () => {
    const union = Type.Object({ one: Type.Union([inner, Type.Object({ other: Type.Integer() })]) })
    const body = { one: { known: 1, other: 2 } }
    unknownKeysDropper(union)!(body)
    expect(body).toEqual({ one: { known: 1, other: 2 } })
  })
})
