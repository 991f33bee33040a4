import type { Readable } from 'node:stream'
import formbody from '@fastify/formbody'
import multipart from '@fastify/multipart'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { invalid, payloadTooLarge } from '../errors.ts'
import type { Operation } from './operation.ts'

const jsonLimitBytes = 1 << 20
const slowBodyMs = 60_000

/** Sets up one scope of the server for one kind of body, so that no operation ever gets another kind than its own. */
export async function takeBodies(scope: FastifyInstance, kind: Operation['bodyKind'], maxUploadBytes: number) {
  if (kind === 'json') return
  scope.removeAllContentTypeParsers()
  if (kind === 'form') {
    await scope.register(formbody, { bodyLimit: jsonLimitBytes })
    await scope.register(multipart, {
      attachFieldsToBody: 'keyValues',
      limits: { files: 0, fileSize: 0, fields: 50, fieldSize: 65_536 },
    })
    // Any other type is no form: the fields are missing, which is a 422 like any other missing field.
    scope.addContentTypeParser('*', (_request, payload, done) => {
      payload.resume()
      done(null, {})
    })
  } else if (kind === 'multipart') {
    await scope.register(multipart, {
      limits: { files: 1, fileSize: maxUploadBytes, fields: 50, fieldSize: 65_536, parts: 60 },
      throwFileSizeLimit: false,
    })
  } else if (kind === 'stream') {
    scope.addContentTypeParser('*', (_request, payload, done) => done(null, payload))
  } else {
    scope.addContentTypeParser('*', (_request, payload, done) => {
      payload.resume()
      done(null, undefined)
    })
  }
}

/**
 * A small body that is not here after a minute comes from a broken client, or from one that means to hold a connection
 * for nothing: it is cut off. Uploads may take as long as they need.
 */
export async function endSlowBody(request: FastifyRequest): Promise<void> {
  const { raw } = request
  const timer = setTimeout(() => raw.complete || raw.destroy(), slowBodyMs).unref()
  raw.once('close', () => clearTimeout(timer))
}

/** The unread body of an operation of kind `stream`. */
export function bodyStream(request: FastifyRequest): Readable {
  return (request.body as Readable | undefined) ?? request.raw
}

/** The declared length of the body, or null when the client sends it in pieces. */
export function bodyLength(request: FastifyRequest): number | null {
  const header = request.headers['content-length']
  return header === undefined ? null : Number(header)
}

export interface UploadedFile {
  filename: string
  contentType: string
  /** Streams the part; throws `payload_too_large` when it goes over the limit. */
  content: AsyncIterable<Buffer>
}

/** The one part `file` of a multipart body. Throws a 422 when it is missing. @source contract B5.2 */
export async function uploadedFile(request: FastifyRequest): Promise<UploadedFile> {
  const missing = () =>
    invalid({ loc: ['body', 'file'], msg: 'send multipart/form-data with one part named file', type: 'missing' })
  if (!request.isMultipart()) throw missing()
  const part = await request.file().catch(refuseBroken)
  if (part?.fieldname !== 'file') throw missing()
  return { filename: part.filename, contentType: part.mimetype, content: limited(part.file) }
}

/** What the reader of multipart bodies says without a status is about the bytes that came. */
function refuseBroken(error: unknown): never {
  if ((error as { statusCode?: number }).statusCode) throw error
  throw invalid({ loc: ['body'], msg: 'is not complete multipart/form-data', type: 'multipart_invalid' })
}

async function* limited(file: Readable & { truncated?: boolean }): AsyncIterable<Buffer> {
  try {
    for await (const piece of file) yield piece as Buffer
  } catch (error) {
    refuseBroken(error)
  }
  if (file.truncated) throw payloadTooLarge('The file is larger than PLATFORM_MLOPS_MAX_UPLOAD_BYTES allows.')
}
