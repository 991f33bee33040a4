/**
 * The image builder port: turns a model version into an OCI image whose blobs lie in the platform's own store.
 * The built-in driver assembles layers without a daemon; a driver for BuildKit or buildah lays the same files out as
 * a build context and takes the finished OCI layout into the store. Tags and repositories are the registry's business.
 * @source house.md §1 (adapters/image-builder), service.md "Images"
 */
export interface ImageBuilder {
  /** `layers`, `buildah`, `buildkit`. */
  readonly driver: string
  /**
   * Builds and stores the image; equal requests give the same manifest digest. Stopped by its signal, it leaves
   * nothing behind but cached layers. Blobs nobody refers to yet must outlive the build: sweep by age, not at once.
   */
  build(request: ImageBuildRequest): Promise<BuiltImage>
  /** Throws when no image can be built here, with the reason; for health and the pre-build diagnostics. */
  check(): Promise<void>
}

/** One file of the model folder, already in the blob store. */
export interface ModelFile {
  /** Relative to the model folder, with `/`: `model.onnx`, `preprocessing/labels.json`. */
  path: string
  digest: string
  /** Length in bytes. */
  size: number
}

export interface ImageBuildRequest {
  model: {
    tenant: string
    name: string
    version: string
    /** When the version was registered; the image bears this date, so that building again changes nothing. */
    createdAt: Date
    files: ModelFile[]
  }
  /** Further labels; the platform's own (`io.platform-mlops.*`, `org.opencontainers.image.*`) win over them. */
  labels?: Record<string, string>
  /** The serving builder variant that was chosen; each driver says which arguments it knows and refuses others. */
  variant?: { tag: string; buildArgs: Record<string, unknown> }
  signal?: AbortSignal
  /** Told of a share from 0 to 1 and what is happening; never falls. */
  progress?: (share: number, message: string) => void
  /** One line of the build log, without its line break. */
  log?: (line: string) => void
}

/** An OCI content descriptor. @source OCI Image Specification 1.1 "descriptor" */
export interface Descriptor {
  mediaType: string
  digest: string
  /** Length in bytes. */
  size: number
}

export interface BuiltImage {
  manifest: Descriptor
  config: Descriptor
  /** Lowest first. */
  layers: Descriptor[]
  /** What a client pulls in all: manifest, config and layers, in bytes. */
  sizeBytes: number
}

declare module '../../platform/context.ts' {
  interface Adapters {
    imageBuilder: ImageBuilder
  }
}
