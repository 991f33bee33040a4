/**
 * The requirements write `/a/{id}:verb`; the router wants `/a/:id([^/:]+)::verb`. Only this file knows both.
 * @source house.md §9.1–9.2
 */

const parameter = /\{(\w+)(\+?)\}/g
const greedy = (name: string, plus: string) => plus === '+' || name === 'path'

/** The path in the router's syntax. A greedy parameter at the end becomes `*`; for one before the end, see `slashEncoder`. */
export function routerPath(path: string): string {
  return path.replaceAll(':', '::').replace(parameter, (all, name: string, plus: string, at: number, whole: string) => {
    if (!greedy(name, plus)) return `:${name}(^[^/:]+)`
    return at + all.length === whole.length ? '*' : `:${name}(^.+)`
  })
}

/** Name of the parameter that takes the rest of the path, slashes included. */
export function greedyParameter(path: string): string | null {
  const [last] = /\{\w+\+?\}$/.exec(path) ?? []
  const [, name, plus] = last ? [...last.matchAll(parameter)][0]! : []
  return name !== undefined && greedy(name, plus!) ? name : null
}

/**
 * The router ends a parameter at the next slash. For paths with a greedy parameter before their end, the returned
 * function writes such slashes of a URL as `%2F`, so that `/repositories/team/app/tags` is found; other URLs come back
 * unchanged. The parameter takes as much as it can. @source contract B1.7
 */
export function slashEncoder(paths: string[]): (url: string) => string {
  const inner = [...new Set(paths)].filter((path) => greedyParts(path).length > 1)
  const patterns = inner.map((path) => {
    const [before, after] = greedyParts(path) as [string, string]
    return { before, pattern: new RegExp(`^(${patternSource(before)})(.+)(${patternSource(after)}(?:\\?.*)?)$`) }
  })
  return (url) => {
    for (const { before, pattern } of patterns) {
      const match = url.startsWith(before) ? pattern.exec(url) : null
      if (match) return match[1] + match[2]!.replaceAll('/', '%2F') + match[3]
    }
    return url
  }
}

/** What stands before and after a greedy parameter that does not end the path. */
function greedyParts(path: string): string[] {
  for (const { 0: all, 1: name, 2: plus, index } of path.matchAll(parameter)) {
    const after = path.slice(index + all.length)
    if (greedy(name!, plus!) && after) return [path.slice(0, index), after]
  }
  return []
}

/** The path as OpenAPI prints it. */
export const documentPath = (path: string): string => path.replace(/\+\}/g, '}')

/** A regular expression that matches exactly the URLs of the path, without the query. */
export const pathPattern = (path: string): RegExp => new RegExp(`^${patternSource(path)}$`)

function patternSource(path: string): string {
  return path
    .split(/(\{\w+\+?\})/)
    .map((part) => {
      const match = /^\{(\w+)(\+?)\}$/.exec(part)
      if (!match) return part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
      return greedy(match[1]!, match[2]!) ? '.+' : '[^/:]+'
    })
    .join('')
}
