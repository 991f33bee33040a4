import { createHash, createHmac } from 'node:crypto'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

/** Real servers that sources are read from in tests: a folder on the web, and a bucket. Both can misbehave. */

export interface ServedFile {
  content: Buffer
  etag: string
}

/** What is to go wrong with the next answers for a file. */
export type Mischief = 'stall' | 'truncate' | 'error' | 'gone' | 'huge' | 'drip'

export interface SourceServer {
  url: string
  files: Map<string, ServedFile>
  /** By path of the file. */
  mischief: Map<string, Mischief>
  /** Paths whose content was sent, in order. */
  sent: string[]
  put(path: string, content: Buffer | string): void
  /** Of every request, in order. */
  authorizations: (string | undefined)[]
  /** Answers nothing any more; connections are cut. */
  vanish(): void
  /** The same, when it has sent so many files. */
  vanishAfter(files: number): void
  close(): Promise<void>
}

type Answer = (request: IncomingMessage, response: ServerResponse, server: SourceServer) => void

/** A folder as nginx shows it, with a manifest at `/manifest.json`. */
export const startWebFolder = (options: { password?: string } = {}): Promise<SourceServer> =>
  startSource((request, response, server) => {
    const wanted = options.password && `Basic ${Buffer.from(`reader:${options.password}`).toString('base64')}`
    if (wanted && request.headers.authorization !== wanted) return void response.writeHead(401).end()
    const path = decodeURIComponent(new URL(request.url!, 'http://x').pathname).slice(1)
    if (path === '' || path.endsWith('/')) return sendPage(response, server, path)
    if (path === 'loop') return void response.writeHead(302, { location: '/loop' }).end()
    if (path === 'inward') return void response.writeHead(302, { location: 'http://169.254.169.254/latest' }).end()
    sendFile(request, response, server, path)
  })

function sendPage(response: ServerResponse, server: SourceServer, folder: string): void {
  const names = [...server.files.keys()]
    .filter((path) => path.startsWith(folder))
    .map((path) => path.slice(folder.length).replace(/\/.*$/, '/'))
  const links = [...new Set(names)].map(
    (name) => `<a href="${name.split('/').map(encodeURIComponent).join('/')}">${name}</a>`,
  )
  response.setHeader('content-type', 'text/html; charset=utf-8')
  response.end(
    `<html><a href="../">..</a><a href="?C=N;O=D">Name</a>\n${links.join('\n')}\n<a href="http://elsewhere.example/x">x</a></html>`,
  )
}

export function sendFile(request: IncomingMessage, response: ServerResponse, server: SourceServer, path: string): void {
  const file = server.files.get(path)
  const fault = server.mischief.get(path)
  if (!file || fault === 'gone') return void response.writeHead(404).end()
  if (fault === 'error') return void response.writeHead(503).end()
  response.setHeader('etag', file.etag)
  if (request.headers['if-none-match'] === file.etag) return void response.writeHead(304).end()
  server.sent.push(path)
  if (fault === 'huge') return void endless(response)
  response.writeHead(200, {
    'content-length': file.content.length,
    'content-type': path.endsWith('.json') ? 'application/json' : 'application/octet-stream',
  })
  const half = file.content.subarray(0, Math.ceil(file.content.length / 2))
  if (fault === 'stall') return void response.write(half)
  if (fault === 'truncate') return void response.write(half, () => response.destroy())
  response.end(file.content)
}

function endless(response: ServerResponse): void {
  const more = () => {
    while (!response.destroyed && response.write(Buffer.alloc(65_536)));
  }
  response.on('drain', more)
  more()
}

/** A bucket that speaks as much of the S3 protocol as reading takes, and believes signatures alone. */
export const startBucket = (bucket: string, key: { id: string; secret: string } | null): Promise<SourceServer> =>
  startSource((request, response, server) => {
    const url = new URL(request.url!, `http://${request.headers.host}`)
    if (key && !isSigned(request, url, key))
      return sendXml(response, 403, '<Error><Code>SignatureDoesNotMatch</Code></Error>')
    if (!url.pathname.startsWith(`/${bucket}`))
      return sendXml(response, 404, '<Error><Code>NoSuchBucket</Code></Error>')
    const path = decodeURIComponent(url.pathname.slice(bucket.length + 2))
    if (path !== '') return sendFile(request, response, server, path)
    sendListing(response, server, url.searchParams)
  })

const pageSize = 1000

function sendListing(response: ServerResponse, server: SourceServer, query: URLSearchParams): void {
  const after = Buffer.from(query.get('continuation-token') ?? '', 'base64').toString()
  const keys = [...server.files.keys()].filter((key) => key.startsWith(query.get('prefix') ?? '') && key > after).sort()
  const page = keys.slice(0, pageSize)
  const escaped = (text: string) => text.replace(/&/g, '&amp;').replace(/</g, '&lt;').replace(/"/g, '&quot;')
  const items = page.map((key) => {
    const { content, etag } = server.files.get(key)!
    return `<Contents><Key>${escaped(key)}</Key><Size>${content.length}</Size><ETag>${escaped(etag)}</ETag></Contents>`
  })
  const more = keys.length > pageSize
  const token = more
    ? `<NextContinuationToken>${Buffer.from(page.at(-1)!).toString('base64')}</NextContinuationToken>`
    : ''
  sendXml(
    response,
    200,
    `<ListBucketResult><IsTruncated>${more}</IsTruncated>${token}${items.join('')}</ListBucketResult>`,
  )
}

const sendXml = (response: ServerResponse, status: number, xml: string) =>
  void response.writeHead(status, { 'content-type': 'application/xml' }).end(`<?xml version="1.0"?>${xml}`)

/** @source Amazon S3 API Reference, "Authenticating Requests: Using the Authorization Header" */
function isSigned(request: IncomingMessage, url: URL, key: { id: string; secret: string }): boolean {
  const header = request.headers.authorization ?? ''
  const [, credential, signed, signature] =
    /Credential=([^,]+), ?SignedHeaders=([^,]+), ?Signature=(\w+)/.exec(header) ?? []
  const [id, date, region, service] = credential?.split('/') ?? []
  if (id !== key.id || !signed) return false
  const encode = (text: string) =>
    encodeURIComponent(text).replace(/[!'()*]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`)
  const query = [...url.searchParams].map(([name, value]) => `${encode(name)}=${encode(value)}`).sort()
  const names = signed.split(';')
  const headers = names.map((name) => `${name}:${String(request.headers[name]).trim()}\n`)
  const hash = request.headers['x-amz-content-sha256']
  const canonical = [request.method, url.pathname, query.join('&'), headers.join(''), signed, hash].join('\n')
  const scope = [date, region, service, 'aws4_request']
  const digest = createHash('sha256').update(canonical).digest('hex')
  const text = ['AWS4-HMAC-SHA256', request.headers['x-amz-date'], scope.join('/'), digest].join('\n')
  const mac = (under: string | Buffer, message: string) => createHmac('sha256', under).update(message).digest()
  const signingKey = scope.reduce<string | Buffer>((under, part) => mac(under, part!), `AWS4${key.secret}`)
  return mac(signingKey, text).toString('hex') === signature
}

async function startSource(answer: Answer): Promise<SourceServer> {
  const files = new Map<string, ServedFile>()
  let gone = false
  let last = Number.POSITIVE_INFINITY
  const http: Server = createServer((request, response) => {
    server.authorizations.push(request.headers.authorization)
    if (server.sent.length >= last) server.vanish()
    if (gone) request.socket.destroy()
    else answer(request, response, server)
  })
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve))
  const server: SourceServer = {
    url: `http://127.0.0.1:${(http.address() as AddressInfo).port}`,
    files,
    mischief: new Map(),
    sent: [],
    authorizations: [],
    put(path, content) {
      const bytes = Buffer.from(content as string)
      files.set(path, { content: bytes, etag: `"${createHash('md5').update(bytes).digest('hex')}"` })
    },
    vanish() {
      gone = true
      http.closeAllConnections()
    },
    vanishAfter(files) {
      last = server.sent.length + files
    },
    async close() {
      http.closeAllConnections()
      await new Promise((resolve) => http.close(resolve))
    },
  }
  return server
}
