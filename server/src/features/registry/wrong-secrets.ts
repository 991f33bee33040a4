const windowMs = 60_000
const addressesMax = 10_000

/** Secrets that no token has, by the address they came from; remembered in this process for a minute. */
export interface WrongSecrets {
  /** The same wrong secret again: it stays wrong, so nobody has to be asked. */
  has(address: string, secret: string): boolean
  add(address: string, secret: string): void
  /** Seconds that the address has to wait because it guesses; 0 when it may go on. */
  waitSeconds(address: string): number
}

/**
 * A client that goes on with one wrong secret bothers nobody, so only different ones count as guesses.
 * @param most different wrong secrets per address and minute
 */
export function wrongSecrets(most: number, now: () => number): WrongSecrets {
  const byAddress = new Map<string, { until: number; secrets: Set<string> }>()
  const find = (address: string) => {
    const found = byAddress.get(address)
    if (found && found.until > now()) return found
    byAddress.delete(address)
    return null
  }
  return {
    has: (address, secret) => find(address)?.secrets.has(secret) ?? false,
    add(address, secret) {
      const entry = find(address) ?? { until: now() + windowMs, secrets: new Set() }
      // The oldest makes room: whoever has that many addresses is not stopped by this, nor may the memory grow.
      if (byAddress.size >= addressesMax) byAddress.delete(byAddress.keys().next().value!)
      byAddress.set(address, entry)
      if (entry.secrets.size < most) entry.secrets.add(secret)
    },
    waitSeconds(address) {
      const entry = find(address)
      return entry && entry.secrets.size >= most ? Math.ceil((entry.until - now()) / 1000) : 0
    },
  }
}
