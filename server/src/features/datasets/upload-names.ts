import { invalid } from '../../platform/errors.ts'

const nameBytesMax = 255

/**
 * The name a client gave a file, reduced to its base: NFC, no control characters, at most 255 bytes (the end with the
 * extension is kept). Throws a 422 when nothing is left. @source contract B5.2
 */
export function baseName(given: string): string {
  const base = given.normalize('NFC').split(/[/\\]/).at(-1)!
  const clean = base.replace(/\p{Cc}/gu, '').trim()
  if (clean === '' || clean === '.' || clean === '..')
    throw invalid({ loc: ['body', 'filename'], msg: 'is no name of a file', type: 'value_error', input: given })
  if (Buffer.byteLength(clean) <= nameBytesMax) return clean
  const dot = clean.lastIndexOf('.')
  const extension = dot > 0 && Buffer.byteLength(clean.slice(dot)) <= 32 ? clean.slice(dot) : ''
  // Each letter has a byte at least. What is left to shorten is small, whatever was given.
  const letters = [...clean.slice(0, clean.length - extension.length)].slice(0, nameBytesMax)
  while (Buffer.byteLength(letters.join('')) + Buffer.byteLength(extension) > nameBytesMax) letters.pop()
  return letters.join('') + extension
}
