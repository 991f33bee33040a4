// npm run bench -- [NAME …]: runs the named benchmarks, or all of them, one after the other.
import { spawnSync } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'

const folder = import.meta.dirname
const known = readdirSync(folder)
  .filter((name) => name.endsWith('.ts') && name !== 'run.ts' && !name.includes('.fixture.'))
  .map((name) => name.replace(/\.ts$/, ''))
const wanted = process.argv.slice(2)
const unknown = wanted.filter((name) => !known.includes(name))
if (unknown.length) {
  console.error(`no benchmark ${unknown.join(', ')}; there are: ${known.join(', ')}`)
  process.exit(2)
}
let failed = 0
for (const name of wanted.length ? wanted : known) {
  console.log(`\n== ${name}`)
  if (spawnSync(process.execPath, [join(folder, `${name}.ts`)], { stdio: 'inherit' }).status !== 0) failed++
}
process.exit(failed ? 1 : 0)
