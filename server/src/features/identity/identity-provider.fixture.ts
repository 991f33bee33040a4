import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import Provider from 'oidc-provider'

export interface Person {
  email?: string
  email_verified?: boolean
  name?: string
  groups?: string[]
}

export interface TestProvider {
  issuer: string
  /** Whom it knows, by its own name for them. */
  people: Record<string, Person>
  /** Lets the client with that address for the way back ask. */
  admit(redirectUrl: string): void
  stop(): Promise<void>
}

export const client = { id: 'platform-mlops', secret: 'a secret of the client' }

/** A certified OpenID provider on loopback; who signs in there is asked for a name alone. */
export async function startIdentityProvider(): Promise<TestProvider> {
  const server: Server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const people: Record<string, Person> = {}
  return {
    issuer,
    people,
    admit(redirectUrl) {
      const provider = new Provider(issuer, {
        clients: [{ client_id: client.id, client_secret: client.secret, redirect_uris: [redirectUrl] }],
        scopes: ['openid', 'email', 'profile', 'groups'],
        claims: { openid: ['sub'], email: ['email', 'email_verified'], profile: ['name'], groups: ['groups'] },
        cookies: { keys: ['cookies of a test'] },
        findAccount: (_ctx, id) => ({ accountId: id, claims: async () => ({ sub: id, ...people[id] }) }),
      })
      server.on('request', provider.callback())
    },
    stop: () => {
      server.closeAllConnections()
      return new Promise((resolve) => server.close(() => resolve()))
    },
  }
}

/** What a browser does: keeps cookies per site, follows redirects, and sends the forms that it is shown. */
export class Browser {
  readonly #jars = new Map<string, Map<string, string>>()

  cookies(origin: string): Map<string, string> {
    const jar = this.#jars.get(origin) ?? new Map()
    this.#jars.set(origin, jar)
    return jar
  }

  /** Asks once. */
  async visit(address: string, form?: Record<string, string>): Promise<Response> {
    const { origin } = new URL(address)
    const jar = this.cookies(origin)
    const headers = { cookie: [...jar].map(([name, value]) => `${name}=${value}`).join('; ') }
    const body = form ? { method: 'POST', body: new URLSearchParams(form) } : {}
    const response = await fetch(address, { ...body, headers, redirect: 'manual' })
    for (const line of response.headers.getSetCookie()) {
      const [, name, value] = /^([^=]+)=([^;]*)/.exec(line)!
      if (value && !/max-age=0/i.test(line)) jar.set(name!, value)
      else jar.delete(name!)
    }
    return response
  }

  /** Goes on until it is back at the site it came from, signing in at the provider as `person` on the way. */
  async signIn(start: string, person: string): Promise<{ response: Response; address: string }> {
    const home = new URL(start).origin
    let address = start
    let response = await this.visit(address)
    for (let hops = 0; hops < 15; hops++) {
      const location = response.headers.get('location')
      if (!location) {
        const page = await response.text()
        const action = /<form[^>]*action="([^"]+)"/.exec(page)?.[1]
        if (!action || new URL(address).origin === home)
          throw new Error(`${address} shows ${response.status}: ${page.slice(0, 300)}`)
        const prompt = /name="prompt" value="(\w+)"/.exec(page)![1]!
        response = await this.visit(new URL(action, address).href, { prompt, login: person, password: 'any' })
        continue
      }
      address = new URL(location, address).href
      if (new URL(address).origin === home) return { response: await this.visit(address), address }
      response = await this.visit(address)
    }
    throw new Error('it leads nowhere')
  }
}
