import type { Services } from '../../platform/context.ts'

/** Address of the tenant's artifact root: absolute, so that clients of every age find it. @source contract B10.8 */
export const artifactRootUri = (services: Pick<Services, 'publicUrl'>): string =>
  `${services.publicUrl}/tracker/api/2.0/mlflow-artifacts/artifacts`

/** Folder below the artifact root that an address means, or null when it means no place of ours. */
export function folderOfUri(services: Pick<Services, 'publicUrl'>, uri: string): string | null {
  const root = `${artifactRootUri(services)}/`
  const path = uri.startsWith(root) ? uri.slice(root.length) : /^mlflow-artifacts:\/+(.+)$/.exec(uri)?.[1]
  return path?.replace(/\/+$/, '') || null
}

/** Folder of a run's files below the tenant's artifact root. */
export const runArtifactFolder = (experimentId: number | string, runId: string): string =>
  `${experimentId}/${runId}/artifacts`

/** Folder of a logged model's files below the tenant's artifact root. */
export const loggedModelFolder = (experimentId: number | string, modelId: string): string =>
  `${experimentId}/models/${modelId}/artifacts`

/** Folder of the artifact root that shows what the registry itself holds: `models/<model id>/<version>`. */
export const registryFolder = 'models'
