import { connect, type Socket } from 'node:net'

/** One request, made once and sent as it is. */
export interface ReadyRequest {
  name: string
  bytes: Buffer
}

export interface OpenLoadResult {
  /** Milliseconds from when each was due, not from when it could be sent, by name. */
  times: Map<string, number[]>
  /** What came that was not 200, and connections that broke. */
  faults: string[]
  connections: number
}

export const readyRequest = (port: number, path: string, headers: Record<string, string>): ReadyRequest => {
  const lines = Object.entries({ host: `127.0.0.1:${port}`, ...headers }).map(
    ([name, value]) => `${name}: ${value}\r\n`,
  )
  return { name: path, bytes: Buffer.from(`GET ${path} HTTP/1.1\r\n${lines.join('')}\r\n`) }
}

interface Lane {
  socket: Socket
  due: number
  name: string
}

const mostConnections = 500

/**
 * Sends requests at a steady rate, whatever the answers do (an open loop): a server that falls behind is seen to. Each
 * takes a free connection; another is opened when none is free.
 */
export async function openLoad(port: number, requests: ReadyRequest[], perSecond: number, seconds: number) {
  const result: OpenLoadResult = { times: new Map(requests.map(({ name }) => [name, []])), faults: [], connections: 0 }
  const free: Lane[] = []
  const waiting: { request: ReadyRequest; due: number }[] = []
  let under = 0
  const ask = (lane: Lane, request: ReadyRequest, due: number) => {
    lane.due = due
    lane.name = request.name
    lane.socket.write(request.bytes)
  }
  const answered = (lane: Lane, status: number) => {
    under -= 1
    result.times.get(lane.name)!.push(performance.now() - lane.due)
    if (status !== 200) result.faults.push(`${lane.name} answered ${status}`)
    const next = waiting.shift()
    if (next) ask(lane, next.request, next.due)
    else free.push(lane)
  }
  const send = (request: ReadyRequest, due: number) => {
    under += 1
    const lane = free.pop()
    if (lane) ask(lane, request, due)
    else {
      waiting.push({ request, due })
      if (result.connections < mostConnections) {
        result.connections += 1
        const opened: Lane = { socket: connect({ port, host: '127.0.0.1', noDelay: true }), due, name: '' }
        opened.socket.once('connect', () => {
          const next = waiting.shift()
          if (next) ask(opened, next.request, next.due)
          else free.push(opened)
        })
        opened.socket.on('error', (error) => result.faults.push(error.message))
        readAnswers(opened.socket, (status) => answered(opened, status))
      }
    }
  }
  const began = performance.now()
  const total = perSecond * seconds
  for (let sent = 0; sent < total; ) {
    const dueNow = Math.min(total, Math.floor(((performance.now() - began) / 1000) * perSecond))
    for (; sent < dueNow; sent++) send(requests[sent % requests.length]!, began + (sent / perSecond) * 1000)
    await new Promise((resolve) => setTimeout(resolve, 4))
  }
  const end = Date.now() + 30_000
  while (under > 0 && Date.now() < end) await new Promise((resolve) => setTimeout(resolve, 20))
  if (under > 0) result.faults.push(`${under} requests were never answered`)
  for (const { socket } of free) socket.destroy()
  return result
}

/** Just enough HTTP to know when an answer with a declared length has come. */
function readAnswers(socket: Socket, answered: (status: number) => void): void {
  let kept: Buffer = Buffer.alloc(0)
  let bodyLeft = 0
  let status = 0
  socket.on('data', (piece: Buffer) => {
    let data = kept.length ? Buffer.concat([kept, piece]) : piece
    while (data.length > 0) {
      if (bodyLeft === 0) {
        const headEnd = data.indexOf('\r\n\r\n')
        if (headEnd < 0) break
        const head = data.toString('latin1', 0, headEnd)
        status = Number(head.slice(9, 12))
        bodyLeft = Number(/content-length: (\d+)/i.exec(head)?.[1] ?? 0)
        data = data.subarray(headEnd + 4)
        if (bodyLeft === 0) answered(status)
        continue
      }
      const taken = Math.min(bodyLeft, data.length)
      bodyLeft -= taken
      data = data.subarray(taken)
      if (bodyLeft === 0) answered(status)
    }
    kept = Buffer.from(data)
  })
}

/** A client of an event stream that counts what it gets. */
export interface StreamClient {
  events: number
  ended: boolean
  close(): void
}

/** Opens so many event streams, some at a time; resolves when each has said that it is connected. */
export async function openStreams(port: number, requests: ReadyRequest[], count: number): Promise<StreamClient[]> {
  const clients: StreamClient[] = []
  const openOne = async (index: number) => {
    const socket = connect({ port, host: '127.0.0.1' })
    const client: StreamClient = { events: 0, ended: false, close: () => socket.destroy() }
    clients.push(client)
    socket.write(requests[index % requests.length]!.bytes)
    await new Promise<void>((resolve, reject) => {
      socket.on('error', reject)
      socket.on('close', () => {
        client.ended = true
        reject(new Error('an event stream ended'))
      })
      socket.on('data', (piece: Buffer) => {
        if (piece.includes('event: connected')) resolve()
        if (piece.includes('event: notification')) client.events += 1
      })
    })
  }
  const indexes = Array.from({ length: count }, (_, index) => index).values()
  const lane = async () => {
    for (const index of indexes) await openOne(index)
  }
  await Promise.all(Array.from({ length: 50 }, lane))
  return clients
}
