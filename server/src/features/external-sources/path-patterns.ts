/**
 * Whether a path fits a pattern: `*` is any text within one name, `?` one character, `**` any folders; a pattern
 * without a slash looks at the name alone. Takes time in the product of both lengths at most, whatever is written.
 * @source gitignore(5) "PATTERN FORMAT", of which it is a part
 */
export function fitsPattern(path: string, pattern: string): boolean {
  const names = path.split('/')
  if (!pattern.includes('/')) return fitsName(names.at(-1)!, pattern)
  const folders = pattern.replace(/^\//, '').split('/')
  return fits(names, folders, (name) => name === '**', fitsName)
}

const fitsName = (name: string, pattern: string): boolean =>
  fits(
    [...name],
    [...pattern],
    (sign) => sign === '*',
    (character, sign) => sign === '?' || character === sign,
  )

/** Greedy with one step back: the last wildcard takes one more whenever what follows it does not fit. */
function fits<T>(
  items: T[],
  pattern: T[],
  isWildcard: (part: T) => boolean,
  matches: (item: T, part: T) => boolean,
): boolean {
  let item = 0
  let part = 0
  let wildcard = -1
  let taken = 0
  while (item < items.length) {
    if (part < pattern.length && isWildcard(pattern[part]!)) {
      wildcard = part++
      taken = item
    } else if (part < pattern.length && matches(items[item]!, pattern[part]!)) {
      item++
      part++
    } else if (wildcard >= 0) {
      part = wildcard + 1
      item = ++taken
    } else return false
  }
  return pattern.slice(part).every(isWildcard)
}
