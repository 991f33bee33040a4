import { eventually, type TestClient, type TestPlatform } from '../../../test/harness.ts'

/** Waits until the endpoint is in a state, and gives it. */
export const whenEndpoint = (client: TestClient, name: string, ...states: string[]) =>
  eventually(async () => {
    const { status, body } = await client.get(`/api/v1/serving/endpoints/${name}`)
    if (status !== 200) throw new Error(`endpoint ${name} answers ${status}`)
    return states.includes(body.state) ? body : null
  }, 240)

/** Waits until the deployment has ended, and gives it. */
export const whenDeployed = (client: TestClient, id: string) =>
  eventually(async () => {
    const { body } = await client.get(`/api/v1/deployments/${id}`)
    return body.state === 'READY' || body.state === 'FAILED' ? body : null
  }, 240)

/** An image of one colour as the model's input tensor, before normalisation: [3][height][width]. */
export function colourTensor([red, green, blue]: [number, number, number], width = 8, height = 6): number[][][] {
  return [red, green, blue].map((value) => Array.from({ length: height }, () => Array(width).fill(value)))
}

/** Ends every process that the endpoints of a test left. */
export async function endWorks(platform: TestPlatform): Promise<void> {
  const { compute } = platform.services.adapters
  for (const { handle } of await compute.list()) await compute.remove(handle)
}

/** Ends a platform, then what its endpoints left; nothing when it never started. */
export async function endServing(platform: TestPlatform | undefined): Promise<void> {
  if (!platform) return
  await platform.instance.stop()
  await endWorks(platform)
  await platform.stop()
}
