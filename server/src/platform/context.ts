import type { BlobStore } from './blobs/blob-store.ts'
import type { Clock } from './clock.ts'
import type { Config } from './config.ts'
import type { Database } from './db/database.ts'
import type { Scope } from './db/transaction.ts'
import type { EventHub } from './events/events.ts'
import type { Permission } from './http/permissions.ts'
import type { Log } from './log.ts'
import type { SecretBox } from './secrets.ts'

/** The ports of the outside world; each adapter folder adds its own member. */
// biome-ignore lint/suspicious/noEmptyInterface: members come by declaration merging, so the platform knows no adapter
export interface Adapters {}

/** What the process has once, handed to every use case. */
export interface Services {
  config: Config
  /** Address the server is reached at, without a slash at the end. */
  publicUrl: string
  db: Database
  blobs: BlobStore
  secrets: SecretBox
  events: EventHub
  clock: Clock
  log: Log
  adapters: Adapters
}

/** Who acts. A run acts for the person who started it. */
export interface Actor {
  userId: string
  email: string
  fullName: string | null
  isSuperuser: boolean
  /** The login this request came with; null for work in the background. */
  sessionId: string | null
}

export interface TenantRef {
  id: string
  code: string
  /** What the tenant has switched on or off; known where a request has chosen the tenant. */
  features?: Readonly<Record<string, boolean>>
}

/** One audit row in the making; the first write transaction of the use case takes it along. @source contract B12.8 */
export interface AuditNote {
  action: string
  ip: string | null
  target?: string
  detail?: unknown
  written: boolean
}

interface Base extends Services {
  requestId: string
  audit: AuditNote | null
}

/** Nobody is signed in. */
export interface AnonymousCtx extends Base {
  kind: 'anonymous'
  scope: 'system'
  ip: string
}

/** Somebody is signed in; no tenant is chosen. */
export interface UserCtx extends Base {
  kind: 'user'
  scope: 'system'
  actor: Actor
  ip: string
}

/** The platform itself, or a global administrator: sees every tenant. */
export interface SystemCtx extends Base {
  kind: 'system'
  scope: 'system'
  actor: Actor | null
}

/** Somebody (or a run) acts inside one tenant; the database shows nothing else. */
export interface TenantCtx extends Base {
  kind: 'tenant'
  scope: Extract<Scope, object>
  tenant: TenantRef
  actor: Actor
  permissions: ReadonlySet<Permission>
}

export type Ctx = AnonymousCtx | UserCtx | SystemCtx | TenantCtx
