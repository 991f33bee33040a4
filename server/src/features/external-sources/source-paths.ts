const pathBytesMax = 1024
const nameBytesMax = 255
/** What systems leave lying about. @source contract B5.7 */
const litter = /(^|\/)(__MACOSX\/|\.DS_Store$|Thumbs\.db$|desktop\.ini$)/i

/** The path that an object gets in a dataset; why it can have none; or null for what nobody wants. */
export function datasetPath(name: string): { path: string } | { unfit: string } | null {
  if (litter.test(name)) return null
  const path = name.normalize('NFC')
  const names = path.split('/')
  if (!path.isWellFormed() || /\p{Cc}/u.test(path)) return { unfit: 'its name holds characters that no path may have' }
  if (path.includes('\\')) return { unfit: 'its name holds a backslash' }
  if (names.some((part) => part === '' || part === '.' || part === '..')) return { unfit: 'its name is no plain path' }
  if (Buffer.byteLength(path) > pathBytesMax || names.some((part) => Buffer.byteLength(part) > nameBytesMax))
    return { unfit: `its name is longer than ${nameBytesMax} bytes, or its path than ${pathBytesMax}` }
  return { path }
}

/** What an unfit name is shown as: storable, and not endless. */
export const shownName = (name: string): string =>
  name
    .toWellFormed()
    .replace(/\p{Cc}/gu, '\u{fffd}')
    .slice(0, 500) || '(no name)'

/** A folder of a source as it is kept: `` or `a/b/`. Null when it leads somewhere else. */
export function folderPrefix(given: string): string | null {
  const trimmed = given.replace(/^\/+|\/+$/g, '')
  if (trimmed === '') return ''
  const checked = datasetPath(trimmed)
  return checked && 'path' in checked ? `${trimmed}/` : null
}
