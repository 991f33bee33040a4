import { Type } from 'typebox'
import { anyObject, bytes, must, named, nullable, pageOf, timestamp } from '../../platform/schema.ts'

const digest = (description: string) =>
  Type.String({ ...must('^sha(256:[0-9a-f]{64}|512:[0-9a-f]{128})$', 'be a sha256 or sha512 digest'), description })
const mediaType = Type.String({ description: 'Media type.' })

export const Repository = named('RegistryRepository', {
  name: Type.String({ description: 'Whole name, the tenant first, as clients write it after the host.' }),
  address: Type.String({ description: 'Host and name: what docker pull takes, with a tag behind it.' }),
  tags: Type.Integer({ minimum: 0, description: 'Number of tags.' }),
  manifests: Type.Integer({ minimum: 0, description: 'Number of manifests, tagged or not.' }),
  size_bytes: bytes('Manifests and blobs, each once.'),
  pull_count: Type.Integer({ minimum: 0, description: 'Manifests handed out, up to a few seconds ago.' }),
  last_pulled_at: nullable(timestamp('Last pull; null when there was none.')),
  created_at: timestamp('First upload.'),
  updated_at: timestamp('Last push.'),
})
export const RepositoryPage = pageOf(Repository)

export const RegistryTag = named('RegistryTag', {
  name: Type.String({ description: 'Tag.' }),
  digest: digest('Manifest the tag points at.'),
  media_type: mediaType,
  kind: Type.Unsafe<'image' | 'index'>({
    type: 'string',
    enum: ['image', 'index'],
    description: 'One image, or a list of images for several platforms.',
  }),
  size_bytes: bytes('Manifest, configuration and layers.'),
  reference: Type.String({ description: 'What docker pull takes: host, name, tag and digest.' }),
  created_at: timestamp('When the manifest came.'),
  updated_at: timestamp('When the tag was last set.'),
})
export const RegistryTagPage = pageOf(RegistryTag)

const Descriptor = named('RegistryDescriptor', {
  media_type: mediaType,
  digest: digest('Digest of the content.'),
  size_bytes: bytes('Length.'),
})

export const RegistryManifest = named('RegistryManifest', {
  repository: Type.String({ description: 'Whole name of the repository.' }),
  digest: digest('Digest of the manifest.'),
  reference: Type.String({ description: 'What docker pull takes: host, name and digest.' }),
  media_type: mediaType,
  kind: Type.Unsafe<'image' | 'index'>({ type: 'string', enum: ['image', 'index'], description: 'Image or index.' }),
  size_bytes: bytes('Manifest alone.'),
  total_size_bytes: bytes('Manifest, configuration and layers.'),
  tags: Type.Array(Type.String(), { description: 'Tags that point at it.' }),
  config: nullable(Descriptor),
  image_config: nullable(
    anyObject('The image configuration itself: platform, environment, entry point, labels, history; null for others.'),
  ),
  layers: Type.Array(Descriptor, { description: 'Lowest first.' }),
  manifests: Type.Array(Descriptor, { description: 'Manifests of an index.' }),
  subject: nullable(digest('Manifest this one is about.')),
  artifact_type: nullable(Type.String({ description: 'Type of an artifact.' })),
  annotations: Type.Record(Type.String(), Type.String(), { description: 'Annotations of the manifest.' }),
  in_use_by: Type.Array(
    named('RegistryHold', {
      holder: Type.String({ description: 'image:<id> or endpoint:<name>.' }),
      reason: Type.String({ description: 'Why it is needed.' }),
    }),
    { description: 'Who needs it; as long as there is anybody it can’t be deleted.' },
  ),
  created_at: timestamp('When it came.'),
})

export const TagDeleted = named('RegistryTagDeleted', {
  repository: Type.String({ description: 'Whole name of the repository.' }),
  tag: Type.String({ description: 'Tag that is gone.' }),
  digest: digest('Manifest it pointed at, which stays.'),
})

export const RepositoryDeleted = named('RegistryRepositoryDeleted', {
  repository: Type.String({ description: 'Whole name of the repository that is gone.' }),
  tags: Type.Integer({ minimum: 0, description: 'Tags that went with it.' }),
  manifests: Type.Integer({ minimum: 0, description: 'Manifests that went with it.' }),
  size_bytes: bytes('What it held; room is made by the next sweep.'),
})
