import { anybody, session } from '../../platform/http/access.ts'
import { Answer } from '../../platform/http/answer.ts'
import { type Operation, operation } from '../../platform/http/operation.ts'
import { BearerToken, LoginForm } from './identity.schema.ts'
import { logIn, logOut } from './login.service.ts'
import { loginCookie } from './login-cookie.ts'
import type { TokenSigner } from './tokens.ts'

const loginErrors = {
  400: 'Wrong e-mail or password; detail is LOGIN_BAD_CREDENTIALS.',
  429: 'More than ten failures in a minute.',
}

/** @source service §5, contract B2 */
export function authRoutes(signer: TokenSigner): Operation[] {
  return [
    operation({
      id: 'auth.cookieLogin',
      method: 'POST',
      path: '/auth/cookie/login',
      summary: 'Sign in with e-mail and password; the login travels in a cookie.',
      access: anybody,
      audit: 'auth.login',
      body: LoginForm,
      bodyKind: 'form',
      responses: { 204: null },
      errors: loginErrors,
      handler: async (ctx, { body, request }) => {
        const { token, lifetimeSeconds } = await logIn(ctx, signer, {
          ...body,
          userAgent: request.headers['user-agent'] ?? null,
        })
        return new Answer({
          headers: {
            'set-cookie': loginCookie(token, ctx.config.cookieSecure, lifetimeSeconds || null),
            'cache-control': 'no-store',
          },
        })
      },
    }),
    operation({
      id: 'auth.jwtLogin',
      method: 'POST',
      path: '/auth/jwt/login',
      summary: 'Sign in with e-mail and password; the answer is a bearer token.',
      access: anybody,
      audit: 'auth.login',
      body: LoginForm,
      bodyKind: 'form',
      responses: { 200: BearerToken },
      errors: loginErrors,
      handler: async (ctx, { body, request }) => {
        const { token } = await logIn(ctx, signer, { ...body, userAgent: request.headers['user-agent'] ?? null })
        return { access_token: token, token_type: 'bearer' }
      },
    }),
    operation({
      id: 'auth.cookieLogout',
      method: 'POST',
      path: '/auth/cookie/logout',
      summary: 'End this login and clear its cookie.',
      access: session,
      audit: 'auth.logout',
      responses: { 204: null },
      handler: async (ctx) => {
        await logOut(ctx)
        return new Answer({ headers: { 'set-cookie': loginCookie('""', ctx.config.cookieSecure, 0) } })
      },
    }),
    operation({
      id: 'auth.jwtLogout',
      method: 'POST',
      path: '/auth/jwt/logout',
      summary: 'End this login; its token is dead at once.',
      access: session,
      audit: 'auth.logout',
      responses: { 204: null },
      handler: (ctx) => logOut(ctx),
    }),
  ]
}
