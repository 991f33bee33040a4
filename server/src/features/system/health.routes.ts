import type { HealthCheck } from '../../platform/feature.ts'
import { superuser } from '../../platform/http/access.ts'
import { type Operation, operation } from '../../platform/http/operation.ts'
import { SystemHealth } from './health.schema.ts'
import { diagnose } from './health.service.ts'

/** @source service §4.15, contract SY-01 */
export const healthRoutes = (checks: () => HealthCheck[]): Operation[] => [
  operation({
    id: 'system.getHealth',
    method: 'GET',
    path: '/api/v1/system/health',
    summary: 'Diagnosis of everything the platform depends on, and of its configuration.',
    access: superuser,
    responses: { 200: SystemHealth },
    handler: (ctx) => diagnose(ctx, checks()),
  }),
]
