import {
  allowInsecureRequests,
  authorizationCodeGrant,
  buildAuthorizationUrl,
  type Configuration,
  calculatePKCECodeChallenge,
  discovery,
  fetchUserInfo,
  randomNonce,
  randomPKCECodeVerifier,
  randomState,
} from 'openid-client'
import { type IdentityProvider, type PendingSignOn, type ProvenIdentity, SignOnRefused } from './identity-provider.ts'

export interface OpenidConnectOptions {
  issuer: string
  clientId: string
  clientSecret: string | null
  /** Separated by spaces. */
  scopes: string
  /** Claim that lists the groups of a person. */
  groupsClaim: string
}

const isLoopback = (url: URL): boolean => ['127.0.0.1', 'localhost', '[::1]'].includes(url.hostname)

/** Authorization code flow with PKCE, state and nonce. @source OpenID Connect Core 1.0, RFC 9700 */
export function openidConnect(options: OpenidConnectOptions): IdentityProvider {
  let known: Promise<Configuration> | null = null
  const configuration = () => {
    known ??= discover(options).catch((error) => {
      known = null
      throw error
    })
    return known
  }
  return {
    async begin(redirectUrl) {
      const pending: PendingSignOn = { state: randomState(), nonce: randomNonce(), verifier: randomPKCECodeVerifier() }
      const url = buildAuthorizationUrl(await configuration(), {
        redirect_uri: redirectUrl,
        scope: options.scopes,
        state: pending.state,
        nonce: pending.nonce,
        code_challenge: await calculatePKCECodeChallenge(pending.verifier),
        code_challenge_method: 'S256',
      })
      return { url: url.href, pending }
    },
    async finish(returnUrl, pending) {
      const provider = await configuration()
      try {
        return await proven(provider, new URL(returnUrl), pending, options.groupsClaim)
      } catch (error) {
        throw new SignOnRefused((error as Error).message, { cause: error })
      }
    },
    check: () => configuration().then(() => undefined),
  }
}

function discover({ issuer, clientId, clientSecret }: OpenidConnectOptions): Promise<Configuration> {
  const url = new URL(issuer)
  // Plain http only where nobody stands in between.
  const execute = isLoopback(url) ? [allowInsecureRequests] : []
  return discovery(url, clientId, clientSecret ?? undefined, undefined, { execute, timeout: 10 })
}

async function proven(
  provider: Configuration,
  returnUrl: URL,
  { state, nonce, verifier }: PendingSignOn,
  groupsClaim: string,
): Promise<ProvenIdentity> {
  const checks = { expectedState: state, expectedNonce: nonce, pkceCodeVerifier: verifier, idTokenExpected: true }
  const tokens = await authorizationCodeGrant(provider, returnUrl, checks)
  const idToken = tokens.claims()!
  const complete = provider.serverMetadata().userinfo_endpoint !== undefined
  const userInfo = complete ? await fetchUserInfo(provider, tokens.access_token, idToken.sub) : {}
  const claims: Record<string, unknown> = { ...idToken, ...userInfo }
  const groups = claims[groupsClaim]
  return {
    issuer: idToken.iss,
    subject: idToken.sub,
    email: typeof claims.email === 'string' ? claims.email : null,
    emailVerified: claims.email_verified === true,
    name: typeof claims.name === 'string' ? claims.name : null,
    groups: Array.isArray(groups) ? groups.map(String) : typeof groups === 'string' ? [groups] : [],
  }
}
