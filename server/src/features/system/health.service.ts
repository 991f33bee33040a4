import { readFileSync } from 'node:fs'
import { stat } from 'node:fs/promises'
import type { Services, SystemCtx } from '../../platform/context.ts'
import type { HealthCheck } from '../../platform/feature.ts'
import { read } from '../../platform/transaction.ts'
import { componentStatuses } from './health.schema.ts'
import { countAdministrators, findLastBackup } from './health.store.ts'
import { hygieneFindings } from './hygiene.ts'

const patienceMs = 5000
const { version } = JSON.parse(readFileSync(new URL('../../../package.json', import.meta.url), 'utf8')) as {
  version: string
}

/** Looks at everything the platform depends on, all at once; what does not answer in 5 s counts as not working. */
export async function diagnose(ctx: SystemCtx, checks: HealthCheck[]) {
  const [components, hygiene] = await Promise.all([
    Promise.all(checks.map((check) => lookAt(ctx, check))),
    findings(ctx).catch((error: Error) => {
      ctx.log.error({ err: error }, 'configuration hygiene')
      return []
    }),
  ])
  const worst = Math.max(...components.map(({ status }) => componentStatuses.indexOf(status)))
  return {
    status: worst === 3 ? 'down' : worst === 2 ? 'degraded' : 'ok',
    version,
    checked_at: ctx.clock.now(),
    uptime_seconds: Math.floor(process.uptime()),
    components,
    hygiene,
  }
}

type Status = (typeof componentStatuses)[number]

async function lookAt(services: Services, { name, check, remedy, essential = false }: HealthCheck) {
  const started = performance.now()
  const seen = await withPatience(check(services)).catch((error: Error) => ({
    status: essential ? 'down' : 'degraded',
    message: error.message || 'It does not answer.',
  }))
  const { status = 'ok', version: own = null, message = null, ...detail } = seen as Record<string, unknown>
  return {
    name,
    status: status as Status,
    essential,
    latency_ms: Math.round((performance.now() - started) * 10) / 10,
    version: own as string | null,
    message: message as string | null,
    remedy: status === 'ok' ? null : remedy,
    detail,
  }
}

async function withPatience<T>(work: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const impatient = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new Error(`It did not answer within ${patienceMs / 1000} s.`)), patienceMs)
  })
  return Promise.race([work, impatient]).finally(() => clearTimeout(timer))
}

async function findings(ctx: SystemCtx) {
  const { mode } = await stat(ctx.config.dataDir)
  const known = await read(ctx, async (tx) => ({
    administrators: await countAdministrators(tx),
    lastBackupAt: await findLastBackup(tx),
  }))
  const dataFolderMode = mode & 0o777
  return hygieneFindings(ctx.config, { ...known, publicUrl: ctx.publicUrl, dataFolderMode, now: ctx.clock.now() })
}
