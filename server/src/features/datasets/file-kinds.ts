import { posix } from 'node:path'

export const fileKinds = ['image', 'video', 'annotation', 'tabular', 'archive', 'other'] as const
export type FileKind = (typeof fileKinds)[number]

const known: Record<string, [kind: FileKind, mediaType: string]> = {
  jpg: ['image', 'image/jpeg'],
  jpeg: ['image', 'image/jpeg'],
  jpe: ['image', 'image/jpeg'],
  png: ['image', 'image/png'],
  webp: ['image', 'image/webp'],
  gif: ['image', 'image/gif'],
  tif: ['image', 'image/tiff'],
  tiff: ['image', 'image/tiff'],
  bmp: ['image', 'image/bmp'],
  avif: ['image', 'image/avif'],
  mp4: ['video', 'video/mp4'],
  mov: ['video', 'video/quicktime'],
  avi: ['video', 'video/x-msvideo'],
  mkv: ['video', 'video/x-matroska'],
  webm: ['video', 'video/webm'],
  json: ['annotation', 'application/json'],
  xml: ['annotation', 'application/xml'],
  txt: ['annotation', 'text/plain; charset=utf-8'],
  yaml: ['annotation', 'application/yaml'],
  yml: ['annotation', 'application/yaml'],
  csv: ['tabular', 'text/csv; charset=utf-8'],
  tsv: ['tabular', 'text/tab-separated-values; charset=utf-8'],
  jsonl: ['tabular', 'application/x-ndjson'],
  ndjson: ['tabular', 'application/x-ndjson'],
  parquet: ['tabular', 'application/vnd.apache.parquet'],
  zip: ['archive', 'application/zip'],
  tar: ['archive', 'application/x-tar'],
  gz: ['archive', 'application/gzip'],
  tgz: ['archive', 'application/gzip'],
  '7z': ['archive', 'application/x-7z-compressed'],
  html: ['other', 'text/html; charset=utf-8'],
  // Never an image here: rendering an untrusted drawing runs its instructions.
  svg: ['other', 'image/svg+xml'],
  pdf: ['other', 'application/pdf'],
  md: ['other', 'text/markdown; charset=utf-8'],
}

/** Lower-case, without the dot; '' when there is none. */
export const extensionOf = (path: string): string => posix.extname(path).slice(1).toLowerCase()

/** What the name of a file says it is; the validation looks inside. */
export function kindOf(path: string): { kind: FileKind; mediaType: string } {
  const [kind, mediaType] = known[extensionOf(path)] ?? ['other', 'application/octet-stream']
  return { kind, mediaType }
}

/** Media type of an image by its first bytes, or null. @source WHATWG MIME Sniffing §6.1, ISO/IEC 23000-22 */
export function imageTypeOf(head: Uint8Array): string | null {
  const text = Buffer.from(head.buffer, head.byteOffset, Math.min(head.length, 16)).toString('latin1')
  if (text.startsWith('\xff\xd8\xff')) return 'image/jpeg'
  if (text.startsWith('\x89PNG\r\n\x1a\n')) return 'image/png'
  if (text.startsWith('RIFF') && text.slice(8, 12) === 'WEBP') return 'image/webp'
  if (/^GIF8[79]a/.test(text)) return 'image/gif'
  if (/^(II\*\0|MM\0\*|II\+\0|MM\0\+)/.test(text)) return 'image/tiff'
  if (text.startsWith('BM')) return 'image/bmp'
  if (/^ftypavi[fs]/.test(text.slice(4))) return 'image/avif'
  return null
}
