import type { FastifyReply, FastifyRequest } from 'fastify'
import type { PublishedEvent } from '../events/events.ts'

const pingMs = 15_000
const queueLimit = 256
const backlogBytes = 1 << 20

/** What an operation returns to answer with Server-Sent Events. */
export class EventStream {
  /** Also the `channel` of the first event, `connected`. */
  readonly channel: string
  /** Names of the events that are passed on. */
  readonly events: ReadonlySet<string>

  constructor(channel: string, events: readonly string[]) {
    this.channel = channel
    this.events = new Set(events)
  }
}

interface Source {
  subscribe(channel: string, listener: (event: PublishedEvent) => void): () => void
}

/**
 * Sends a channel's events until the client goes, its rights end, or it reads too slowly (it then reconnects and
 * reads the state again; nothing is replayed).
 * @source service §6, contract B7
 */
export function sendEventStream(
  request: FastifyRequest,
  reply: FastifyReply,
  stream: EventStream,
  source: Source,
  stillAllowed: () => Promise<boolean>,
  closing: AbortSignal,
): void {
  reply.hijack()
  const socket = reply.raw
  socket.writeHead(200, {
    'content-type': 'text/event-stream',
    'cache-control': 'no-cache, no-transform',
    'x-accel-buffering': 'no',
    'x-request-id': request.id,
  })
  request.raw.socket.setNoDelay(true)
  let id = 0
  let pending = 0
  const frame = (name: string, data: unknown) => {
    pending += 1
    socket.write(`id: ${++id}\nevent: ${name}\ndata: ${JSON.stringify(data)}\n\n`, () => {
      pending -= 1
    })
    if (pending > queueLimit || socket.writableLength > backlogBytes) end()
  }
  const unsubscribe = source.subscribe(stream.channel, (event) => {
    if (stream.events.has(event.name)) frame(event.name, event.data)
  })
  const timer = setInterval(() => {
    socket.write(': ping\n\n')
    stillAllowed().then(
      (allowed) => allowed || end(),
      () => end(),
    )
  }, pingMs)
  const end = () => {
    clearInterval(timer)
    unsubscribe()
    closing.removeEventListener('abort', end)
    socket.end()
  }
  closing.addEventListener('abort', end, { once: true })
  socket.on('close', end)
  socket.on('error', end)
  socket.write('retry: 3000\n\n')
  frame('connected', { channel: stream.channel })
}
