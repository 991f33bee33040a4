import type { FastifyRequest } from 'fastify'
import type { TenantCtx } from '../../../platform/context.ts'
import type { Permission } from '../../../platform/http/permissions.ts'
import type { Fields } from './fields.ts'

export interface MlflowInput {
  fields: Fields
  /** Parts of the path. */
  params: Record<string, string>
  /** Length of the body in bytes. */
  bodyBytes: number
  request: FastifyRequest
}

/** One endpoint of the protocol. What the handler returns is the JSON object of the answer; null is `{}`. */
export interface MlflowRoute {
  method: 'GET' | 'POST' | 'PATCH' | 'PUT' | 'DELETE'
  /** Below the mount; a part in braces is a parameter, `{path+}` takes slashes too. */
  path: string
  needs: Permission
  /** Action of the audit row; what runs log as they go has none, or it would outweigh all else. */
  audit?: string
  handler(ctx: TenantCtx, input: MlflowInput): Promise<object | null>
}

type Handler = MlflowRoute['handler']

const api = '/api/2.0/mlflow'

/** What reads. */
export const get = (path: string, handler: Handler): MlflowRoute => ({
  method: 'GET',
  path: api + path,
  needs: 'VIEW',
  handler,
})

/** What writes with DEVELOP, unless said otherwise. @source contract B10.1 */
export const write = (
  method: 'POST' | 'PATCH' | 'DELETE',
  path: string,
  handler: Handler,
  { needs = 'DEVELOP', audit }: { needs?: Permission; audit?: string } = {},
): MlflowRoute => ({ method, path: api + path, needs, handler, ...(audit ? { audit } : {}) })

/** A search that travels as POST but only reads. */
export const search = (path: string, handler: Handler): MlflowRoute => ({ ...get(path, handler), method: 'POST' })
