/** An element of a small XML document. */
export interface XmlElement {
  name: string
  /** Text directly inside, trimmed. */
  text: string
  children: XmlElement[]
}

const token =
  /<!--[\s\S]*?-->|<!\[CDATA\[([\s\S]*?)\]\]>|<[?!][^>]*>|<(\/?)([\w:.-]+)(?:[^>"']|"[^"]*"|'[^']*')*?(\/?)>|([^<]+)/y
const entities: Record<string, string> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" }
const depthMax = 64

/**
 * The root element of a document without entities of its own: enough for annotation files, and nothing that could
 * expand or fetch. Throws a `SyntaxError` with the line.
 */
export function parseXml(text: string): XmlElement {
  const top: XmlElement = { name: '', text: '', children: [] }
  const stack = [top]
  token.lastIndex = text.charCodeAt(0) === 0xfeff ? 1 : 0
  while (token.lastIndex < text.length) {
    const at = token.lastIndex
    const match = token.exec(text)
    if (!match) throw fault('a tag is not closed', text, at)
    const [, cdata, closing, name, empty, plain] = match
    const parent = stack.at(-1)!
    if (cdata !== undefined || plain !== undefined) parent.text += cdata ?? decode(plain!)
    else if (name === undefined) continue
    else if (closing) {
      if (parent.name !== name || stack.length === 1) throw fault(`</${name}> closes nothing`, text, at)
      stack.pop()!.text = parent.text.trim()
    } else {
      const element: XmlElement = { name, text: '', children: [] }
      parent.children.push(element)
      if (!empty) stack.push(element)
      if (stack.length > depthMax) throw fault('the elements are nested too deeply', text, at)
    }
  }
  if (stack.length > 1) throw fault(`<${stack.at(-1)!.name}> is not closed`, text, text.length)
  if (top.children.length !== 1) throw fault('there is not one root element', text, text.length)
  return top.children[0]!
}

const fault = (what: string, text: string, at: number) =>
  new SyntaxError(`${what}, in line ${text.slice(0, at).split('\n').length}`)

function decode(text: string): string {
  return text.replace(/&(?:#(\d+)|#x([\da-f]+)|(\w+));/gi, (all, decimal, hex, name) => {
    if (name) return entities[name] ?? all
    const code = decimal ? Number(decimal) : Number.parseInt(hex, 16)
    return code <= 0x10ffff ? String.fromCodePoint(code) : all
  })
}

export const childrenOf = (element: XmlElement, name: string): XmlElement[] =>
  element.children.filter((child) => child.name === name)

export const childText = (element: XmlElement | undefined, name: string): string | null =>
  element?.children.find((child) => child.name === name)?.text ?? null
