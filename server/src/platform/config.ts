import { resolve } from 'node:path'

interface Setting<T> {
  name: string
  description: string
  fallback: T
  /** What stands in the generated page as the default. */
  shown: string
  secret?: boolean
  parse(text: string): T
}

/** A fault in a setting: what it is called, and what would be right. */
class SettingFault extends Error {}

const fault = (text: string): never => {
  throw new SettingFault(text)
}

function text<T extends string | null>(name: string, fallback: T, description: string, options: TextOptions = {}) {
  const parse = (value: string): string => {
    if (options.choices && !options.choices.includes(value)) fault(`must be one of ${options.choices.join(', ')}`)
    if (options.pattern && !options.pattern.test(value)) fault(options.expected ?? `must match ${options.pattern}`)
    return value
  }
  const shown = options.shown ?? fallback ?? ''
  return { name, description, fallback, shown, secret: options.secret, parse } as Setting<string | T>
}

interface TextOptions {
  choices?: readonly string[]
  pattern?: RegExp
  expected?: string
  secret?: boolean
  shown?: string
}

function integer(name: string, fallback: number, range: [min: number, max: number], description: string) {
  const parse = (value: string): number => {
    const number = /^-?\d+$/.test(value) ? Number(value) : Number.NaN
    if (!(number >= range[0] && number <= range[1])) fault(`must be a whole number from ${range[0]} to ${range[1]}`)
    return number
  }
  return { name, description, fallback, shown: String(fallback), parse } satisfies Setting<number>
}

function list(name: string, separator: string, description: string, options: { pattern: RegExp; expected: string }) {
  const parse = (value: string): string[] => {
    const items = value.split(separator).map((item) => item.trim())
    for (const item of items) if (!options.pattern.test(item)) fault(options.expected)
    return items
  }
  return { name, description, fallback: [] as string[], shown: '', parse } satisfies Setting<string[]>
}

function flag(name: string, fallback: boolean, description: string): Setting<boolean> {
  const parse = (value: string): boolean =>
    /^(1|true|yes|on)$/i.test(value) || (/^(0|false|no|off)$/i.test(value) ? false : fault('must be true or false'))
  return { name, description, fallback, shown: String(fallback), parse }
}

const prefix = 'PLATFORM_MLOPS_'
const email = /^[^\s@]{1,64}@[^\s@]{1,255}$/

/** Every setting of the server, in the order of the generated page. @source service §5, house §2 */
export const settings = {
  host: text('HOST', '127.0.0.1', 'Address the server listens on. Beyond loopback put a TLS proxy before it.'),
  port: integer('PORT', 8080, [0, 65_535], 'TCP port of the server; 0 takes any free one.'),
  publicUrl: text(
    'PUBLIC_URL',
    null,
    'Address people and clients reach the server at; goes into links and image names.',
    {
      pattern: /^https?:\/\/[^\s/]+(\/[^\s]*)?$/,
      expected: 'must be an http:// or https:// address',
      shown: 'http://HOST:PORT',
    },
  ),
  dataDir: text('DATA_DIR', './data', 'Folder that holds everything: database, blobs, logs, secrets.'),
  databaseUrl: text('DATABASE_URL', null, 'PostgreSQL 15 or newer to use instead of the embedded one.', {
    pattern: /^postgres(ql)?:\/\//,
    expected: 'must begin with postgres:// or postgresql://',
    secret: true,
    shown: 'embedded PostgreSQL 18',
  }),
  databasePoolSize: integer('DATABASE_POOL_SIZE', 16, [2, 200], 'Most connections this process opens to the database.'),
  roles: text('ROLES', 'web,worker', 'What this process does: web answers requests, worker runs jobs.', {
    choices: ['web,worker', 'worker,web', 'both', 'web', 'worker'],
  }),
  adminEmail: text('ADMIN_EMAIL', 'admin@example.com', 'E-mail of the administrator made at the first start.', {
    pattern: email,
    expected: 'must be an e-mail address',
  }),
  adminPassword: text('ADMIN_PASSWORD', null, 'Password of that administrator (8 to 128 characters).', {
    pattern: /^.{8,128}$/s,
    expected: 'must have 8 to 128 characters',
    secret: true,
    shown: 'generated and printed once',
  }),
  authTokenLifetime: integer('AUTH_TOKEN_LIFETIME', 0, [0, 315_360_000], 'Seconds a login lasts; 0 means no expiry.'),
  cookieSecure: text('COOKIE_SECURE', 'auto', 'Secure attribute of the login cookie; auto follows PUBLIC_URL.', {
    choices: ['auto', 'true', 'false'],
  }),
  trustProxy: flag(
    'TRUST_PROXY',
    false,
    'Take the client address from X-Forwarded-For. Only behind a proxy that sets it.',
  ),
  logLevel: text('LOG_LEVEL', 'info', 'Least severe level that is logged.', {
    choices: ['trace', 'debug', 'info', 'warn', 'error', 'silent'],
  }),
  smtpUrl: text('SMTP_URL', null, 'Mail server for notifications: smtp://user:password@host:587 or smtps://…', {
    pattern: /^smtps?:\/\/[^\s/]+/,
    expected: 'must begin with smtp:// or smtps:// and name a host',
    secret: true,
    shown: 'no e-mail',
  }),
  mailFrom: text('MAIL_FROM', 'Model Operations Platform <platform@localhost>', 'Sender of the e-mails.'),
  oidcIssuer: text('OIDC_ISSUER', null, 'Identity provider for single sign-on with OpenID Connect, beside passwords.', {
    pattern: /^https:\/\/|^http:\/\/(127\.0\.0\.1|localhost|\[::1\])[:/]/,
    expected: 'must be an https:// address (http:// on loopback only)',
    shown: 'no single sign-on',
  }),
  oidcClientId: text('OIDC_CLIENT_ID', 'platform-mlops', 'Our name at the identity provider.'),
  oidcClientSecret: text('OIDC_CLIENT_SECRET', null, 'Our secret there; none for a public client.', { secret: true }),
  oidcScopes: text('OIDC_SCOPES', 'openid email profile', 'Scopes to ask for, separated by spaces.'),
  oidcGroupsClaim: text('OIDC_GROUPS_CLAIM', 'groups', 'Claim that lists the groups of a person.'),
  oidcGroupRoles: text(
    'OIDC_GROUP_ROLES',
    '',
    'What groups give, separated by semicolons: `group=tenant:ROLE`, or `group=*` for global administrators.',
    {
      pattern: /^[^;=]+=(\*|[a-z0-9-]+:[A-Z]+)(;[^;=]+=(\*|[a-z0-9-]+:[A-Z]+))*;?$/,
      expected: 'must be like group=tenant:ROLE;admins=*',
    },
  ),
  oidcTrustAddresses: flag(
    'OIDC_TRUST_ADDRESSES',
    false,
    'Take e-mail addresses of the identity provider as verified though it does not say so.',
  ),
  maxUploadBytes: integer(
    'MAX_UPLOAD_BYTES',
    1_099_511_627_776,
    [1, Number.MAX_SAFE_INTEGER],
    'Largest single upload in bytes (default 1 TiB).',
  ),
  datasetQuotaBytes: integer(
    'DATASET_QUOTA_BYTES',
    1_099_511_627_776,
    [1, Number.MAX_SAFE_INTEGER],
    'Largest total of the files of one dataset in bytes (default 1 TiB).',
  ),
  secretKey: text(
    'SECRET_KEY',
    null,
    'Key that secrets of tenants are sealed with in the database; 64 hexadecimal digits. Keep it with the backups.',
    {
      pattern: /^[0-9a-f]{64}$/i,
      expected: 'must be 64 hexadecimal digits, such as `openssl rand -hex 32` makes',
      secret: true,
      shown: 'made once, in DATA_DIR/secrets/secrets.key',
    },
  ),
  sourceFolders: list(
    'SOURCE_FOLDERS',
    ':',
    'Folders of this machine that tenants may sync datasets from, absolute, separated by colons; none when empty. ' +
      'Every tenant may read what is below them.',
    { pattern: /^\/[^\0]*$/, expected: 'must be absolute folders separated by colons' },
  ),
  sourceAllowedHosts: list(
    'SOURCE_ALLOWED_HOSTS',
    ',',
    'Hosts that external sources may be on although they are loopback, link-local or this machine; ' +
      'names or addresses as the sources name them, separated by commas.',
    { pattern: /^[a-z0-9.:_-]+$/i, expected: 'must be host names or addresses separated by commas' },
  ),
  sourceSilenceSeconds: integer(
    'SOURCE_SILENCE_SECONDS',
    60,
    [1, 3600],
    'Seconds without a byte after which a read from an external source is given up and tried again.',
  ),
  trainerPython: text('TRAINER_PYTHON', null, 'Python interpreter with PyTorch for training.', {
    shown: 'found or installed',
  }),
  trainerThreads: integer('TRAINER_THREADS', 0, [0, 1024], 'CPU threads of one training; 0 takes every core.'),
  trainingSlots: integer('TRAINING_SLOTS', 1, [1, 256], 'Trainings that run at the same time on this machine.'),
  trainingMemoryBytes: integer(
    'TRAINING_MEMORY_BYTES',
    0,
    [0, Number.MAX_SAFE_INTEGER],
    'Memory limit of one training in bytes; 0 sets none.',
  ),
  servingMemoryBytes: integer(
    'SERVING_MEMORY_BYTES',
    4_294_967_296,
    [0, Number.MAX_SAFE_INTEGER],
    'Memory limit of one serving replica in bytes (default 4 GiB); 0 sets none.',
  ),
} as const

type Parsed = {
  [K in keyof typeof settings]: ReturnType<(typeof settings)[K]['parse']> | (typeof settings)[K]['fallback']
}

export interface Config extends Omit<Parsed, 'roles' | 'cookieSecure' | 'dataDir'> {
  /** Absolute. */
  dataDir: string
  roles: ReadonlySet<'web' | 'worker'>
  cookieSecure: boolean
}

/** Names that clients of ours read from the same environment; they are no settings of the server. */
const clientNames = new Set(['URL', 'TENANT', 'TOKEN'].map((name) => prefix + name))

/** Every fault of the configuration in one message, a line each. */
export class ConfigurationError extends Error {
  readonly faults: string[]
  constructor(faults: string[]) {
    super(
      `The configuration has ${faults.length === 1 ? 'a fault' : `${faults.length} faults`}:\n- ${faults.join('\n- ')}`,
    )
    this.faults = faults
  }
}

/**
 * Reads the settings from environment variables `PLATFORM_MLOPS_*`; empty means absent.
 * Throws `ConfigurationError` with every fault at once, unknown names included.
 */
export function loadConfig(env: Record<string, string | undefined>): Config {
  const faults: string[] = []
  const values: Record<string, unknown> = {}
  const known = new Set<string>(clientNames)
  for (const [key, setting] of Object.entries(settings) as [string, Setting<unknown>][]) {
    const name = prefix + setting.name
    known.add(name)
    const value = env[name]?.trim()
    try {
      values[key] = value ? setting.parse(value) : setting.fallback
    } catch (error) {
      if (!(error instanceof SettingFault)) throw error
      faults.push(`${name} ${error.message}${setting.secret ? '' : ` (it is '${value}')`}`)
    }
  }
  for (const name of Object.keys(env)) {
    if (name.startsWith(prefix) && !known.has(name)) faults.push(`${name} is not a setting; see docs/configuration.md`)
  }
  if (faults.length) throw new ConfigurationError(faults)
  return derive(values as Parsed)
}

function derive(parsed: Parsed): Config {
  const roles = parsed.roles === 'both' ? 'web,worker' : parsed.roles
  const https = parsed.publicUrl?.startsWith('https:') ?? false
  return {
    ...parsed,
    dataDir: resolve(parsed.dataDir),
    publicUrl: parsed.publicUrl?.replace(/\/+$/, '') ?? null,
    roles: new Set(roles.split(',') as ('web' | 'worker')[]),
    cookieSecure: parsed.cookieSecure === 'auto' ? https : parsed.cookieSecure === 'true',
  }
}

/** The configuration of this process; the one place that reads the environment. */
export function processConfig(): Config {
  return loadConfig(process.env)
}

/** docs/configuration.md, from the table above. */
export function configurationPage(): string {
  const rows = Object.values(settings).map(
    (s) => `| \`${prefix}${s.name}\` | ${s.shown === '' ? '' : `\`${s.shown}\``} | ${s.description} |`,
  )
  return [
    '# Configuration',
    '',
    'Environment variables of the server. Every fault is reported at once, at the start. Generated: `npm run generate`.',
    '',
    '| Variable | Default | Meaning |',
    '|---|---|---|',
    ...rows,
    '',
  ].join('\n')
}

/** What programs of this machine (Python, pip, apt) find in their environment: not our settings, which hold secrets. */
export const machineEnvironment = (): NodeJS.ProcessEnv =>
  Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith(prefix)))
