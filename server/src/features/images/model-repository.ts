import { createHash } from 'node:crypto'

const repositoryPart = /^[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*$/
const longestPart = 128

/**
 * The repository of a model's images, without the tenant. A name that is no repository name, such as one with capitals
 * or spaces, is written so that it is one; a short hash of the model's name keeps two of them apart.
 * @source OCI Distribution Specification 1.1 "Pulling manifests" (grammar of names)
 */
export function modelRepository(modelName: string): string {
  if (modelName.length <= longestPart && repositoryPart.test(modelName)) return `models/${modelName}`
  const hash = createHash('sha256').update(modelName).digest('hex').slice(0, 8)
  const readable = modelName
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .slice(0, longestPart)
    .replace(/^-+|-+$/g, '')
  return `models/${readable ? `${readable}-${hash}` : hash}`
}
