import type { DescribedOperation } from './document.ts'
import type { Random } from './random.ts'

const kept = 60

/** What the answers of one tenant have told: ids and names by field, and which parameters lead to something together. */
export interface Memory {
  learn(operation: DescribedOperation, params: Record<string, string>, body: unknown): void
  /** Something seen under that name. */
  recall(random: Random, name: string): unknown
  /** Parameters that led, or belong, to a thing under that path; as many of them as are known. */
  address(random: Random, path: string): Record<string, string>
  /** Notes what another tenant made for itself: where clients choose the ids, it may have chosen one of ours. */
  learnForeign(body: unknown): void
  /** An address whose last id is a UUID that no other tenant has chosen for something of its own. */
  ownAddress(random: Random, path: string): Record<string, string> | null
}

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-/

/** Prefixes of a path that end with a parameter, the longest first; verbs after a colon do not count. */
function places(path: string): { prefix: string; name: string }[] {
  return [...path.matchAll(/\{(\w+)\}/g)]
    .map((match) => ({ prefix: path.slice(0, match.index + match[0].length), name: match[1]! }))
    .reverse()
}

export function createMemory(operations: DescribedOperation[]): Memory {
  const seen = new Map<string, unknown[]>()
  const addresses = new Map<string, Record<string, string>[]>()
  const foreign = new Set<unknown>()
  const prefixes = new Set(operations.flatMap(({ path }) => places(path).map(({ prefix }) => prefix)))
  const keep = <T>(map: Map<string, T[]>, key: string, value: T) => {
    const list = map.get(key) ?? []
    if (!list.some((old) => JSON.stringify(old) === JSON.stringify(value))) list.push(value)
    map.set(key, list.slice(-kept))
  }

  function learnFields(value: unknown, segment: string): void {
    if (Array.isArray(value)) for (const item of value.slice(0, 20)) learnFields(item, segment)
    else if (typeof value === 'object' && value !== null)
      for (const [key, part] of Object.entries(value)) {
        if (typeof part === 'object') learnFields(part, key)
        else if ((typeof part === 'string' && part.length <= 200) || typeof part === 'number') {
          keep(seen, key, part)
          if (key === 'id') keep(seen, `${segment.replace(/s$/, '')}_id`, part)
          if (key === 'name' || key === 'code') keep(seen, `${segment.replace(/s$/, '')}_${key}`, part)
        }
      }
  }

  /** Things of a list, or the one thing made, stand under the path of the operation with one parameter more. */
  function learnAddresses(path: string, params: Record<string, string>, body: unknown): void {
    for (const prefix of prefixes) {
      const { name } = places(prefix)[0]!
      if (prefix !== `${path}/{${name}}` && prefix !== path) continue
      const { items } = body as { items?: unknown }
      for (const item of Array.isArray(items) ? items.slice(0, 20) : [body]) {
        const thing = (item ?? {}) as Record<string, unknown>
        const id = thing[name] ?? thing.id ?? thing[name.replace(/_.*/, '')] ?? thing.name
        if (typeof id !== 'string' && typeof id !== 'number') continue
        const found = { ...params, [name]: String(id) }
        keep(addresses, prefix, found)
        keep(addresses, Object.keys(found).sort().join(), found)
      }
    }
  }

  const address = (random: Random, path: string, fits: (params: Record<string, string>) => boolean = () => true) => {
    const names = places(path).map(({ name }) => name)
    // The same thing has addresses under several paths: a version of a model, say.
    const keys = names.length > 1 ? [places(path)[0]!.prefix, names.toSorted().join()] : []
    for (const key of [...keys, ...places(path).map(({ prefix }) => prefix)]) {
      const known = (addresses.get(key) ?? []).filter(fits)
      if (known.length && random.chance(0.9)) return random.pick(known)
    }
    return null
  }
  return {
    learn({ path }, params, body) {
      if (typeof body !== 'object' || body === null) return
      learnFields(
        body,
        path
          .replace(/\/\{.*$/, '')
          .split('/')
          .at(-1)!,
      )
      learnAddresses(path, params, body)
    },
    recall(random, name) {
      const list = seen.get(name)
      return list?.length ? random.pick(list) : undefined
    },
    address: (random, path) => address(random, path) ?? {},
    learnForeign: (body) => void foreign.add((body as { id?: unknown }).id),
    ownAddress: (random, path) =>
      address(random, path, (params) => {
        const id = params[places(path)[0]!.name] ?? ''
        return uuid.test(id) && !Object.values(params).some((one) => foreign.has(one))
      }),
  }
}
