import { invalid } from '../../../platform/errors.ts'
import type { Descriptor, ImageBuildRequest } from '../image-builder.ts'
import { imageUser } from './base-layer.ts'
import type { Layer } from './layer-blob.ts'

export const manifestMediaType = 'application/vnd.oci.image.manifest.v1+json'
export const configMediaType = 'application/vnd.oci.image.config.v1+json'

const architectures: Record<string, string> = { x64: 'amd64', arm64: 'arm64' }

/**
 * The image configuration: how the model server starts, as whom, and what the image is. The model's folder is not
 * named: the server looks for it beside itself, so the image also runs unpacked, below any folder.
 * @source OCI Image Specification 1.1 "Image Configuration", "Annotations"
 */
export function imageConfig(
  request: ImageBuildRequest,
  settings: string[],
  layers: { layer: Layer; title: string }[],
): Buffer {
  const { model } = request
  const created = model.createdAt.toISOString()
  return jsonBytes({
    created,
    architecture: architectures[process.arch] ?? process.arch,
    os: 'linux',
    config: {
      User: `${imageUser}:${imageUser}`,
      ExposedPorts: { '8080/tcp': {} },
      Env: [
        'PATH=/usr/bin',
        'HOST=0.0.0.0',
        'PORT=8080',
        `MODEL_NAME=${model.name}`,
        `MODEL_VERSION=${model.version}`,
        ...settings,
      ],
      Entrypoint: ['/usr/bin/node', '/srv/model-server/src/main.ts'],
      WorkingDir: '/srv',
      Labels: sorted({ ...request.labels, ...platformLabels(request, created) }),
    },
    rootfs: { type: 'layers', diff_ids: layers.map(({ layer }) => layer.diffId) },
    history: layers.map(({ title }) => ({ created, created_by: title })),
  })
}

/** The manifest that ties configuration and layers together. @source OCI Image Specification 1.1 "Image Manifest" */
export function imageManifest(config: Descriptor, layers: Layer[]): Buffer {
  return jsonBytes({
    schemaVersion: 2,
    mediaType: manifestMediaType,
    config,
    layers: layers.map(({ mediaType, digest, size }) => ({ mediaType, digest, size })),
  })
}

/** What a builder variant may set: whole numbers that the model server reads from its environment. */
const serverSettingNames = new Set([
  'BATCH_WAIT_MS',
  'MAX_BATCH',
  'MAX_BODY_BYTES',
  'MAX_IMAGE_PIXELS',
  'MAX_INSTANCES',
  'MAX_PENDING_IMAGES',
  'SHUTDOWN_GRACE_MS',
  'WORKERS',
])

/**
 * Build arguments become settings of the model server. No other variable is taken: a NODE_OPTIONS or LD_PRELOAD would
 * let whoever writes a variant run code of their own in the serving process.
 * @returns `NAME=value` in order
 */
export function serverSettings(buildArgs: Record<string, unknown>): string[] {
  const faults = Object.entries(buildArgs).flatMap(([name, value]) => {
    const known = serverSettingNames.has(name)
    if (known && /^\d{1,15}$/.test(String(value))) return []
    const msg = known ? 'must be a whole number' : `is none of ${[...serverSettingNames].join(', ')}`
    return [{ loc: ['build_args', name], msg, type: 'value_error' }]
  })
  if (faults.length > 0) throw invalid(faults)
  const settings = Object.entries(buildArgs).map(([name, value]) => `${name}=${value}`)
  return settings.sort()
}

function platformLabels({ model, variant }: ImageBuildRequest, created: string): Record<string, string> {
  return {
    'org.opencontainers.image.created': created,
    'org.opencontainers.image.title': model.name,
    'org.opencontainers.image.version': model.version,
    'org.opencontainers.image.description': `Serving image of model ${model.name}, version ${model.version}`,
    'io.platform-mlops.tenant': model.tenant,
    'io.platform-mlops.model': model.name,
    'io.platform-mlops.model-version': model.version,
    ...(variant ? { 'io.platform-mlops.builder': variant.tag } : {}),
  }
}

function sorted(record: Record<string, string>): Record<string, string> {
  return Object.fromEntries(Object.entries(record).sort(([a], [b]) => (a < b ? -1 : 1)))
}

const jsonBytes = (value: unknown) => Buffer.from(JSON.stringify(value))
