import type { FileHandle } from 'node:fs/promises'

/** Positioned reads served from a window of the file, so that thousands of small ones cost few system calls. */
export interface WindowReader {
  /** Exactly `length` bytes, which nobody will write to; fewer at the end of the file. */
  read(position: number, length: number): Promise<Buffer>
}

interface Window {
  start: number
  end: number
  bytes: Promise<Buffer>
}

export function windowReader(file: FileHandle, size: number, windowBytes: number): WindowReader {
  let window: Window = { start: 0, end: 0, bytes: Promise.resolve(Buffer.alloc(0)) }
  return {
    async read(position, length) {
      const end = Math.min(position + length, size)
      if (position >= end) return Buffer.alloc(0)
      if (position < window.start || end > window.end) {
        const windowEnd = Math.min(size, Math.max(end, position + windowBytes))
        window = { start: position, end: windowEnd, bytes: load(file, position, windowEnd - position) }
      }
      const { start, bytes } = window
      return (await bytes).subarray(position - start, end - start)
    },
  }
}

async function load(file: FileHandle, position: number, length: number): Promise<Buffer> {
  // A fresh buffer each time: slices of the old one are still in use.
  const buffer = Buffer.allocUnsafeSlow(length)
  let filled = 0
  while (filled < length) {
    const { bytesRead } = await file.read(buffer, filled, length - filled, position + filled)
    if (bytesRead === 0) throw new Error('the file became shorter while it was read')
    filled += bytesRead
  }
  return buffer
}
