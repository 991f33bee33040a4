import { buffer } from 'node:stream/consumers'
import type { ModelFile } from '../../adapters/image-builder/image-builder.ts'
import type { BlobStore } from '../../platform/blobs/blob-store.ts'

export interface ModelIssue {
  code: 'file_missing' | 'file_lost' | 'description_invalid' | 'task_unsupported'
  message: string
  path: string | null
}

const descriptionFile = 'model.json'
const neededFiles = ['model.onnx', descriptionFile]
const descriptionMaxBytes = 16 * 1024 ** 2
/** What the model server in the images can serve. */
const servedTasks = ['image_classification']

/** What stands in the way of serving these files: what is missing, lost from the store, or not understood. */
export async function findModelIssues(blobs: BlobStore, files: ModelFile[]): Promise<ModelIssue[]> {
  const missing = neededFiles
    .filter((path) => !files.some((file) => file.path === path))
    .map((path): ModelIssue => ({ code: 'file_missing', message: `The version has no file ${path}.`, path }))
  const lost = (await Promise.all(files.map((file) => lostIssue(blobs, file)))).filter((issue) => issue !== null)
  const description = files.find(({ path }) => path === descriptionFile)
  const readable = description && !lost.some(({ path }) => path === descriptionFile)
  return [...missing, ...lost, ...(readable ? await descriptionIssues(blobs, description) : [])]
}

async function lostIssue(blobs: BlobStore, { path, digest, size }: ModelFile): Promise<ModelIssue | null> {
  const info = await blobs.stat(digest)
  if (info?.size === size) return null
  const found = info ? `has ${info.size} bytes in the store, not ${size}` : 'is not in the store any more'
  return { code: 'file_lost', message: `The file ${path} ${found}.`, path }
}

async function descriptionIssues(blobs: BlobStore, { path, digest, size }: ModelFile): Promise<ModelIssue[]> {
  const invalid = (message: string): ModelIssue[] => [{ code: 'description_invalid', message, path }]
  if (size > descriptionMaxBytes) return invalid(`${path} is larger than ${descriptionMaxBytes} bytes.`)
  let document: { format?: unknown; task?: unknown; classes?: unknown } | null
  try {
    document = JSON.parse((await buffer(await blobs.open(digest))).toString('utf8'))
  } catch {
    return invalid(`${path} is not JSON.`)
  }
  if (document?.format !== 1) return invalid(`${path} must have the format 1.`)
  if (!servedTasks.includes(String(document.task))) {
    const message = `The model server does not serve the task ${String(document.task)}, only ${servedTasks.join(', ')}.`
    return [{ code: 'task_unsupported', message, path }]
  }
  if (!Array.isArray(document.classes) || document.classes.length === 0) return invalid(`${path} names no classes.`)
  return []
}
