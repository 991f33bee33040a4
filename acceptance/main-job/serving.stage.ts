import type { HeldOutImage } from './archive.ts'
import { type Client, JobError, until } from './client.ts'

type Bar = (fraction: number, text?: string) => void

export async function createEndpoint(client: Client, name: string, imageId: string, bar: Bar) {
  await client.send('POST', '/api/v1/serving/endpoints', { name, image_id: imageId, replicas: 1, gpu: 0 })
  return waitForState(client, name, 'RUNNING', bar)
}

export function waitForState(client: Client, name: string, wanted: string, bar?: Bar) {
  return until(`endpoint ${name} to be ${wanted}`, 300, async () => {
    const endpoint = await client.get(`/api/v1/serving/endpoints/${name}`)
    bar?.(endpoint.state === wanted ? 1 : 0.5, endpoint.state)
    if (endpoint.state === 'FAILED')
      throw new JobError(`the endpoint failed: ${endpoint.error?.message ?? endpoint.error ?? ''}`)
    return endpoint.state === wanted ? endpoint : null
  })
}

/** Deletes an endpoint and waits until its replicas are gone; the deletion itself answers at once. */
export async function deleteEndpoint(client: Client, name: string): Promise<void> {
  await client.send('DELETE', `/api/v1/serving/endpoints/${name}`)
  await until(`endpoint ${name} to be gone`, 120, async () => {
    const { items } = await client.get('/api/v1/serving/endpoints')
    return items.some((endpoint: { name: string }) => endpoint.name === name) ? null : true
  })
}

export interface Measured {
  images: number
  correct: number
  /** Milliseconds per request, as the client sees it. */
  latencies: number[]
}

/** Sends every held-out image through the endpoint, two at a time, and counts what is right. */
export async function measure(client: Client, name: string, images: HeldOutImage[], bar: Bar): Promise<Measured> {
  const path = `/api/v1/serving/endpoints/${name}/proxy/invocations`
  const latencies: number[] = []
  let correct = 0
  const queue = [...images]
  const send = async () => {
    for (let image = queue.shift(); image; image = queue.shift()) {
      const b64 = (await image.read()).toString('base64')
      const began = performance.now()
      const answer = await client.send('POST', path, { instances: [{ b64 }] })
      latencies.push(performance.now() - began)
      const label = answer.predictions?.[0]?.label
      if (typeof label !== 'string')
        throw new JobError(`the endpoint answered without a label: ${JSON.stringify(answer).slice(0, 200)}`)
      if (label === image.label) correct++
      bar(latencies.length / images.length, `${correct} right`)
    }
  }
  await Promise.all([send(), send()])
  return { images: images.length, correct, latencies }
}
