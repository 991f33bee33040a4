import type { Reply, TestClient, TestPlatform } from '../../../../test/harness.ts'

/** A client of the protocol, with the token of one person in one tenant. */
export interface TrackingClient {
  /** Id of the token. */
  id: string
  token: string
  get(path: string, query?: Record<string, string>, headers?: Record<string, string>): Promise<Reply>
  post(path: string, json: object): Promise<Reply>
  delete(path: string): Promise<Reply>
  /** Uploads an artifact. */
  put(path: string, content: string): Promise<Reply>
  raw(method: string, path: string, body: string): Promise<Reply>
}

export async function trackingClient(platform: TestPlatform, person: TestClient): Promise<TrackingClient> {
  const made = await person.post('/api/v1/tracker/tokens', { name: 'test' })
  if (made.status !== 201) throw new Error(`a token for ${person.email} gave ${made.status}: ${made.text}`)
  const { id, token } = made.body
  const api = '/tracker/api/2.0'
  const own = { authorization: `Bearer ${token}` }
  return {
    id,
    token,
    get: (path, query = {}, headers = {}) =>
      platform.anonymous('GET', `${api}${path}?${new URLSearchParams(query)}`, { headers: { ...own, ...headers } }),
    post: (path, json) => platform.anonymous('POST', api + path, { json, headers: own }),
    delete: (path) => platform.anonymous('DELETE', api + path, { headers: own }),
    put: (path, body) => platform.anonymous('PUT', `${api}/mlflow-artifacts/artifacts${path}`, { body, headers: own }),
    raw: (method, path, body) =>
      platform.anonymous(method, api + path, { body, headers: { ...own, 'content-type': 'application/json' } }),
  }
}
