import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { type IdentityProvider, SignOnRefused } from '../../adapters/identity-provider/identity-provider.ts'
import type { AnonymousCtx, Services } from '../../platform/context.ts'
import { badGateway, badRequest } from '../../platform/errors.ts'
import { loginCookie } from './login-cookie.ts'
import { endedPendingCookie, openPending, ownPath, pendingCookie } from './pending-sign-on.ts'
import { type SignOnRules, signOn } from './single-sign-on.service.ts'
import type { TokenSigner } from './tokens.ts'

export interface SingleSignOn {
  provider: IdentityProvider
  rules: SignOnRules
}

const callbackPath = '/auth/oidc/callback'

/** Two addresses for browsers, which are sent on by both: no operations, because nobody calls them by a client. */
export function addSingleSignOn(
  app: FastifyInstance,
  services: Services,
  signer: TokenSigner,
  { provider, rules }: SingleSignOn,
): void {
  const secure = services.config.cookieSecure
  app.get('/auth/oidc/login', async (request, reply) => {
    const { url, pending } = await provider.begin(services.publicUrl + callbackPath).catch((cause) => {
      throw badGateway('The identity provider does not answer.', { cause })
    })
    const returnTo = ownPath((request.query as Record<string, unknown>).return_to)
    return sendOn(reply, url, [await pendingCookie(signer, { ...pending, returnTo }, secure)])
  })
  app.get(callbackPath, async (request, reply) => {
    const pending = await openPending(signer, request.headers.cookie)
    if (!pending) throw badRequest('This sign-on was not begun in this browser, or too long ago; begin again.')
    const identity = await provider.finish(services.publicUrl + request.url, pending).catch((cause) => {
      if (cause instanceof SignOnRefused) throw badRequest('The sign-on failed; begin again.', { cause })
      throw badGateway('The identity provider does not answer.', { cause })
    })
    const ctx = contextOf(services, request)
    const login = await signOn(ctx, signer, identity, rules, request.headers['user-agent'] ?? null)
    const cookie = loginCookie(login.token, secure, login.lifetimeSeconds || null)
    return sendOn(reply, pending.returnTo, [cookie, endedPendingCookie(secure)])
  })
}

const sendOn = (reply: FastifyReply, location: string, cookies: string[]): FastifyReply =>
  reply.code(302).headers({ location, 'set-cookie': cookies, 'cache-control': 'no-store' }).send()

const contextOf = (services: Services, request: FastifyRequest): AnonymousCtx => ({
  ...services,
  kind: 'anonymous',
  scope: 'system',
  ip: request.ip,
  requestId: request.id,
  audit: { action: 'auth.sign_on', ip: request.ip, written: false },
})
