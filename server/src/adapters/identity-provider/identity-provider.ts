/** The identity provider port: sends a browser to where people prove who they are, and takes the proof. */
export interface IdentityProvider {
  /** Address to send the browser to, and what must be kept, secret from everybody but that browser, until it is back. */
  begin(redirectUrl: string): Promise<{ url: string; pending: PendingSignOn }>
  /** What the provider vouches for. Throws `SignOnRefused` for a proof that is none. */
  finish(returnUrl: string, pending: PendingSignOn): Promise<ProvenIdentity>
  /** Throws with the reason when the provider can't be reached. */
  check(): Promise<void>
}

/** Ties the way back to the way there. @source RFC 6749 §10.12, RFC 7636, OpenID Connect Core 1.0 §3.1.2.1 */
export interface PendingSignOn {
  state: string
  nonce: string
  verifier: string
}

export interface ProvenIdentity {
  issuer: string
  /** The provider's own name for the person; never given to another. */
  subject: string
  email: string | null
  emailVerified: boolean
  name: string | null
  groups: string[]
}

/** The provider said no, or what came back is no answer of it to us. */
export class SignOnRefused extends Error {}
