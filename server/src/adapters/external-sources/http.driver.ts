import { buffer } from 'node:stream/consumers'
import {
  type ExternalSource,
  type HttpConfig,
  type HttpCredentials,
  type Listed,
  SourceError,
} from './external-sources.ts'
import type { GuardedAgents } from './guarded-agents.ts'
import { getHttp, type HttpReply, networkFault } from './http-client.ts'
import { folderOf, linksOf, manifestObjects, nameWithin } from './http-listing.ts'

const manifestBytesMax = 64 * 1024 * 1024
const pageBytesMax = 8 * 1024 * 1024
const pagesMax = 20_000
const depthMax = 64

/**
 * Files behind web addresses: those that a manifest in JSON names, or those that a folder page links to, the pages
 * below it included, as nginx, Apache and `python -m http.server` make them.
 */
export function httpSource(
  config: HttpConfig,
  credentials: HttpCredentials | null,
  agents: GuardedAgents,
): ExternalSource {
  const home = new URL(config.url)
  const authorization = credentials && { origin: home.origin, value: authorizationOf(credentials) }
  const get = (url: URL, headers: Record<string, string>, signal: AbortSignal) =>
    getHttp(agents, { url, headers, authorization, signal })
  return {
    async *list(prefix, signal) {
      const page = await get(home, { accept: 'application/json, text/html;q=0.9' }, signal)
      if (isManifest(page)) {
        const text = await textOf(page, manifestBytesMax, signal)
        for (const listed of manifestObjects(text, page.url)) {
          if (prefix === '') yield listed
          else if (listed.name.startsWith(prefix)) yield { ...listed, name: listed.name.slice(prefix.length) }
        }
        return
      }
      const html = await htmlOf(page, signal)
      if (prefix === '') return yield* crawl(get, page.url, html, signal)
      const start = new URL(prefix.split('/').map(encodeURIComponent).join('/'), folderOf(page.url))
      const first = await get(start, { accept: 'text/html' }, signal)
      yield* crawl(get, first.url, await htmlOf(first, signal), signal)
    },
    async read({ key, size, version }, known, signal) {
      const reply = await get(new URL(key), conditionOf(known), signal)
      if (reply.status === 304) {
        reply.body.resume()
        return null
      }
      const length = reply.headers['content-length'] === undefined ? null : Number(reply.headers['content-length'])
      if (size !== null && length !== null && size !== length) {
        reply.body.destroy()
        throw new SourceError('changed', `It has ${length} bytes; the manifest says ${size}.`)
      }
      return { content: contentOf(reply, signal), size: size ?? length, version: version ?? versionOf(reply) }
    },
    close: () => agents.close(),
  }
}

const authorizationOf = (credentials: HttpCredentials): string =>
  'token' in credentials
    ? `Bearer ${credentials.token}`
    : `Basic ${Buffer.from(`${credentials.username}:${credentials.password}`).toString('base64')}`

const contentType = ({ headers }: HttpReply) => (headers['content-type'] ?? '').toLowerCase()
const isManifest = (reply: HttpReply) => contentType(reply).includes('json') || reply.url.pathname.endsWith('.json')

async function htmlOf(reply: HttpReply, signal: AbortSignal): Promise<string> {
  if (contentType(reply).startsWith('text/html')) return textOf(reply, pageBytesMax, signal)
  reply.body.destroy()
  throw new SourceError('invalid', 'The address is neither a manifest in JSON nor a folder page in HTML.')
}

async function textOf(reply: HttpReply, maxBytes: number, signal: AbortSignal): Promise<string> {
  return (await buffer(atMost(contentOf(reply, signal), maxBytes))).toString('utf8')
}

async function* atMost(content: AsyncIterable<Uint8Array>, maxBytes: number): AsyncGenerator<Uint8Array> {
  let bytes = 0
  for await (const piece of content) {
    bytes += piece.length
    if (bytes > maxBytes) throw new SourceError('invalid', `The listing is longer than ${maxBytes} bytes.`)
    yield piece
  }
}

async function* contentOf({ body }: HttpReply, signal: AbortSignal): AsyncGenerator<Uint8Array> {
  try {
    yield* body as AsyncIterable<Buffer>
  } catch (error) {
    throw networkFault(error, signal)
  }
}

type Get = (url: URL, headers: Record<string, string>, signal: AbortSignal) => Promise<HttpReply>

/** Follows links downwards alone, each page once. */
async function* crawl(get: Get, home: URL, html: string, signal: AbortSignal): AsyncGenerator<Listed> {
  const base = folderOf(home)
  const waiting = [{ url: new URL(base), html: html as string | null, depth: 0 }]
  const seen = new Set([base])
  for (let page = waiting.pop(); page; page = waiting.pop()) {
    const text = page.html ?? (await readPage(get, page.url, signal))
    if (typeof text !== 'string') {
      yield { name: nameWithin(page.url, base), skipped: text.message, incomplete: true }
      continue
    }
    for (const url of linksOf(text, page.url)) {
      const isFolder = url.pathname.endsWith('/')
      if (!isFolder) yield { key: url.href, name: nameWithin(url, base), size: null, version: null }
      if (!isFolder || seen.has(url.href)) continue
      if (seen.size >= pagesMax) throw new SourceError('invalid', `It has more than ${pagesMax} folder pages.`)
      seen.add(url.href)
      if (page.depth < depthMax) waiting.push({ url, html: null, depth: page.depth + 1 })
      else yield { name: nameWithin(url, base), skipped: `is more than ${depthMax} folders deep`, incomplete: true }
    }
  }
}

async function readPage(get: Get, url: URL, signal: AbortSignal): Promise<string | SourceError> {
  try {
    return await htmlOf(await get(url, { accept: 'text/html' }, signal), signal)
  } catch (error) {
    if (error instanceof SourceError) return error
    throw error
  }
}

/** @source RFC 9110 §8.8, §13.1 */
function versionOf({ headers }: HttpReply): string | null {
  if (headers.etag) return `etag:${headers.etag}`
  return headers['last-modified'] ? `modified:${headers['last-modified']}` : null
}

function conditionOf(known: string | null): Record<string, string> {
  if (known?.startsWith('etag:')) return { 'if-none-match': known.slice('etag:'.length) }
  if (known?.startsWith('modified:')) return { 'if-modified-since': known.slice('modified:'.length) }
  return {}
}
