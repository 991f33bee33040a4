import type { Config } from '../../platform/config.ts'

export interface Finding {
  key: string
  severity: 'critical' | 'warning' | 'info'
  message: string
  remedy: string
}

/** What the configuration does not say. */
export interface Surroundings {
  publicUrl: string
  /** Mode bits of the data folder. */
  dataFolderMode: number
  administrators: number
  /** Since when a backup holds everything; null when none was ever noted. */
  lastBackupAt: Date | null
  now: Date
}

const backupAgeMaxMs = 7 * 86_400_000

type Rule = Finding & { applies(config: Config, surroundings: Surroundings): boolean }

const guessable =
  /^(password|admin|administrator|changeme|change-me|secret|letmein|welcome|qwerty|default)\W?\d*$|^(.)\2+$|^12345/i
const isLoopback = (host: string): boolean => /^(127\.|localhost$|\[?::1\]?$)/.test(host)

const backupRemedy =
  'Run `npm run backup -- FOLDER` regularly and keep the files elsewhere; with a database server of your own, ' +
  'back that up and say so with `npm run backup -- --taken`.'

/** Each rule looks at one thing; severity orders the findings. @source contract SY-01 */
const rules: Rule[] = [
  {
    key: 'weak_admin_password',
    severity: 'critical',
    message: 'The password of the first administrator is easy to guess.',
    remedy: 'Change it under /users/me/password and take PLATFORM_MLOPS_ADMIN_PASSWORD out of the environment.',
    applies: ({ adminPassword }) =>
      adminPassword !== null && (adminPassword.length < 10 || guessable.test(adminPassword)),
  },
  {
    key: 'plain_http',
    severity: 'critical',
    message: 'The server can be reached beyond this machine, and passwords and tokens travel in clear text.',
    remedy: 'Put a TLS proxy before it and set PLATFORM_MLOPS_PUBLIC_URL to its https:// address.',
    applies: ({ host }, { publicUrl }) =>
      !publicUrl.startsWith('https:') && (!isLoopback(host) || !isLoopback(new URL(publicUrl).hostname)),
  },
  {
    key: 'open_data_folder',
    severity: 'critical',
    message: 'Other accounts of this machine can read the data folder, secrets among it.',
    remedy: 'chmod 700 the data folder.',
    applies: (_config, { dataFolderMode }) => (dataFolderMode & 0o077) !== 0,
  },
  {
    key: 'embedded_database_shared',
    severity: 'critical',
    message: 'This process has one role only, so there are others; the embedded database serves but one machine.',
    remedy: 'Set PLATFORM_MLOPS_DATABASE_URL to a PostgreSQL server that all of them reach.',
    applies: ({ databaseUrl, roles }) => databaseUrl === null && roles.size < 2,
  },
  {
    key: 'no_backup',
    severity: 'critical',
    message: 'No backup of this installation was ever taken; when the disk is lost, everything is.',
    remedy: backupRemedy,
    applies: (_config, { lastBackupAt }) => lastBackupAt === null,
  },
  {
    key: 'old_backup',
    severity: 'warning',
    message: 'The last backup is more than a week old.',
    remedy: backupRemedy,
    applies: (_config, { lastBackupAt, now }) =>
      lastBackupAt !== null && now.getTime() - lastBackupAt.getTime() > backupAgeMaxMs,
  },
  {
    key: 'insecure_cookie',
    severity: 'warning',
    message: 'The login cookie is also sent over plain http although people come by https.',
    remedy: 'Take PLATFORM_MLOPS_COOKIE_SECURE=false out of the environment.',
    applies: ({ cookieSecure }, { publicUrl }) => publicUrl.startsWith('https:') && !cookieSecure,
  },
  {
    key: 'endless_sessions',
    severity: 'warning',
    message: 'A login never expires; a stolen token works until somebody logs out.',
    remedy: 'Set PLATFORM_MLOPS_AUTH_TOKEN_LIFETIME, to 43200 (12 hours) for example.',
    applies: ({ authTokenLifetime }) => authTokenLifetime === 0,
  },
  {
    key: 'admin_password_in_environment',
    severity: 'warning',
    message: 'The password of the first administrator is in the environment, where processes and logs may show it.',
    remedy: 'Take PLATFORM_MLOPS_ADMIN_PASSWORD out: it is used at the first start alone.',
    applies: ({ adminPassword }) => adminPassword !== null,
  },
  {
    key: 'trusted_proxy_exposed',
    severity: 'warning',
    message:
      'X-Forwarded-For is believed, and the server listens beyond loopback: whoever reaches it may forge addresses.',
    remedy: 'Listen on loopback behind the proxy, or see to it that only the proxy reaches the port.',
    applies: ({ trustProxy, host }) => trustProxy && !isLoopback(host),
  },
  {
    key: 'single_administrator',
    severity: 'info',
    message: 'There is one global administrator; when that password is lost, nobody can help.',
    remedy: 'Make a second person a global administrator.',
    applies: (_config, { administrators }) => administrators < 2,
  },
  {
    key: 'no_mail',
    severity: 'info',
    message: 'No mail server is configured: people learn of alerts and approvals only when they look.',
    remedy: 'Set PLATFORM_MLOPS_SMTP_URL.',
    applies: ({ smtpUrl }) => smtpUrl === null,
  },
]

const order = ['critical', 'warning', 'info']

/** What is unsafe or unwise, worst first. */
export function hygieneFindings(config: Config, surroundings: Surroundings): Finding[] {
  return rules
    .filter((rule) => rule.applies(config, surroundings))
    .sort((a, b) => order.indexOf(a.severity) - order.indexOf(b.severity))
    .map(({ key, severity, message, remedy }) => ({ key, severity, message, remedy }))
}
