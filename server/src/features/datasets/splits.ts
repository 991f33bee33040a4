export type Split = 'train' | 'val' | 'test'

const splitNames: Record<string, Split> = {
  train: 'train',
  training: 'train',
  val: 'val',
  valid: 'val',
  validation: 'val',
  test: 'test',
  testing: 'test',
}

/** The split that a folder or list is named after, as the common tools name it, or null. */
export const splitNamed = (name: string): Split | null => splitNames[name.toLowerCase()] ?? null

/** The split that a folder on the way to the file names, the outermost first, or null. */
export function splitOf(path: string): Split | null {
  for (const part of path.split('/').slice(0, -1)) {
    const split = splitNamed(part)
    if (split) return split
  }
  return null
}
