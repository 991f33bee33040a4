import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { connect, type Socket } from 'node:net'
import { text } from 'node:stream/consumers'

/** One request as it goes over the wire. */
export interface LoadRequest {
  method: string
  path: string
  body?: string
}

export interface LoadResult {
  perSecond: number
  p50Ms: number
  p99Ms: number
}

interface LoadOptions {
  port: number
  headers: Record<string, string>
  connections: number
  seconds: number
  /** The next request; counts up over all connections. */
  next(count: number): LoadRequest
}

/**
 * So many connections that each send the next request when the last one was answered. Requests are written by hand, so
 * that the client takes as little as possible of the processors it shares with the server. Throws for any answer
 * but 200.
 */
export async function load(options: LoadOptions): Promise<LoadResult> {
  const { connections, seconds } = options
  const times: number[] = []
  let count = 0
  const end = performance.now() + seconds * 1000
  const began = performance.now()
  const lane = async () => {
    const connection = await openConnection(options.port)
    while (performance.now() < end) {
      const start = performance.now()
      await connection.send(options.next(count++), options.headers)
      times.push(performance.now() - start)
    }
    connection.close()
  }
  await Promise.all(Array.from({ length: connections }, lane))
  const elapsed = (performance.now() - began) / 1000
  times.sort((a, b) => a - b)
  const at = (share: number) => times[Math.min(times.length - 1, Math.floor(times.length * share))]!
  return { perSecond: times.length / elapsed, p50Ms: at(0.5), p99Ms: at(0.99) }
}

interface Connection {
  /** The body of the answer. */
  send(request: LoadRequest, headers: Record<string, string>): Promise<string>
  close(): void
}

async function openConnection(port: number): Promise<Connection> {
  const socket = connect({ port, host: '127.0.0.1', noDelay: true })
  await new Promise<void>((resolve, reject) => socket.once('connect', resolve).once('error', reject))
  return {
    async send({ method, path, body = '' }, headers) {
      const lines = Object.entries({ host: `127.0.0.1:${port}`, ...headers, 'content-type': 'application/json' })
      const head = lines.map(([name, value]) => `${name}: ${value}\r\n`).join('')
      socket.write(`${method} ${path} HTTP/1.1\r\n${head}content-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`)
      const answer = await readAnswer(socket)
      if (answer.status !== 200)
        throw new Error(`${method} ${path} gave ${answer.status}: ${answer.body.slice(0, 500)}`)
      return answer.body
    },
    close: () => socket.destroy(),
  }
}

/** One request on a connection of its own. */
export async function sendOnce(
  { port, headers }: { port: number; headers: Record<string, string> },
  { method, path, body }: LoadRequest,
): Promise<string> {
  const type = { 'content-type': 'application/json' }
  const call = request({ port, host: '127.0.0.1', method, path, headers: { ...headers, ...type }, agent: false })
  call.end(body)
  const [answer] = (await once(call, 'response')) as [IncomingMessage]
  const answered = await text(answer)
  if (answer.statusCode === 200) return answered
  throw new Error(`${method} ${path} gave ${answer.statusCode}: ${answered.slice(0, 500)}`)
}

function readAnswer(socket: Socket): Promise<{ status: number; body: string }> {
  return new Promise((resolve, reject) => {
    const pieces: Buffer[] = []
    let length = 0
    let expected = Number.POSITIVE_INFINITY
    let start = 0
    const settle = (act: () => void) => {
      socket.off('data', take).off('error', fail).off('close', lost)
      act()
    }
    const fail = (error: Error) => settle(() => reject(error))
    const lost = () => fail(new Error('the server closed the connection'))
    const take = (piece: Buffer) => {
      pieces.push(piece)
      length += piece.length
      if (expected === Number.POSITIVE_INFINITY) {
        const head = Buffer.concat(pieces)
        const headEnd = head.indexOf('\r\n\r\n')
        if (headEnd < 0) return
        start = headEnd + 4
        const declared = /content-length: (\d+)/i.exec(head.toString('latin1', 0, headEnd))?.[1]
        // In pieces: the end is a piece of length 0, and nothing comes after it.
        if (declared === undefined) return piece.subarray(-5).equals(lastPiece) ? done() : undefined
        expected = start + Number(declared)
      }
      if (length >= expected) done()
    }
    const done = () => {
      const all = Buffer.concat(pieces)
      settle(() => resolve({ status: Number(all.toString('latin1', 9, 12)), body: all.toString('utf8', start) }))
    }
    socket.on('data', take).on('error', fail).on('close', lost)
  })
}

const lastPiece = Buffer.from('0\r\n\r\n')
