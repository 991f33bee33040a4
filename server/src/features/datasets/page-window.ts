/** Where to read one page of a sorted list. */
export interface PageWindow {
  direction: 'asc' | 'desc'
  offset: number
  limit: number
  /** The rows come in the opposite order. */
  backwards: boolean
}

/**
 * A page beyond the middle is read from the end, so that the last of a million rows is as near as the first. Null for
 * a page past the end.
 */
export function pageWindow(
  { page, page_size: size }: { page: number; page_size: number },
  direction: 'asc' | 'desc',
  total: number,
): PageWindow | null {
  const offset = (page - 1) * size
  const limit = Math.min(size, total - offset)
  if (limit <= 0) return null
  const fromEnd = total - offset - limit
  if (fromEnd >= offset) return { direction, offset, limit, backwards: false }
  return { direction: direction === 'asc' ? 'desc' : 'asc', offset: fromEnd, limit, backwards: true }
}
