import { type SpawnOptions, spawn } from 'node:child_process'
import { once } from 'node:events'
import { userInfo } from 'node:os'

/** The user that PostgreSQL runs as when we are root, which it refuses to be: `nobody` on every common Linux. */
const nobodyId = 65534

/** A program and how to start it. */
export interface Command {
  file: string
  args: string[]
  options: SpawnOptions
}

/** Under which account the PostgreSQL programs run, and how a command line says so. */
export interface PostgresAccount {
  kind: 'own' | 'user-namespace' | 'nobody'
  /** Owner that the cluster's files need, when it is not the present user. */
  owner?: { uid: number; gid: number }
  command(file: string, args: string[]): Command
}

// Nothing of the caller's environment goes to PostgreSQL: PGDATA, PGPORT, LC_* and their kin would change what it does.
const environment = { PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', LC_ALL: 'C', TZ: 'UTC' }

// A session of its own keeps Ctrl-C in a terminal from stopping the database under the server that is still closing.
const spawnOptions: SpawnOptions = { detached: true, stdio: ['ignore', 'pipe', 'pipe'], env: environment }

/** Exit code 0 of a command, all output ignored. */
export async function succeeds({ file, args, options }: Command): Promise<boolean> {
  const child = spawn(file, args, { ...options, stdio: 'ignore' })
  const [code] = await once(child, 'exit').catch(() => [null])
  return code === 0
}

const plain = (file: string, args: string[]): Command => ({ file, args, options: spawnOptions })

/** With `setpriv`, the kernel sends SIGINT (fast shutdown) to PostgreSQL when this process dies, however it dies. */
async function deathSignalPrefix(): Promise<string[]> {
  return (await succeeds(plain('setpriv', ['--pdeathsig', 'INT', 'true']))) ? ['setpriv', '--pdeathsig', 'INT'] : []
}

function prefixed(prefix: string[], extra: SpawnOptions = {}) {
  return (file: string, args: string[]): Command => {
    const [first = file, ...rest] = [...prefix, file, ...args]
    return { file: first, args: rest, options: { ...spawnOptions, ...extra } }
  }
}

/** `initdb` refuses a user without an entry in the user database, as containers with arbitrary user ids have. */
function hasName(): boolean {
  try {
    return userInfo().username !== ''
  } catch {
    return false
  }
}

/**
 * Chooses the account: ourselves; as root, or as a user without a name, a user namespace, in which files stay ours and
 * a 0700 home stays reachable; as root without user namespaces (many containers) the account `nobody`.
 */
export async function choosePostgresAccount(): Promise<PostgresAccount> {
  const prefix = await deathSignalPrefix()
  const isRoot = process.getuid?.() === 0
  if (!isRoot && hasName()) return { kind: 'own', command: prefixed(prefix) }
  const mapping = ['--user', `--map-user=${nobodyId}`, `--map-group=${nobodyId}`]
  if (await succeeds(plain('unshare', [...mapping, 'id', '-u']))) {
    return { kind: 'user-namespace', command: prefixed(['unshare', ...mapping, ...prefix]) }
  }
  return isRoot ? nobodyAccount(prefix) : { kind: 'own', command: prefixed(prefix) }
}

/** The last resort as root: a real change of user, for which the files must be owned by that user. */
export function nobodyAccount(prefix: string[]): PostgresAccount {
  const owner = { uid: nobodyId, gid: nobodyId }
  return { kind: 'nobody', owner, command: prefixed(prefix, owner) }
}
