import { lookup } from 'node:dns'
import { Agent as HttpAgent } from 'node:http'
import { Agent as HttpsAgent } from 'node:https'
import { BlockList, isIP, type LookupFunction } from 'node:net'
import { networkInterfaces } from 'node:os'
import { SourceError } from './external-sources.ts'

export interface GuardedAgents {
  http: HttpAgent
  https: HttpsAgent
  close(): void
}

/**
 * What no source is on unless the operator says so: this machine, addresses that only mean something on one link, and
 * the places clouds give out credentials at. Private networks are fine: a self-hosted store is the ordinary case.
 */
const refused = new BlockList()
for (const [network, bits, family] of [
  ['0.0.0.0', 8, 'ipv4'],
  ['127.0.0.0', 8, 'ipv4'],
  ['169.254.0.0', 16, 'ipv4'],
  ['192.0.0.0', 24, 'ipv4'],
  ['224.0.0.0', 3, 'ipv4'],
  ['100.100.100.200', 32, 'ipv4'],
  ['168.63.129.16', 32, 'ipv4'],
  ['::', 127, 'ipv6'],
  ['fe80::', 10, 'ipv6'],
  ['ff00::', 8, 'ipv6'],
  ['fd00:ec2::254', 128, 'ipv6'],
  // Each of these holds an address of version 4, which is reached by its own rules or not at all.
  ['64:ff9b::', 96, 'ipv6'],
  ['64:ff9b:1::', 48, 'ipv6'],
  ['2002::', 16, 'ipv6'],
] as const)
  refused.addSubnet(network, bits, family)

/** Whether a source may be at this address. @source RFC 6890, OWASP "Server-Side Request Forgery Prevention" */
export function isReachable(address: string): boolean {
  const plain = address.replace(/%.*$/, '')
  const family = isIP(plain) === 6 ? 'ipv6' : 'ipv4'
  if (isIP(plain) === 0 || refused.check(plain, family)) return false
  const own = new BlockList()
  for (const { address: mine, family: of } of Object.values(networkInterfaces()).flatMap((list) => list ?? []))
    own.addAddress(mine, of === 'IPv6' ? 'ipv6' : 'ipv4')
  return !own.check(plain, family)
}

/**
 * Agents that connect to nothing they should not. The rule is asked of the very addresses that are connected to, so
 * neither a redirect nor a name that answers differently the second time leads around it.
 */
export function guardedAgents(allowedHosts: string[]): GuardedAgents {
  const allowed = new Set(allowedHosts.map((host) => host.toLowerCase()))
  const options = { keepAlive: true, maxSockets: 16, timeout: 600_000, lookup: guardedLookup(allowed) }
  const agents = {
    http: guarded(new HttpAgent(options), allowed),
    https: guarded(new HttpsAgent(options), allowed),
  }
  return {
    ...agents,
    close() {
      agents.http.destroy()
      agents.https.destroy()
    },
  }
}

const bare = (host: string) => host.toLowerCase().replace(/^\[|\]$/g, '')

/** Throws `denied` for a literal address that is refused; of a name only its addresses tell. */
export function vetHost(given: string, allowedHosts: Iterable<string>): void {
  const host = bare(given)
  const allowed = new Set([...allowedHosts].map((name) => name.toLowerCase()))
  if (isIP(host) !== 0 && !allowed.has(host) && !isReachable(host)) throw notAllowed(host)
}

/** A literal address is never looked up, so it is judged where the connection is made. */
function guarded<A extends HttpAgent>(agent: A, allowed: ReadonlySet<string>): A {
  const connect = agent.createConnection.bind(agent)
  agent.createConnection = (options, callback) => {
    try {
      vetHost(String(options.host ?? 'localhost'), allowed)
      return connect(options, callback)
    } catch (error) {
      if (callback) process.nextTick(callback, error)
      return undefined
    }
  }
  return agent
}

const guardedLookup =
  (allowed: ReadonlySet<string>): LookupFunction =>
  (hostname, options, callback) => {
    lookup(hostname, { ...options, all: true }, (error, addresses) => {
      if (error) return callback(error, '')
      const fit = allowed.has(bare(hostname)) ? addresses : addresses.filter(({ address }) => isReachable(address))
      const first = fit[0]
      if (!first) return callback(notAllowed(hostname), '')
      if (options.all) return callback(null, fit)
      callback(null, first.address, first.family)
    })
  }

const notAllowed = (host: string) =>
  new SourceError(
    'denied',
    `${host} is loopback, link-local or this machine; the operator may allow it with PLATFORM_MLOPS_SOURCE_ALLOWED_HOSTS.`,
  )
