import type { TenantCtx } from '../../../platform/context.ts'
import type { Tx } from '../../../platform/db/transaction.ts'
import { filesOfVersion, findRegistryVersion, type RegistryVersion } from '../../models/registry.api.ts'
import { folderOfUri, loggedModelFolder, runArtifactFolder } from '../artifact-addresses.api.ts'
import { findArtifactFiles } from '../tracker.api.ts'
import { loadLoggedModel } from './logged-model-access.ts'
import { invalidParameter } from './mlflow-errors.ts'
import { loadRun } from './run-access.ts'

interface SourceFile {
  path: string
  digest: string
  size: number
}

/**
 * The files that a source names: an address of ours, a run's or a logged model's path, or another version. A store
 * of the client's own has none that we could see. Throws INVALID_PARAMETER_VALUE for a path of somebody's machine.
 */
export async function filesOfSource(tx: Tx, ctx: TenantCtx, source: string): Promise<SourceFile[]> {
  refuseLocal(source)
  const model = /^models:\/+(m-[0-9a-f]{32})$/.exec(source)?.[1]
  if (model) {
    const { experimentId } = await loadLoggedModel(tx, ctx, model)
    return findArtifactFiles(tx, ctx, loggedModelFolder(experimentId, model))
  }
  const version = await versionOfSource(tx, ctx, source)
  if (version) return filesOfVersion(tx, ctx, version)
  const [, runId, path = ''] = /^runs:\/+([0-9a-f]{32})(?:\/(.*?))?\/*$/.exec(source) ?? []
  if (runId) {
    const folder = runArtifactFolder((await loadRun(tx, ctx, runId)).experimentId, runId)
    return findArtifactFiles(tx, ctx, path === '' ? folder : `${folder}/${path}`)
  }
  const folder = folderOfUri(ctx, source)
  return folder === null ? [] : findArtifactFiles(tx, ctx, folder)
}

/** The version that `models:/name/3` means, or null. */
async function versionOfSource(tx: Tx, ctx: TenantCtx, source: string): Promise<RegistryVersion | null> {
  const [, name, version] = /^models:\/+([^/]+)\/([1-9]\d*)$/.exec(source) ?? []
  return name && version ? findRegistryVersion(tx, ctx, decodeURIComponent(name), version) : null
}

function refuseLocal(source: string): void {
  const local = /^(file:|[./\\~]|[A-Za-z]:\\)/i.test(source) || !/^[a-z][a-z0-9+.-]*:/i.test(source)
  if (source.split(/[/?#]/).includes('..')) {
    throw invalidParameter(`Invalid model version source: '${source}'. It must not step up in its path.`)
  }
  if (local) {
    throw invalidParameter(
      `Invalid model version source: '${source}'. To use a local path as a model version source, upload it to a run first.`,
    )
  }
}

/** Where a client downloads a version from: never another `models:` address. */
export async function downloadUri(tx: Tx, ctx: TenantCtx, version: RegistryVersion, root: string): Promise<string> {
  const source = version.source
  if (source === null || !source.startsWith('models:')) return version.filesUri
  const model = /^models:\/+(m-[0-9a-f]{32})$/.exec(source)?.[1]
  if (model) return `${root}/${loggedModelFolder((await loadLoggedModel(tx, ctx, model)).experimentId, model)}`
  const origin = await versionOfSource(tx, ctx, source)
  return origin ? downloadUri(tx, ctx, origin, root) : version.filesUri
}
