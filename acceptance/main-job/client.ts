/** A failure that ends the job: said in one sentence, with what to do when we know it. */
export class JobError extends Error {}

interface ErrorBody {
  code?: string
  message?: string
  detail?: unknown
  error_id?: string
}

// biome-ignore lint/suspicious/noExplicitAny: the job reads a few fields of many answers; the contract check holds their shapes
type Json = any

export interface Client {
  url: string
  tenant: string
  headers: Record<string, string>
  get(path: string): Promise<Json>
  send(method: string, path: string, json?: unknown): Promise<Json>
  /** The raw answer; throws a JobError for a status of 400 and above. */
  fetch(path: string, init?: RequestInit): Promise<Response>
}

/** Signs in and speaks to the public REST interface as any client would. */
export async function signIn(url: string, email: string, password: string, tenant: string): Promise<Client> {
  const form = new URLSearchParams({ username: email, password })
  const login = await request(url, '/auth/jwt/login', { method: 'POST', body: form })
  const { access_token } = (await login.json()) as { access_token: string }
  return clientOf(url, access_token, tenant)
}

function clientOf(url: string, token: string, tenant: string): Client {
  const headers = { authorization: `Bearer ${token}`, 'x-tenant': tenant }
  const call = (path: string, init: RequestInit = {}) =>
    request(url, path, { ...init, headers: { ...headers, ...(init.headers as Record<string, string>) } })
  return {
    url,
    tenant,
    headers,
    fetch: call,
    get: async (path) => (await call(path)).json(),
    async send(method, path, json) {
      const body =
        json === undefined ? {} : { body: JSON.stringify(json), headers: { 'content-type': 'application/json' } }
      const response = await call(path, { method, ...body })
      return response.status === 204 ? null : response.json()
    },
  }
}

async function request(url: string, path: string, init: RequestInit): Promise<Response> {
  const what = `${init.method ?? 'GET'} ${path.split('?')[0]}`
  const response = await fetch(url + path, init).catch((error: Error) => {
    if (init.signal?.aborted) throw error
    throw new JobError(`${what}: ${url} does not answer (${(error.cause as Error)?.message ?? error.message})`)
  })
  if (response.status < 400) return response
  const text = await response.text()
  throw new JobError(`${what} answered ${response.status}: ${explain(text)}`)
}

function explain(text: string): string {
  try {
    const body = JSON.parse(text) as ErrorBody
    const detail = body.detail ? ` ${JSON.stringify(body.detail)}` : ''
    return `${body.message ?? text}${detail}${body.error_id ? ` [error ${body.error_id}]` : ''}`
  } catch {
    return text.slice(0, 500)
  }
}

/** Asks until the answer is what is waited for. Throws after `seconds`. */
export async function until<T>(what: string, seconds: number, look: () => Promise<T | null>): Promise<T> {
  const end = Date.now() + seconds * 1000
  for (let pauseMs = 50; ; pauseMs = Math.min(1000, pauseMs * 1.5)) {
    const found = await look()
    if (found !== null) return found
    if (Date.now() > end) throw new JobError(`${what}: not within ${seconds} s`)
    await new Promise((resolve) => setTimeout(resolve, pauseMs))
  }
}
