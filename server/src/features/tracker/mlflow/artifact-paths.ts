import { registryFolder } from '../artifact-addresses.api.ts'
import { invalidParameter, permissionDenied } from './mlflow-errors.ts'

const longest = 1000

/** A clean path below a folder, or the empty one for the folder itself. Throws INVALID_PARAMETER_VALUE. @source contract B10.8 */
export function cleanPath(path: string): string {
  const trimmed = path.replace(/\/+$/, '')
  if (trimmed === '') return ''
  const segments = trimmed.split('/')
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is refused
  const odd = /[\x00-\x1f\x7f\\]/.test(trimmed) || trimmed.length > longest
  // Clients quote more than once on the way; what turns into a step up then is one now.
  const steps = (segment: string) => /^(\.|%(25)*2e)*$/i.test(segment)
  if (odd || segments.some(steps)) throw invalidParameter('Invalid path')
  return trimmed
}

export function requiredPath(path: string): string {
  const clean = cleanPath(path)
  if (clean === '') throw invalidParameter('Invalid path: it must name a file.')
  return clean
}

/** What the registry shows there, and what is relative to it, or null for a path elsewhere. */
export function registryPath(path: string): { modelId: string; version: number; rest: string } | null {
  const match = new RegExp(`^${registryFolder}/([0-9a-f-]{36})/([1-9]\\d{0,8})(?:/(.*))?$`).exec(path)
  return match && { modelId: match[1]!, version: Number(match[2]), rest: match[3] ?? '' }
}

/** What was registered stays as it is. Throws PERMISSION_DENIED. */
export function refuseRegistryPath(path: string): void {
  if (path === registryFolder || path.startsWith(`${registryFolder}/`)) {
    throw permissionDenied('The files of registered versions cannot be changed.')
  }
}
