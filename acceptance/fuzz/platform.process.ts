import { createWriteStream } from 'node:fs'
import { join } from 'node:path'
import { pino } from 'pino'
import { startInstance } from '../../server/src/instance.ts'
import { loadConfig } from '../../server/src/platform/config.ts'
import { prepareTenant } from './prepare.ts'

// A whole platform in a process of its own, strict about undeclared answers, so that its end is seen as one.

const [folder, password] = process.argv.slice(2) as [string, string]
const config = loadConfig({
  PLATFORM_MLOPS_PORT: '0',
  PLATFORM_MLOPS_DATA_DIR: join(folder, 'data'),
  PLATFORM_MLOPS_ADMIN_PASSWORD: password,
})
const log = pino({ level: 'warn' }, createWriteStream(join(folder, 'platform.log'), { flags: 'a' }))
const instance = await startInstance(config, { strict: true, log })
process.on('message', async (message: { prepare?: string; stop?: true }) => {
  if (message.stop) {
    await instance.stop()
    // What the requests have started beside the server would go on without it.
    const { compute } = instance.services.adapters
    for (const { handle } of await compute.list()) await compute.remove(handle)
    process.exit(0)
  }
  if (!message.prepare) return
  await prepareTenant(instance.services, message.prepare)
  process.send?.({ prepared: message.prepare })
})
process.send?.({ url: instance.url })
