import { type Instance, startInstance } from './instance.ts'
import { type Config, ConfigurationError, processConfig } from './platform/config.ts'

const config = readConfig()
const instance = await startInstance(config, { onFatal: (error) => fail(error) }).catch(fail)
announce(instance, config)

/** One Ctrl-C arrives several times: from the terminal, from npm and from the starter. */
const sameSignalMs = 1000
let stoppingSince: number | null = null
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.on(signal, () => {
    if (stoppingSince !== null) {
      // The second time somebody means it.
      if (performance.now() - stoppingSince > sameSignalMs) process.exit(1)
      return
    }
    stoppingSince = performance.now()
    instance.stop().then(
      () => process.exit(0),
      (error) => fail(error),
    )
  })
}

function readConfig(): Config {
  try {
    return processConfig()
  } catch (error) {
    if (!(error instanceof ConfigurationError)) throw error
    console.error(error.message)
    process.exit(2)
  }
}

function fail(error: unknown): never {
  console.error(`The platform cannot run: ${error instanceof Error ? error.message : String(error)}`)
  if (error instanceof Error && config.logLevel === 'debug') console.error(error.stack)
  process.exit(1)
}

/** For people; the log lines are for machines. */
function announce({ url, firstStart }: Instance, { dataDir, roles }: Config): void {
  const lines = ['', '  Model Operations Platform', '']
  if (url) lines.push(`  Address        ${url}`, `  API            ${url}/docs`)
  lines.push(`  Data           ${dataDir}`, `  Roles          ${[...roles].join(', ')}`)
  if (firstStart) {
    lines.push(`  Administrator  ${firstStart.email}`)
    if (firstStart.generatedPassword)
      lines.push(`  Password       ${firstStart.generatedPassword}   (shown this once; keep it)`)
  }
  console.error([...lines, ''].join('\n'))
}
