import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'

/** The clients that are tried: the last 2.x, and a 3.x. */
export const mlflowVersions = ['2.22.5', '3.17.2'] as const

export type MlflowVersion = (typeof mlflowVersions)[number]

/** Where the environments lie: kept between runs, never in the repository. */
const folderOf = (version: MlflowVersion): string =>
  join(import.meta.dirname, '..', '..', 'node_modules', '.cache', `mlflow-${version}`)

/**
 * The Python that has this version, or null: `MLFLOW_2_PYTHON` or `MLFLOW_3_PYTHON` if set, else what
 * `node acceptance/mlflow/install.ts` made.
 */
export function findMlflowPython(version: MlflowVersion): string | null {
  const named = process.env[`MLFLOW_${version[0]}_PYTHON`]
  const python = named ?? join(folderOf(version), 'bin', 'python')
  return named || existsSync(python) ? python : null
}

/** What moves experiments between servers, and what it and the old server need beside them. */
const extras: Record<MlflowVersion, string[]> = {
  '2.22.5': ['mlflow-export-import==1.2.0', 'tabulate', 'sqlalchemy<2.1'],
  '3.17.2': [],
}

/** Whether an environment has the tool that moves experiments between servers. */
export const hasExportImport = (python: string): boolean => existsSync(join(dirname(python), 'export-experiment'))

/** Makes the environment unless it is there. Throws with pip's own words when it can't be made. */
export function installMlflow(version: MlflowVersion): string {
  const known = findMlflowPython(version)
  if (known) return known
  const folder = folderOf(version)
  const python = join(folder, 'bin', 'python')
  run('python3', ['-m', 'venv', '--clear', folder])
  // The server side needs its own PostgreSQL driver; the benchmark runs it as the peer.
  run(python, ['-m', 'pip', 'install', '--quiet', `mlflow==${version}`, 'psycopg2-binary', ...extras[version]])
  return python
}

function run(program: string, parameters: string[]): void {
  const { status, stderr } = spawnSync(program, parameters, { encoding: 'utf8' })
  if (status !== 0) throw new Error(`${program} ${parameters.join(' ')} failed:\n${stderr}`)
}
