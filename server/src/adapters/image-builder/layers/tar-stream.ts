import { posix } from 'node:path'

/** What goes into a layer. Paths are relative with `/`; owners, times and order are fixed by `tarStream`. */
export type LayerEntry = LayerFile | LayerFolder | LayerLink

export interface LayerFile {
  kind: 'file'
  path: string
  mode: number
  /** Exact length in bytes; content that differs fails the layer. */
  size: number
  /** Stands for the content in a cache key: changes whenever the content may have changed. */
  stamp: string
  open(): AsyncIterable<Uint8Array> | Promise<AsyncIterable<Uint8Array>>
}

export interface LayerFolder {
  kind: 'folder'
  path: string
  mode: number
}

export interface LayerLink {
  kind: 'link'
  path: string
  /** Where the symbolic link points, relative to its own folder. */
  target: string
}

const blockBytes = 512
const largestOctalSize = 8 ** 11 - 1

/** Sorted by path with every parent folder present (mode 755): a folder always precedes what it holds. */
export function orderEntries(entries: LayerEntry[]): LayerEntry[] {
  const byPath = new Map<string, LayerEntry>()
  for (const entry of entries) {
    if (byPath.has(entry.path)) throw new Error(`two layer entries at ${entry.path}`)
    byPath.set(entry.path, entry)
  }
  for (const { path } of entries) {
    for (let folder = posix.dirname(path); folder !== '.' && folder !== '/'; folder = posix.dirname(folder)) {
      const above = byPath.get(folder)
      if (above && above.kind !== 'folder') throw new Error(`layer entry ${path} lies below ${folder}, not a folder`)
      if (!above) byPath.set(folder, { kind: 'folder', path: folder, mode: 0o755 })
    }
  }
  return [...byPath.values()].sort((a, b) => (a.path < b.path ? -1 : 1))
}

/**
 * A tar archive as it is read: pulled entry by entry, never more than one piece of a file in memory. Owner 0:0, time 0
 * and no user names, so equal entries give equal bytes on any machine.
 * @source POSIX.1-2024 pax "ustar Interchange Format" and extended header records
 */
export async function* tarStream(entries: LayerEntry[]): AsyncGenerator<Uint8Array> {
  for (const entry of orderEntries(entries)) {
    yield* headerBlocks(entry)
    if (entry.kind !== 'file') continue
    let written = 0
    for await (const piece of await entry.open()) {
      written += piece.length
      yield piece
    }
    if (written !== entry.size) throw new Error(`${entry.path} has ${written} bytes, ${entry.size} were announced`)
    yield padding(written)
  }
  yield Buffer.alloc(2 * blockBytes)
}

/** Length in bytes of a layer's files, for progress. */
export function contentBytes(entries: LayerEntry[]): number {
  return entries.reduce((sum, entry) => sum + (entry.kind === 'file' ? entry.size : 0), 0)
}

function* headerBlocks(entry: LayerEntry): Generator<Uint8Array> {
  const name = entry.kind === 'folder' ? `${entry.path}/` : entry.path
  const target = entry.kind === 'link' ? entry.target : ''
  const size = entry.kind === 'file' ? entry.size : 0
  const records = [
    ...(fits(name) ? [] : [paxRecord('path', name)]),
    ...(fits(target) ? [] : [paxRecord('linkpath', target)]),
    ...(size <= largestOctalSize ? [] : [paxRecord('size', String(size))]),
  ]
  if (records.length > 0) {
    const content = Buffer.concat(records)
    yield header({ name: 'PaxHeader', type: 'x', mode: 0o644, size: content.length, target: '' })
    yield content
    yield padding(content.length)
  }
  const type = { file: '0', link: '2', folder: '5' }[entry.kind]
  const mode = entry.kind === 'link' ? 0o777 : entry.mode
  yield header({ name, type, mode, size: Math.min(size, largestOctalSize), target })
}

// Non-ASCII names go into a pax record as well: only there the encoding (UTF-8) is agreed.
const fits = (text: string) => text.length <= 100 && /^[ -~]*$/.test(text)

function header(of: { name: string; type: string; mode: number; size: number; target: string }): Buffer {
  const block = Buffer.alloc(blockBytes)
  block.write(of.name.slice(0, 100), 0, 100, 'latin1')
  block.write(octal(of.mode, 7), 100)
  block.write(octal(0, 7), 108)
  block.write(octal(0, 7), 116)
  block.write(octal(of.size, 11), 124)
  block.write(octal(0, 11), 136)
  block.fill(' ', 148, 156)
  block.write(of.type, 156)
  block.write(of.target.slice(0, 100), 157, 100, 'latin1')
  block.write('ustar\x0000', 257)
  const sum = block.reduce((total, byte) => total + byte, 0)
  block.write(`${octal(sum, 6)}\0 `, 148)
  return block
}

const octal = (value: number, digits: number) => value.toString(8).padStart(digits, '0')

const padding = (length: number) => Buffer.alloc((blockBytes - (length % blockBytes)) % blockBytes)

/** `<length> <key>=<value>\n`, where the length counts its own digits. */
function paxRecord(key: string, value: string): Buffer {
  const rest = Buffer.byteLength(` ${key}=${value}\n`)
  let length = rest + String(rest).length
  if (String(length).length > String(rest).length) length = rest + String(length).length
  return Buffer.from(`${length} ${key}=${value}\n`)
}
