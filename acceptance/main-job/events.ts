import type { Client } from './client.ts'

export interface StreamEvent {
  name: string
  // biome-ignore lint/suspicious/noExplicitAny: payloads differ per event; see contract B7.5
  data: any
}

/** Reads Server-Sent Events until the signal fires or the server ends the stream. @source WHATWG HTML §9.2 */
export async function* readEvents(client: Client, path: string, signal: AbortSignal): AsyncGenerator<StreamEvent> {
  const response = await client.fetch(path, { signal, headers: { accept: 'text/event-stream' } })
  let rest = ''
  try {
    for await (const piece of response.body!.pipeThrough(new TextDecoderStream())) {
      const frames = (rest + piece).split('\n\n')
      rest = frames.pop() ?? ''
      for (const frame of frames) {
        const event = parseFrame(frame)
        if (event) yield event
      }
    }
  } catch (error) {
    if (!signal.aborted) throw error
  }
}

function parseFrame(frame: string): StreamEvent | null {
  let name = 'message'
  const data: string[] = []
  for (const line of frame.split('\n')) {
    if (line.startsWith('event: ')) name = line.slice(7)
    if (line.startsWith('data: ')) data.push(line.slice(6))
  }
  return data.length ? { name, data: JSON.parse(data.join('\n')) } : null
}
