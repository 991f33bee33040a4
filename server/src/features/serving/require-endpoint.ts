import { notFound } from '../../platform/errors.ts'
import type { EndpointRow } from './endpoints.store.ts'

/** Throws `not_found` where there is none. */
export function requireEndpoint(endpoint: EndpointRow | undefined): EndpointRow {
  if (!endpoint) throw notFound('There is no such endpoint.')
  return endpoint
}
