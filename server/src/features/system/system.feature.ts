import { defineFeature, type Feature } from '../../platform/feature.ts'
import type { Operation } from '../../platform/http/operation.ts'
import type { HttpMetrics } from '../../platform/metrics.ts'
import { machineRoutes } from './machine.routes.ts'

export const systemFeature = (all: () => Operation[], metrics: HttpMetrics): Feature =>
  defineFeature({ name: 'system', operations: machineRoutes(all, metrics) })
