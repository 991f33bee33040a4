/** What may be asked of an inference server through the proxy. @source contract B11.1 */
const allowed: Record<'GET' | 'POST', RegExp[]> = {
  GET: [
    /^(?:ping|health|version|v2|v2\/health\/(?:live|ready))$/,
    /^v2\/models\/[^/]+(?:\/versions\/[^/]+)?(?:\/ready)?$/,
  ],
  POST: [/^invocations$/, /^v2\/models\/[^/]+(?:\/versions\/[^/]+)?\/infer$/],
}

/**
 * The path on the inference server for a request to the proxy, query included; null when it is none that may be asked.
 * The path is taken as it was sent, because decoding could turn a name into several segments or lead elsewhere.
 */
export function proxiedPath(method: 'GET' | 'POST', requestUrl: string): string | null {
  const [path = '', query = ''] = splitOnce(requestUrl, '?')
  const [, rest = ''] = splitOnce(path, '/proxy/')
  if (!allowed[method].some((pattern) => pattern.test(rest)) || !rest.split('/').every(isPlainSegment)) return null
  // The tenant is chosen for us; the inference server knows none.
  const own = query.split('&').filter((pair) => pair !== '' && !/^tenant(?:=|$)/i.test(pair))
  return `/${rest}${own.length > 0 ? `?${own.join('&')}` : ''}`
}

function isPlainSegment(segment: string): boolean {
  try {
    const decoded = decodeURIComponent(segment)
    // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is kept out
    return decoded !== '.' && decoded !== '..' && !/[/\\%\u0000-\u001f\u007f]/.test(decoded)
  } catch {
    return false
  }
}

function splitOnce(text: string, separator: string): string[] {
  const at = text.indexOf(separator)
  return at < 0 ? [text] : [text.slice(0, at), text.slice(at + separator.length)]
}
