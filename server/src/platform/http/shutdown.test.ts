import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { expect, test } from 'vitest'
import { listen } from '../../../test/event-client.ts'
import { eventually, startTestPlatform } from '../../../test/harness.ts'

test('a server that ends answers what it has begun, closes event streams, and is gone', async () => {
  const platform = await startTestPlatform()
  const { admin, url, instance } = platform
  const { body: draft } = await admin.post('/api/v1/datasets/drafts', { name: 'shutdown' })
  const events = await listen(url, admin, '/api/v1/stream/notifications')
  await events.until('event: connected')

  const { hostname, port } = new URL(url)
  const head = (path: string, more: string) =>
    `POST ${path} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer ${admin.token}\r\nx-tenant: default\r\n${more}\r\n\r\n`
  const body = '--b\r\ncontent-disposition: form-data; name="file"; filename="a.csv"\r\n\r\na,b\r\n1,2\r\n--b--\r\n'
  const type = `content-type: multipart/form-data; boundary=b\r\ncontent-length: ${body.length}`
  const upload = connect(Number(port), hostname)
  const uploaded = text(upload)
  upload.write(head(`/api/v1/datasets/${draft.id}/files`, type) + body.slice(0, 70))
  // It is known to the server when that has answered another request.
  await eventually(async () => (await admin.get('/healthz')).status === 200)

  const stopped = instance.stop()
  upload.write(body.slice(70))
  // The text is whole when the server has ended the connection.
  expect(await uploaded).toContain('HTTP/1.1 201 Created')
  await stopped
  await expect(admin.get('/healthz')).rejects.toThrow()
  await platform.stop()
})
