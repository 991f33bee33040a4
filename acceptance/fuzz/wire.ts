import { Agent, type IncomingHttpHeaders, request } from 'node:http'
import type { Socket } from 'node:net'

export interface WireRequest {
  method: string
  /** With its query, exactly as it goes over the wire. */
  target: string
  headers: Record<string, string | string[]>
  body: Buffer | null
}

export interface WireAnswer {
  status: number
  headers: IncomingHttpHeaders
  text: string
  ms: number
}

const agent = new Agent({ keepAlive: true, maxSockets: 32 })
const patienceMs = 60_000
const lastOn = new WeakMap<Socket, string>()
const longest = 2 << 20

/** Sends it and reads the answer; of an event stream only the first piece. Rejects when there is no answer. */
export function send(url: URL, { method, target, headers, body }: WireRequest): Promise<WireAnswer> {
  const { promise, resolve, reject } = Promise.withResolvers<WireAnswer>()
  const began = performance.now()
  const { hostname: host, port } = url
  const length = body ? { 'content-length': String(body.length) } : {}
  const sent = request({ host, port, agent, method, path: target, headers: { ...length, ...headers } }, (response) => {
    const pieces: Buffer[] = []
    let size = 0
    const stream = String(response.headers['content-type']).startsWith('text/event-stream')
    const done = () => {
      const text = Buffer.concat(pieces).toString()
      resolve({ status: response.statusCode!, headers: response.headers, text, ms: performance.now() - began })
    }
    response.on('data', (piece: Buffer) => {
      if (size < longest) pieces.push(piece)
      size += piece.length
      if (!stream) return
      done()
      sent.destroy()
    })
    response.on('end', done)
    response.on('error', reject)
  })
  sent.setTimeout(patienceMs, () => sent.destroy(new Error(`no answer within ${patienceMs / 1000} s`)))
  let before: string | undefined
  sent.on('socket', (socket) => {
    before = lastOn.get(socket)
    lastOn.set(socket, `${method} ${target.slice(0, 300)}`)
  })
  sent.on('error', (error) => {
    if (before) error.message += `, after ${before} on the same connection`
    reject(error)
  })
  sent.end(body ?? undefined)
  return promise
}

const quoted = (text: string) => `'${text.replaceAll("'", "'\\''")}'`

/** The same request as a command; bytes that a shell can't hold go through printf. */
export function curlOf(url: URL, { method, target, headers, body }: WireRequest): string {
  const shown = (name: string, value: string) =>
    `${name}: ${name === 'authorization' && value.startsWith('Bearer ey') ? 'Bearer $TOKEN' : value}`
  const given = Object.entries(headers).flatMap(([name, value]) => [value].flat().map((one) => shown(name, one)))
  const parts = [
    'curl -i --path-as-is -X',
    method,
    ...given.map((line) => `-H ${line.includes('$TOKEN') ? `"${line}"` : quoted(line)}`),
  ]
  const printable = body && body.length < 4000 && Buffer.from(body.toString()).equals(body) && !body.includes(0)
  if (body && !printable) {
    const shown = body.subarray(0, 2000)
    const octal = [...shown].map((byte) => `\\${byte.toString(8).padStart(3, '0')}`).join('')
    const rest = body.length > shown.length ? ` # the first ${shown.length} of ${body.length} bytes` : ''
    return `printf ${quoted(octal)} | ${[...parts, '--data-binary @-', quoted(url.origin + target)].join(' ')}${rest}`
  }
  if (body) parts.push(`--data-raw ${quoted(body.toString())}`)
  return [...parts, quoted(url.origin + target)].join(' ')
}
