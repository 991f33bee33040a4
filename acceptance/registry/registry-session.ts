import { execFile, spawnSync } from 'node:child_process'
import { promisify } from 'node:util'
import { signIn } from '../main-job/client.ts'
import { clientsPath } from './oci-clients.ts'

const execute = promisify(execFile)

/** Whether a program is installed here. */
export const has = (program: string): boolean =>
  spawnSync('which', [program], { env: { ...process.env, PATH: clientsPath } }).status === 0

/** Runs a program to its end; its output. Throws with what it said when it fails. */
export async function run(program: string, args: string[], env: Record<string, string> = {}): Promise<string> {
  const { stdout } = await execute(program, args, {
    env: { ...process.env, PATH: clientsPath, ...env },
    maxBuffer: 64 * 1024 * 1024,
  })
  return stdout
}

export interface RegistrySession {
  /** `host:port`. */
  host: string
  token: string
  tokenId: string
  authorization: string
  client: Awaited<ReturnType<typeof signIn>>
  /** A request below `/v2`, signed in. */
  v2(method: string, path: string, init?: RequestInit): Promise<Response>
}

/** Signs in to a platform and makes a registry token of the tenant `default`. */
export async function openRegistrySession(url: string, email: string, password: string): Promise<RegistrySession> {
  const client = await signIn(url, email, password, 'default')
  const { id, token } = await client.send('POST', '/api/v1/registry/tokens', { name: 'acceptance' })
  const authorization = `Basic ${Buffer.from(`me:${token}`).toString('base64')}`
  return {
    host: new URL(url).host,
    token,
    tokenId: id,
    authorization,
    client,
    v2: (method, path, init = {}) =>
      fetch(`${url}/v2/${path}`, {
        ...init,
        method,
        headers: { authorization, ...(init.headers as Record<string, string>) },
        ...(init.body ? { duplex: 'half' } : {}),
      } as RequestInit),
  }
}
