import { anybody } from '../../platform/http/access.ts'
import { type Operation, operation } from '../../platform/http/operation.ts'
import { answerPing } from './oci/oci.protocol.ts'
import type { OciRegistry } from './oci/oci-registry.ts'

/** The entry point of the registry protocol, the only part of it that is an operation. @source contract RG-01 */
export const pingRoute = (registry: () => OciRegistry): Operation =>
  operation({
    id: 'registry.ping',
    method: 'GET',
    path: '/v2/',
    summary: 'Whether the registry token (Basic, any user name) is let in; clients ask before anything else.',
    access: anybody,
    responses: { 200: null },
    errors: {
      401: 'No live registry token; WWW-Authenticate asks for Basic. The body is that of the OCI specification.',
      403: 'The owner of the token has no right here any more, or the tenant is switched off.',
    },
    handler: (_ctx, { request }) => answerPing(registry(), request),
  })
