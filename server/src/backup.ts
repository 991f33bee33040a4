// `npm run backup -- FOLDER|FILE` and `npm run restore -- FILE`: everything of an instance in one file, and back;
// `npm run backup -- --taken`: notes that a database of one's own was backed up by its own means.
import pino from 'pino'
import { type Config, processConfig } from './platform/config.ts'
import { backup } from './platform/db/backup.ts'
import { recordBackup } from './platform/db/backup-record.ts'
import { restore } from './platform/db/restore.ts'

// What an instance makes again by itself when it is missing.
const rebuildable = ['image-layers', 'trainer-environment.json', 'trainer-venv']

const usage = `Usage:
  npm run backup -- FOLDER|FILE   writes everything of the instance to one file; it may be running
  npm run backup -- --taken       notes that a database server of your own was backed up just now
  npm run restore -- FILE         fills the data folder of a new instance, which must be empty, from such a file
The data folder is PLATFORM_MLOPS_DATA_DIR, ./data when unset.`

const megabytes = (bytes: number) => `${(bytes / 1_000_000).toFixed(1)} MB`

async function runBackup({ dataDir, logLevel }: Config, target: string): Promise<string> {
  const log = pino({ level: logLevel === 'info' ? 'warn' : logLevel }, pino.destination(2))
  const report = (line: string) => console.error(line)
  const result = await backup({ dataFolder: dataDir, target, exclude: rebuildable, log, report })
  return `${result.path}: ${result.fileCount} files, ${megabytes(result.sizeBytes)}. It holds secrets; keep it safe.`
}

async function runRestore({ dataDir }: Config, source: string): Promise<string> {
  const { createdAt, files } = await restore({ dataFolder: dataDir, source })
  return `${dataDir}: ${files.length} files as of ${createdAt}, each checked. Start the platform with npm start.`
}

async function noteBackup({ databaseUrl }: Config): Promise<string> {
  if (!databaseUrl)
    throw new Error('The database is the embedded one: `npm run backup -- FOLDER` backs it up, and notes that itself.')
  await recordBackup(databaseUrl, { takenAt: new Date(), kind: 'other', sizeBytes: null })
  return 'Noted; the health page takes it for the last backup.'
}

async function main([task, path, ...rest]: string[]): Promise<string> {
  if ((task !== 'backup' && task !== 'restore') || !path || rest.length > 0) throw new Error(usage)
  const config = processConfig()
  if (task === 'backup' && path === '--taken') return noteBackup(config)
  if (path.startsWith('-')) throw new Error(usage)
  if (config.databaseUrl) {
    throw new Error(
      'The database is a server of your own (PLATFORM_MLOPS_DATABASE_URL): back it up with pg_dump first, ' +
        'then copy the data folder; in this order every blob that the rows refer to is in the copy. ' +
        'Afterwards `npm run backup -- --taken` notes it for the health page.',
    )
  }
  return task === 'backup' ? runBackup(config, path) : runRestore(config, path)
}

try {
  console.log(await main(process.argv.slice(2)))
} catch (error) {
  console.error(error instanceof Error ? error.message : String(error))
  process.exitCode = 1
}
