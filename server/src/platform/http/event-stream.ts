import type { FastifyReply, FastifyRequest } from 'fastify'
import type { PublishedEvent } from '../events/events.ts'
import { securityHeaders } from './security-headers.ts'

// @source contract B7.3, B7.6
const silenceMs = 15_000
const rightsMs = 15_000
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

const frames = new WeakMap<PublishedEvent, string>()

/** An event as it is sent, but for its id; made once for all who listen. */
function frameOf(event: PublishedEvent): string {
  const known = frames.get(event)
  if (known) return known
  const text = `event: ${event.name}\ndata: ${JSON.stringify(event.data)}\n\n`
  frames.set(event, text)
  return text
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
    ...securityHeaders,
    'content-type': 'text/event-stream',
    'cache-control': 'no-cache, no-transform',
    'x-accel-buffering': 'no',
    'x-request-id': request.id,
  })
  if (request.method === 'HEAD') return void socket.end()
  request.raw.socket.setNoDelay(true)
  let id = 0
  let waiting = 0
  const pings = setInterval(() => socket.write(': ping\n\n'), silenceMs)
  const send = (text: string) => {
    waiting = socket.write(`id: ${++id}\n${text}`) ? 0 : waiting + 1
    pings.refresh()
    if (waiting > queueLimit || socket.writableLength > backlogBytes) end()
  }
  const unsubscribe = source.subscribe(stream.channel, (event) => {
    if (stream.events.has(event.name)) send(frameOf(event))
  })
  const rights = setInterval(() => {
    stillAllowed().then(
      (allowed) => allowed || end(),
      () => end(),
    )
  }, rightsMs)
  const end = () => {
    clearInterval(pings)
    clearInterval(rights)
    unsubscribe()
    closing.removeEventListener('abort', end)
    socket.end()
  }
  closing.addEventListener('abort', end, { once: true })
  socket.on('close', end)
  socket.on('error', end)
  socket.write('retry: 3000\n\n')
  send(frameOf({ channel: stream.channel, name: 'connected', data: { channel: stream.channel } }))
}
