import type { ImageRow } from './images.store.ts'

/** `host` is the registry's, as clients reach it. */
export const imageView = (image: ImageRow, host: string) => ({
  id: image.id,
  model_name: image.modelName,
  model_version: String(image.modelVersion),
  builder_tag: image.builderTag,
  state: image.state,
  progress: image.progress,
  repository: image.repository,
  tag: image.tag,
  digest: image.digest,
  reference: referenceOf(image, host),
  size_bytes: image.sizeBytes,
  error: image.error && { message: image.error.message, step: image.error.step },
  run_id: image.runId,
  created_by: image.createdBy,
  created_at: image.createdAt.toISOString(),
  ended_at: image.endedAt?.toISOString() ?? null,
})

export const referenceOf = ({ repository, tag, digest }: ImageRow, host: string): string | null =>
  digest && `${host}/${repository}:${tag}@${digest}`

interface RunRow {
  id: string
  state: string
  startedAt: Date | null
  endedAt: Date | null
  error: unknown
}

export const buildRunView = (run: RunRow, image: ImageRow, host: string) => ({
  run_id: run.id,
  state: run.state,
  started_at: run.startedAt?.toISOString() ?? null,
  ended_at: run.endedAt?.toISOString() ?? null,
  image_ref: run.state === 'succeeded' ? referenceOf(image, host) : null,
  error: (run.error as { message?: string } | null)?.message ?? null,
})
