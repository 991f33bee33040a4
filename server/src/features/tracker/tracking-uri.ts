import type { Services } from '../../platform/context.ts'

/** What clients are told when they ask which MLflow this is. @source contract B10 */
export const protocolVersion = '3.0.0'

/** Address that MLflow clients are pointed at. */
export const trackingUri = (services: Pick<Services, 'publicUrl'>): string => `${services.publicUrl}/tracker`
