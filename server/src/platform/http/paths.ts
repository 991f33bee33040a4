/**
 * The requirements write `/a/{id}:verb`; the router wants `/a/:id([^/:]+)::verb`. Only this file knows both.
 * @source house.md §9.1–9.2
 */

const parameter = /\{(\w+)(\+?)\}/g
const greedy = (name: string, plus: string) => plus === '+' || name === 'path'

/** The path in the router's syntax. A greedy parameter must end the path there and becomes `*`. */
export function routerPath(path: string): string {
  return path
    .replaceAll(':', '::')
    .replace(parameter, (_all, name: string, plus: string) => (greedy(name, plus) ? '*' : `:${name}(^[^/:]+)`))
}

/** Name of the parameter that takes the rest of the path, slashes included. */
export function greedyParameter(path: string): string | null {
  for (const [, name, plus] of path.matchAll(parameter)) if (greedy(name!, plus!)) return name!
  return null
}

/** The path as OpenAPI prints it. */
export const documentPath = (path: string): string => path.replace(/\+\}/g, '}')

/** A regular expression that matches exactly the URLs of the path, without the query. */
export function pathPattern(path: string): RegExp {
  const source = path
    .split(/(\{\w+\+?\})/)
    .map((part) => {
      const match = /^\{(\w+)(\+?)\}$/.exec(part)
      if (!match) return part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
      return greedy(match[1]!, match[2]!) ? '.+' : '[^/:]+'
    })
    .join('')
  return new RegExp(`^${source}$`)
}
