import { open } from 'node:fs/promises'
import { until } from '../main-job/client.ts'
import type { RegistrySession } from './registry-session.ts'

/** Sends an archive in chunks as the console does and starts its import; returns the record's id. */
export async function sendArchive({ client }: RegistrySession, path: string, names: object = {}): Promise<string> {
  const file = await open(path)
  try {
    const { size } = await file.stat()
    const session = await client.send('POST', '/api/v1/registry/imports', { size_bytes: size, ...names })
    for (let start = 0; start < size; start += session.chunk_size) {
      const body = Buffer.alloc(Math.min(session.chunk_size, size - start))
      await file.read(body, 0, body.length, start)
      await client.fetch(`/api/v1/registry/imports/${session.id}/chunks`, {
        method: 'PATCH',
        body,
        headers: {
          'content-type': 'application/octet-stream',
          'content-range': `bytes ${start}-${start + body.length - 1}/${size}`,
        },
      })
    }
    await client.send('POST', `/api/v1/registry/imports/${session.id}:start`)
    return session.id
  } finally {
    await file.close()
  }
}

/** Waits for the end of an import. */
export const importEnd = ({ client }: RegistrySession, id: string) =>
  until('the import', 120, async () => {
    const record = await client.get(`/api/v1/registry/imports/${id}`)
    return ['READY', 'FAILED', 'CANCELED'].includes(record.status) ? record : null
  })
