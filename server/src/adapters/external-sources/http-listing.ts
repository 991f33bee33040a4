import { type Listed, SourceError } from './external-sources.ts'

/** What an HTTP source says of its objects: a manifest in JSON, or the links of a page. */

const hrefs = /<a\s[^>]{0,1000}?href\s*=\s*(?:"([^"]{0,2000})"|'([^']{0,2000})'|([^\s"'>]{1,2000}))/gi
const entities: Record<string, string> = { amp: '&', lt: '<', gt: '>', quot: '"', '#39': "'", '#x27': "'" }

/** Addresses below the page that it links to; a folder ends with a slash. @source nginx autoindex, Apache mod_autoindex */
export function linksOf(html: string, page: URL): URL[] {
  const base = folderOf(page)
  const found = new Map<string, URL>()
  for (const [, double, single, plain] of html.matchAll(hrefs)) {
    const text = (double ?? single ?? plain)!.replace(
      /&(amp|lt|gt|quot|#39|#x27);/gi,
      (_all, name: string) => entities[name.toLowerCase()]!,
    )
    const url = URL.parse(text, page.href)
    if (url?.search !== '' || !url.href.startsWith(base) || url.href === base) continue
    url.hash = ''
    found.set(url.href, url)
  }
  return [...found.values()]
}

/** Address of the folder that a page or manifest stands in, with a slash at the end. */
export function folderOf(url: URL): string {
  const folder = new URL(url)
  folder.search = ''
  folder.hash = ''
  folder.pathname = folder.pathname.slice(0, folder.pathname.lastIndexOf('/') + 1)
  return folder.href
}

/** The name of an address within a folder, or its last part when it is elsewhere. */
export function nameWithin(url: URL, folder: string): string {
  const plain = url.origin + url.pathname
  const name = plain.startsWith(folder) ? plain.slice(folder.length) : plain.slice(plain.lastIndexOf('/') + 1)
  try {
    return decodeURIComponent(name)
  } catch {
    return name
  }
}

interface ManifestEntry {
  url?: unknown
  path?: unknown
  size?: unknown
  sha256?: unknown
}

/**
 * `["a.jpg", …]` or `{"files": [{"url": "a.jpg", "path": "train/a.jpg", "size": 123, "sha256": "…"}, …]}`; addresses
 * are relative to the manifest's, and all but the address may be left out. Throws `invalid` for another shape.
 */
export function* manifestObjects(text: string, manifest: URL): Generator<Listed> {
  const folder = folderOf(manifest)
  for (const [index, entry] of entriesOf(text).entries()) {
    const { url: address, path, size, sha256 } = typeof entry === 'string' ? { url: entry } : (entry ?? {})
    const url = typeof address === 'string' ? URL.parse(address, manifest.href) : null
    const name = typeof path === 'string' ? path : url ? nameWithin(url, folder) : `entry ${index}`
    const digest = typeof sha256 === 'string' ? sha256.toLowerCase() : null
    const fault = !url
      ? 'has no address'
      : !(['http:', 'https:'].includes(url.protocol) && url.username === '')
        ? 'has no web address'
        : size !== undefined && size !== null && !(Number.isSafeInteger(size) && (size as number) >= 0)
          ? 'has a size that is no number of bytes'
          : digest !== null && !/^[0-9a-f]{64}$/.test(digest)
            ? 'has a sha256 that is no digest'
            : null
    if (fault) yield { name, skipped: fault, incomplete: false }
    else
      yield {
        key: url!.href,
        name,
        size: (size as number | null | undefined) ?? null,
        version: digest && `sha256:${digest}`,
      }
  }
}

function entriesOf(text: string): (ManifestEntry | string | null)[] {
  let document: unknown
  try {
    document = JSON.parse(text)
  } catch (cause) {
    throw new SourceError('invalid', 'The manifest is not JSON.', cause)
  }
  const list = Array.isArray(document) ? document : (document as { files?: unknown } | null)?.files
  if (!Array.isArray(list)) throw new SourceError('invalid', 'The manifest is neither a list nor {"files": […]}.')
  return list
}
