// Writes the generated, committed files; with --check it only compares and fails when one is stale.
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { createFeatures, operationsOf } from './app.ts'
import { tokenSigner } from './features/identity/tokens.ts'
import { configurationPage, loadConfig } from './platform/config.ts'
import type { Operation } from './platform/http/operation.ts'
import { createMetrics } from './platform/metrics.ts'
import { openapiDocument } from './platform/openapi.ts'

const root = fileURLToPath(new URL('../../', import.meta.url))

/** The operations in the order of the documentation: what it is called, who may, what it does. */
function operationsPage(operations: Operation[]): string {
  const rows = operations.map((o) => {
    const needs = o.access.level === 'tenant' ? o.access.permission : o.access.level
    return `| ${o.method} \`${o.path}\` | ${needs} | ${o.success} | ${o.summary} | \`${o.id}\` |`
  })
  return [
    '# Operations',
    '',
    `${operations.length} operations. Generated from the manifests: \`npm run generate\`. Grep the path to find the code.`,
    '',
    '| Method and path | Needs | Success | What it does | Id |',
    '|---|---|---|---|---|',
    ...rows,
    '',
  ].join('\n')
}

const features = createFeatures({
  config: loadConfig({}),
  signer: tokenSigner(new Uint8Array(32)),
  metrics: createMetrics(),
})
const operations = operationsOf(features)
const files: Record<string, string> = {
  'packages/contract/openapi.json': `${JSON.stringify(openapiDocument(operations, 'http://127.0.0.1:8080'), null, 1)}\n`,
  'docs/operations.md': operationsPage(operations),
  'docs/configuration.md': configurationPage(),
}

const check = process.argv.includes('--check')
const stale: string[] = []
for (const [name, content] of Object.entries(files)) {
  const path = join(root, name)
  const present = await readFile(path, 'utf8').catch(() => '')
  if (present === content) continue
  stale.push(name)
  if (check) continue
  await mkdir(dirname(path), { recursive: true })
  await writeFile(path, content)
}
if (stale.length) console.log(`${check ? 'stale, run npm run generate' : 'written'}: ${stale.join(', ')}`)
process.exit(check && stale.length ? 1 : 0)
