/**
 * The port of external sources: places outside of the platform that files are read from. A driver per kind lists
 * objects and opens them; what becomes of them is the business of the feature. Sources are not trusted: they stall,
 * lie, change while they are read and point elsewhere.
 * @source house.md §1 (adapters/external-sources), contract PR-22 to PR-31
 */
export interface ExternalSources {
  /** Throws `SourceError` for an address that would always be refused; asks the source itself nothing. */
  vet(address: SourceAddress): Promise<void>
  /** Reads nothing yet. */
  open(address: SourceAddress): ExternalSource
}

export const sourceKinds = ['s3', 'http', 'directory'] as const
export type SourceKind = (typeof sourceKinds)[number]

export type SourceAddress =
  | { kind: 's3'; config: S3Config; credentials: S3Credentials | null }
  | { kind: 'http'; config: HttpConfig; credentials: HttpCredentials | null }
  | { kind: 'directory'; config: DirectoryConfig; credentials: null }

export interface S3Config {
  bucket: string
  /** Address of the service; Amazon's own when absent. */
  endpoint?: string | null
  region?: string | null
  /** Folder within the bucket. */
  prefix?: string | null
  /** Whether the bucket stands in the path; so by default where there is an endpoint. */
  path_style?: boolean | null
}

export interface S3Credentials {
  access_key_id: string
  secret_access_key: string
  session_token?: string | null
}

export interface HttpConfig {
  /** Of a manifest in JSON, or of a folder page with links. */
  url: string
}

export type HttpCredentials = { username: string; password: string } | { token: string }

export interface DirectoryConfig {
  /** Absolute, below a folder that the operator allowed. */
  path: string
}

/** One object as the source lists it. */
export interface SourceObject {
  /** What `open` finds it by. */
  key: string
  /** Its path below the prefix, with slashes, as the source spells it: not yet fit to be a path of ours. */
  name: string
  /** In bytes; null when the source does not say. */
  size: number | null
  /**
   * Changes with the content; null when only opening tells. One that begins with `sha256:` is the digest of the
   * content, which then must have it.
   */
  version: string | null
}

/** An object, or why something there is none. */
export type Listed =
  | SourceObject
  | {
      /** What was left out. */
      name: string
      skipped: string
      /** Whether objects may be behind it, so that nobody knows whether they are still there. */
      incomplete: boolean
    }

export interface OpenedObject {
  content: AsyncIterable<Uint8Array>
  /** How long the content must be; null when the source does not say. */
  size: number | null
  /** Of exactly this content; null when the source has none. */
  version: string | null
}

export interface ExternalSource {
  /** Everything below the folder, in any order; at once or in pages, never all in memory where that can be avoided. */
  list(prefix: string, signal: AbortSignal): AsyncIterable<Listed>
  /** Null when the object still has the version `known`. Throws `SourceError`. */
  read(object: Omit<SourceObject, 'name'>, known: string | null, signal: AbortSignal): Promise<OpenedObject | null>
  /** Lets go of its connections. */
  close(): void
}

/**
 * `unreachable`: no answer or a failing one, worth another try; `denied`: it refuses us, or we refuse its address;
 * `missing`: there is no such thing; `changed`: the content was not what it was said to be; `invalid`: not a source.
 */
export type SourceFault = 'unreachable' | 'denied' | 'missing' | 'changed' | 'invalid'

/** What went wrong at a source, in words for the people who own it; holds no secret. */
export class SourceError extends Error {
  readonly fault: SourceFault
  constructor(fault: SourceFault, message: string, cause?: unknown) {
    super(message, { cause })
    this.name = 'SourceError'
    this.fault = fault
  }
}

/** What all drivers need to know of this installation. */
export interface SourceSettings {
  dataDir: string
  sourceFolders: string[]
  sourceAllowedHosts: string[]
  sourceSilenceSeconds: number
}

declare module '../../platform/context.ts' {
  interface Adapters {
    externalSources: ExternalSources
  }
}
