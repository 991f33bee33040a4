import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startTestPlatform, type TestPlatform } from './harness.ts'

let platform: TestPlatform
beforeAll(async () => {
  platform = await startTestPlatform()
})
afterAll(() => platform?.stop())

const policy = "default-src 'none'; frame-ancestors 'none'"

/** The headers by which an answer keeps browsers from guessing, running, framing and telling. */
function expectSafe(headers: Headers, what: string, expected = policy): void {
  expect(headers.get('x-content-type-options'), what).toBe('nosniff')
  expect(headers.get('referrer-policy'), what).toBe('no-referrer')
  expect(headers.get('content-security-policy'), what).toBe(expected)
}

describe('every answer', () => {
  const answers: [string, string, number][] = [
    ['GET', '/openapi.json', 200],
    ['GET', '/users/me', 200],
    ['GET', '/api/v1/settings/audit?format=csv', 200],
    ['HEAD', '/users/me', 200],
    ['POST', '/auth/jwt/login', 422],
    ['GET', '/api/v1/stream/notifications', 200],
    ['GET', '/metrics', 200],
    ['GET', '/nowhere', 404],
    ['DELETE', '/auth/jwt/login', 405],
    ['GET', `/api/v1/datasets/${'x'.repeat(600)}`, 414],
    ['GET', '/healthz%ff', 400],
    ['GET', '/v2/', 401],
    ['GET', '/v2/none/manifests/latest', 401],
    ['GET', '/tracker/api/2.0/mlflow/experiments/get?experiment_id=0', 401],
    ['GET', '/docs/assets/swagger-ui.css', 200],
  ]
  test.each(answers)('%s %s: %i is not guessed, run, framed or told of', async (method, path, status) => {
    const controller = new AbortController()
    const headers = { authorization: `Bearer ${platform.admin.token}`, 'x-tenant': 'default' }
    const reply = await fetch(platform.url + path, { method, headers, signal: controller.signal })
    controller.abort()
    expect(reply.status).toBe(status)
    expectSafe(reply.headers, path)
  })

  test('401 too, and what is no HTTP', async () => {
    const refused = await platform.anonymous('GET', '/users/me')
    expect(refused.status).toBe(401)
    expectSafe(refused.headers, '401')
    const { hostname, port } = new URL(platform.url)
    const socket = connect(Number(port), hostname)
    socket.write('nonsense\r\n\r\n')
    const [head = ''] = (await text(socket)).split('\r\n\r\n')
    const lines = head.split('\r\n').slice(1)
    expectSafe(new Headers(lines.map((line) => line.split(': ', 2) as [string, string])), 'no HTTP')
  })
})

describe('GET /docs', () => {
  test('200 allows the page its own files and nothing else, and all it holds are such files', async () => {
    const { headers, text: page } = await platform.anonymous('GET', '/docs')
    const allowed = headers.get('content-security-policy')!
    expectSafe(headers, '/docs', allowed)
    expect(allowed).not.toMatch(/unsafe|https?:|\*/)
    for (const rule of ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "base-uri 'none'"])
      expect(allowed).toContain(rule)
    expect(page).not.toMatch(/<script>|<style|style=|\son\w+=/)
    const files = [...page.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, path]) => path!)
    expect(files.length).toBe(4)
    for (const path of files) expect((await platform.anonymous('GET', path)).status, path).toBe(200)
  })
})
