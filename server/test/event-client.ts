import { get, type IncomingMessage } from 'node:http'
import { eventually, type TestClient } from './harness.ts'

export interface EventClient {
  status: number
  /** Everything received so far. */
  text(): string
  /** Waits until this has come. */
  until(part: string): Promise<void>
  close(): void
}

/** Listens to an event stream on a connection of its own, which ends with it. */
export async function listen(url: string, client: TestClient, path: string): Promise<EventClient> {
  const headers = { authorization: `Bearer ${client.token}` }
  let text = ''
  const request = get(url + path, { headers, agent: false })
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    request.once('response', resolve).once('error', reject)
  })
  // Closing it is an error of the response as well.
  response.on('error', () => undefined)
  response.setEncoding('utf8').on('data', (piece: string) => {
    text += piece
  })
  return {
    status: response.statusCode!,
    text: () => text,
    until: async (part) => {
      await eventually(async () => text.includes(part))
    },
    close: () => request.destroy(),
  }
}
