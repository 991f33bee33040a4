import type { Readable } from 'node:stream'

/** An answer that is not plain JSON with the declared status: other status, headers, or a streamed body. */
export class Answer {
  readonly status: number | null
  readonly headers: Record<string, string>
  readonly body: Readable | Buffer | string | null | object

  constructor(options: { status?: number; headers?: Record<string, string>; body?: Answer['body'] }) {
    this.status = options.status ?? null
    this.headers = options.headers ?? {}
    this.body = options.body ?? null
  }
}

/** Free text as a file or on the page; never cached. */
export function textAnswer(body: Readable | string, options: { filename?: string; type?: string } = {}): Answer {
  const headers: Record<string, string> = {
    'content-type': options.type ?? 'text/plain; charset=utf-8',
    'cache-control': 'no-store',
  }
  if (options.filename) headers['content-disposition'] = contentDisposition('attachment', options.filename)
  return new Answer({ headers, body })
}

/** A file name that every client reads right, whatever script it is in. @source RFC 6266, RFC 8187 */
export function contentDisposition(kind: 'attachment' | 'inline', filename: string): string {
  const ascii = filename.replace(/[^\x20-\x7e]/g, '_').replace(/["\\]/g, '_')
  const encoded = encodeURIComponent(filename).replace(
    /['()*]/g,
    (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`,
  )
  return `${kind}; filename="${ascii}"; filename*=UTF-8''${encoded}`
}
