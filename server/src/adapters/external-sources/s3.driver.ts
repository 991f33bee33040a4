import type { S3Client, _Object as S3Object } from '@aws-sdk/client-s3'
import { type ExternalSource, type Listed, type S3Config, type S3Credentials, SourceError } from './external-sources.ts'
import type { GuardedAgents } from './guarded-agents.ts'
import { networkFault } from './http-client.ts'

const keysPerPage = 1000

/** A bucket of Amazon S3 or of anything that speaks its protocol. @source Amazon S3 API Reference 2006-03-01 */
export function s3Source(config: S3Config, credentials: S3Credentials | null, agents: GuardedAgents): ExternalSource {
  const home = config.prefix ? `${config.prefix.replace(/^\/+|\/+$/g, '')}/` : ''
  const bucket = config.bucket
  let client: Promise<S3Client> | null = null
  const connect = () => {
    client ??= makeClient(config, credentials, agents)
    return client
  }
  return {
    async *list(prefix, signal) {
      const { ListObjectsV2Command } = await import('@aws-sdk/client-s3')
      const folder = home + prefix
      for (let token: string | undefined; ; ) {
        const command = new ListObjectsV2Command({
          Bucket: bucket,
          Prefix: folder,
          MaxKeys: keysPerPage,
          ContinuationToken: token,
        })
        const page = await (await connect()).send(command, { abortSignal: signal }).catch((error) => {
          throw faultOf(error, signal)
        })
        for (const object of page.Contents ?? []) {
          const listed = objectOf(object, folder)
          if (listed) yield listed
        }
        if (!page.IsTruncated) return
        // A service that repeats itself would be listed for ever.
        if (!page.NextContinuationToken || page.NextContinuationToken === token)
          throw new SourceError('invalid', 'The listing says that it goes on, and does not.')
        token = page.NextContinuationToken
      }
    },
    async read({ key }, known, signal) {
      const { GetObjectCommand } = await import('@aws-sdk/client-s3')
      const condition = known?.startsWith('etag:') ? { IfNoneMatch: known.slice('etag:'.length) } : {}
      const command = new GetObjectCommand({ Bucket: bucket, Key: key, ...condition })
      try {
        const answer = await (await connect()).send(command, { abortSignal: signal })
        const size = answer.ContentLength ?? null
        const content = contentOf(answer.Body as AsyncIterable<Uint8Array>, signal)
        return { content, size, version: versionOf(answer.ETag, answer.LastModified, size) }
      } catch (error) {
        if (statusOf(error) === 304) return null
        throw faultOf(error, signal)
      }
    },
    close() {
      void client?.then((opened) => opened.destroy()).catch(() => undefined)
      agents.close()
    },
  }
}

/** The library takes a quarter of a second to load: only who has such a source waits for it. */
async function makeClient(
  config: S3Config,
  credentials: S3Credentials | null,
  agents: GuardedAgents,
): Promise<S3Client> {
  const { S3Client } = await import('@aws-sdk/client-s3')
  return new S3Client({
    region: config.region ?? 'us-east-1',
    ...(config.endpoint ? { endpoint: config.endpoint } : {}),
    forcePathStyle: config.path_style ?? Boolean(config.endpoint),
    maxAttempts: 2,
    // Many services know no other checksums than the ETag.
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
    requestHandler: { httpAgent: agents.http, httpsAgent: agents.https, connectionTimeout: 30_000 },
    // Always explicit: credentials of this machine are never lent to a tenant.
    ...(credentials ? { credentials: signingKey(credentials) } : { signer: anonymous, credentials: noKey }),
  })
}

const signingKey = ({ access_key_id, secret_access_key, session_token }: S3Credentials) => ({
  accessKeyId: access_key_id,
  secretAccessKey: secret_access_key,
  ...(session_token ? { sessionToken: session_token } : {}),
})
const noKey = { accessKeyId: '', secretAccessKey: '' }
const anonymous = { sign: async <T>(request: T): Promise<T> => request }

function objectOf({ Key: key = '', Size, ETag, LastModified }: S3Object, folder: string): Listed | null {
  const name = key.slice(folder.length)
  const size = Size ?? null
  // Consoles make empty objects that stand for folders.
  if (!key.startsWith(folder) || name === '' || (name.endsWith('/') && !size)) return null
  return { key, name, size, version: versionOf(ETag, LastModified, size) }
}

/** Gateways to file systems may know no ETag; the time is told to the second in one answer, finer in another. */
function versionOf(etag: string | undefined, modified: Date | undefined, size: number | null): string | null {
  if (etag && etag !== '""') return `etag:${etag}`
  return modified && size !== null ? `modified:${Math.floor(modified.getTime() / 1000)}:${size}` : null
}

async function* contentOf(body: AsyncIterable<Uint8Array>, signal: AbortSignal): AsyncGenerator<Uint8Array> {
  try {
    yield* body
  } catch (error) {
    throw faultOf(error, signal)
  }
}

const statusOf = (error: unknown): number | undefined =>
  (error as { $metadata?: { httpStatusCode?: number } }).$metadata?.httpStatusCode

function faultOf(error: unknown, signal: AbortSignal): unknown {
  const status = statusOf(error)
  const name = (error as Error)?.name ?? ''
  if (signal.aborted || error instanceof SourceError || !status || name === 'TimeoutError')
    return networkFault(error, signal)
  if (status === 404)
    return new SourceError('missing', `There is no such ${name === 'NoSuchBucket' ? 'bucket' : 'object'}.`, error)
  if (status === 401 || status === 403) return new SourceError('denied', `The bucket refuses access (${name}).`, error)
  if (status >= 500 || status === 429)
    return new SourceError('unreachable', `The bucket fails (${status} ${name}).`, error)
  return new SourceError('invalid', `The bucket answers with status ${status} (${name}).`, error)
}
