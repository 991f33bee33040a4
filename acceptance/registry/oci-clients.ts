import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, rmSync } from 'node:fs'
import { delimiter, join } from 'node:path'

/** Where `node acceptance/registry/install.ts` puts what it builds: kept between runs, never in the repository. */
const folder = join(import.meta.dirname, '..', '..', 'node_modules', '.cache', 'oci-clients')

/** The search path of the tests: the machine's own programs first. */
export const clientsPath = [process.env.PATH, folder].join(delimiter)

/** Clients that no distribution packages. Helm is not among them: it takes minutes to build. */
const modules = {
  crane: 'github.com/google/go-containerregistry/cmd/crane@v0.20.3',
  oras: 'oras.land/oras/cmd/oras@v1.2.3',
}

/** The suites of the OCI Distribution Specification: what was released, and the rewritten one at a commit of `main`. */
const suites = {
  'conformance-1.1.1': { revision: 'refs/tags/v1.1.1', build: ['test', '-c'] },
  'conformance-main': { revision: '967efdc079b91785ad18c77cc4f8991a47feefbf', build: ['build'] },
}

const repository = 'https://github.com/opencontainers/distribution-spec'

export type OciClient = keyof typeof modules | keyof typeof suites

export const ociClients = [...Object.keys(modules), ...Object.keys(suites)] as OciClient[]

/** A suite by the variable that names it, else as it was installed; null when it is not there. */
export function findSuite(name: keyof typeof suites, variable: string): string | null {
  const built = join(folder, name)
  return process.env[variable] ?? (existsSync(built) ? built : null)
}

/** Builds it with Go unless it is there. Throws with the words of what failed. */
export function installClient(name: OciClient): string {
  const path = join(folder, name)
  if (existsSync(path)) return path
  mkdirSync(folder, { recursive: true })
  if (name in modules) {
    run('go', ['install', modules[name as keyof typeof modules]], folder)
    return path
  }
  const { revision, build } = suites[name as keyof typeof suites]
  const checkout = join(folder, `${name}-source`)
  rmSync(checkout, { recursive: true, force: true })
  run('git', ['init', '--quiet', checkout], folder)
  run('git', ['fetch', '--quiet', '--depth', '1', repository, revision], checkout)
  run('git', ['checkout', '--quiet', 'FETCH_HEAD'], checkout)
  run('go', [...build, '-o', path, '.'], join(checkout, 'conformance'))
  return path
}

/** A way that is closed shows by silence: nobody waits long for what tests can do without. */
const limitMs = { git: 60_000, go: 240_000 }

function run(program: keyof typeof limitMs, parameters: string[], cwd: string): void {
  const { status, stderr, error } = spawnSync(program, parameters, {
    ...{ cwd, encoding: 'utf8', timeout: limitMs[program] },
    env: { ...process.env, GOBIN: folder, GIT_TERMINAL_PROMPT: '0' },
  })
  if (status !== 0) throw new Error(`${program} ${parameters.join(' ')} failed: ${error?.message ?? stderr.trim()}`)
}
