import type { TenantCtx } from '../../../platform/context.ts'
import type { Tx } from '../../../platform/db/transaction.ts'
import { findRegistryFiles } from '../../models/registry.api.ts'
import { type ArtifactFile, type FolderEntry, findArtifact, listFolder } from '../artifacts.store.ts'
import { registryPath } from './artifact-paths.ts'
import { doesNotExist } from './mlflow-errors.ts'

/** The file at a path of the artifact root, uploaded or registered. Throws RESOURCE_DOES_NOT_EXIST. */
export async function loadFile(tx: Tx, ctx: TenantCtx, path: string): Promise<ArtifactFile> {
  const registered = registryPath(path)
  const file = registered
    ? (await findRegistryFiles(tx, ctx, registered)).find((candidate) => candidate.path === registered.rest)
    : await findArtifact(tx, ctx.tenant.id, path)
  if (!file) throw doesNotExist(`There is no artifact ${path}`)
  return file
}

/** What lies directly in a folder of the artifact root; nothing for one that is not there. */
export async function entriesOf(tx: Tx, ctx: TenantCtx, folder: string): Promise<FolderEntry[]> {
  const registered = registryPath(folder)
  if (!registered) return listFolder(tx, ctx.tenant.id, folder)
  const files = await findRegistryFiles(tx, ctx, registered)
  const prefix = registered.rest === '' ? '' : `${registered.rest}/`
  const entries = new Map<string, FolderEntry>()
  for (const file of files) {
    if (!file.path.startsWith(prefix)) continue
    const [name = '', ...deeper] = file.path.slice(prefix.length).split('/')
    const isFolder = deeper.length > 0
    entries.set(name, { name, isFolder, size: isFolder ? null : file.size })
  }
  return [...entries.values()]
}

/** As listings of runs and models give it: the path relative to their own root. */
export const entryView = (entry: FolderEntry, parent: string) => ({
  path: parent === '' ? entry.name : `${parent}/${entry.name}`,
  is_dir: entry.isFolder,
  ...(entry.size === null ? {} : { file_size: entry.size }),
})
