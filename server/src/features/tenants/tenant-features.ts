import { forbidden } from '../../platform/errors.ts'
import type { Feature } from '../../platform/feature.ts'
import type { Operation } from '../../platform/http/operation.ts'

export interface FeatureToggle {
  /** Name of the feature in its manifest. */
  key: string
  label: string
  description: string
  default: boolean
}

/** Features a tenant can do without; the others carry the product. @source service §4.13 */
const toggles: FeatureToggle[] = [
  { key: 'tracker', label: 'Experiment tracker', description: 'The MLflow address and its tokens.', default: true },
  {
    key: 'registry',
    label: 'Container registry',
    description: 'Repositories, tokens and image imports.',
    default: true,
  },
  { key: 'serving', label: 'Serving', description: 'Endpoints, deployments and the inference proxy.', default: true },
  { key: 'alerts', label: 'Alerts', description: 'Alerts, rules, channels and silences.', default: true },
  { key: 'drift', label: 'Drift monitoring', description: 'Drift scores, policies and feedback.', default: true },
  { key: 'pipelines', label: 'Pipelines', description: 'Pipelines, their runs and triggers.', default: true },
  { key: 'devices', label: 'Edge devices', description: 'Devices, their commands and ingestion.', default: true },
  {
    key: 'collected',
    label: 'Collected data',
    description: 'Files, records and results of edge devices.',
    default: true,
  },
  {
    key: 'external-sources',
    label: 'External sources',
    description: 'Sources and synchronised datasets.',
    default: true,
  },
  {
    key: 'observability',
    label: 'Observability',
    description: 'Queries to metrics store and alert router.',
    default: true,
  },
]

/** Rules of the house that a tenant may loosen; no feature stands behind them. */
const rules: FeatureToggle[] = [
  {
    key: 'self_approval',
    label: 'Self-approval',
    description: 'People may approve promotions that they requested themselves.',
    default: false,
  },
]

/** The toggles of the features that this installation has, and the rules, in the order of the page. */
export const toggleCatalogue = (features: Feature[]): FeatureToggle[] => {
  const present = new Set(features.map((feature) => feature.name))
  return [...toggles.filter(({ key }) => present.has(key)), ...rules]
}

/** Every toggle, on or off, from what the tenant has chosen. */
export const effectiveFeatures = (catalogue: FeatureToggle[], chosen: unknown): Record<string, boolean> =>
  Object.fromEntries(catalogue.map(({ key }) => [key, isOn(key, chosen)]))

/** Whether a tenant that has chosen so has the feature; one that can't be toggled is always on. */
export function isOn(key: string, chosen: unknown): boolean {
  const toggle = [...toggles, ...rules].find((candidate) => candidate.key === key)
  return toggle ? ((chosen as Record<string, boolean>)[key] ?? toggle.default) : true
}

/**
 * The feature with every operation of tenants refusing those that have switched it off: 403 with `detail.feature`.
 * Its records stay and are there again when it is switched on.
 */
export function toggled(feature: Feature): Feature {
  const toggle = toggles.find(({ key }) => key === feature.name)
  if (!toggle || !feature.operations) return feature
  return { ...feature, operations: feature.operations.map((operation) => guarded(operation, toggle)) }
}

function guarded(operation: Operation, toggle: FeatureToggle): Operation {
  if (operation.access.level !== 'tenant') return operation
  return {
    ...operation,
    closedTo: ({ features = {} }) =>
      isOn(toggle.key, features)
        ? null
        : forbidden(`${toggle.label} is switched off for this tenant.`, { detail: { feature: toggle.key } }),
  }
}
