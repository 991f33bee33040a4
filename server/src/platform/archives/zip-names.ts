import { isUtf8 } from 'node:buffer'
import { type Entry, getFileNameLowLevel } from 'yauzl'

const utf8Flag = 0x800
const strictKorean = new TextDecoder('euc-kr', { fatal: true })

/**
 * The name of an entry in NFC. Bytes that are valid UTF-8 are taken as UTF-8, whatever the flag says, because many
 * tools forget it; then the Unicode path field counts, then code page 949 where a common Hangul syllable shows it
 * (Windows in Korea), then code page 437. @source APPNOTE 6.3.10 §4.4.4, §4.6.9, appendix D
 */
export function zipEntryName(entry: Entry): string {
  const raw = entry.fileNameRaw
  const flags = isUtf8(raw) ? entry.generalPurposeBitFlag | utf8Flag : entry.generalPurposeBitFlag & ~utf8Flag
  const named = getFileNameLowLevel(flags, raw, entry.extraFields, true)
  const unicodeField = entry.extraFields.some((field) => field.id === 0x7075)
  const name = ((!isUtf8(raw) && !unicodeField && koreanName(raw)) || named).normalize('NFC')
  return madeByDos(entry) ? name.replaceAll('\\', '/') : name
}

/** Old packers of Windows separate folders by backslashes, which no name of theirs can hold. @source APPNOTE §4.4.2 */
const madeByDos = (entry: Entry): boolean => [0, 10, 14].includes(entry.versionMadeBy >>> 8)

const partBytesMax = 255
/** Longer paths fit no index. */
const pathBytesMax = 1024

/** Why no file can have this path, or null. */
export function unusableName(path: string): string | null {
  if (/\p{Cc}/u.test(path)) return 'the name holds control characters'
  if (path.split('/').some((part) => Buffer.byteLength(part) > partBytesMax)) return 'the name is too long'
  return Buffer.byteLength(path) > pathBytesMax ? 'the path is too long' : null
}

function koreanName(raw: Buffer): string | null {
  if (!/[\xb0-\xc8][\xa1-\xfe]/.test(raw.toString('latin1'))) return null
  try {
    return strictKorean.decode(raw)
  } catch {
    return null
  }
}
