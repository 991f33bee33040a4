import { readdirSync, readFileSync } from 'node:fs'
import { basename, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createFeatures, operationsOf } from '../src/app.ts'
import { tokenSigner } from '../src/features/identity/tokens.ts'
import { loadConfig } from '../src/platform/config.ts'
import { createMetrics } from '../src/platform/metrics.ts'
import { createTestDatabase, type TestDatabase } from './database.ts'

// What keeps the tree findable and its borders closed, read from the files and from the migrated database.

const root = fileURLToPath(new URL('../../', import.meta.url))

interface Source {
  /** From the root of the repository. */
  path: string
  text: string
}

const skipped = new Set(['node_modules', 'dist', 'data', '.git'])

function sourcesIn(folder: string): Source[] {
  return readdirSync(join(root, folder), { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name)
    if (entry.isDirectory()) return skipped.has(entry.name) ? [] : sourcesIn(path)
    return /\.(ts|tsx|mts|py|sql)$/.test(entry.name) ? [{ path, text: readFileSync(join(root, path), 'utf8') }] : []
  })
}

const server = sourcesIn('server')
const code = server.filter(({ path }) => path.startsWith('server/src/') && path.endsWith('.ts'))
const production = code.filter(({ path }) => !/\.(test|suite|fixture|process)\.ts$/.test(path))
const everything = [...server, ...sourcesIn('model-server'), ...sourcesIn('trainer'), ...sourcesIn('acceptance')]

/** Modules a file imports, those for their types alone too, from the root of the repository. */
function importsOf({ path, text }: Source): { from: string; module: string }[] {
  const found = text.matchAll(/^\s*(?:import|export)\b[^'";]*?(?:from\s*)?'([^']+)'/gm)
  return [...found].map(([, name]) => {
    const local = name!.startsWith('.') ? relative(root, join(root, path, '..', name!)) : name!
    return { from: path, module: local }
  })
}

const featureOf = (path: string): string | null => /^server\/src\/features\/([^/]+)\//.exec(path)?.[1] ?? null

describe('files', () => {
  test('none has more than 500 lines', () => {
    const generated = /\.generated\.ts$/
    const long = everything.filter(({ path, text }) => !generated.test(path) && text.split('\n').length > 501)
    expect(long.map(({ path }) => path)).toEqual([])
  })

  test('none has a name that says nothing, and each is in kebab-case', () => {
    const empty = /(^|[-.])(utils?|helpers?|common|misc|managers?)([-.]|$)/
    const odd = code.filter(
      ({ path }) => empty.test(basename(path)) || !/^[a-z0-9]+([-.][a-z0-9]+)*\.ts$/.test(basename(path)),
    )
    expect(odd.map(({ path }) => path)).toEqual([])
  })

  test('a test stands beside what it tests, and every feature has a manifest', () => {
    const names = new Set(code.map(({ path }) => featureOf(path)).filter((name) => name !== null))
    const manifests = code.filter(({ path }) => path.endsWith('.feature.ts')).map(({ path }) => featureOf(path))
    // What others only call has an api and no manifest.
    const callable = code.filter(({ path }) => path.endsWith('.api.ts')).map(({ path }) => featureOf(path))
    expect([...names].filter((name) => !manifests.includes(name) && !callable.includes(name))).toEqual([])
  })
})

describe('borders', () => {
  const imports = production.flatMap(importsOf)

  test('a feature knows another by its api alone, and no driver', () => {
    const wrong = imports.filter(({ from, module }) => {
      const own = featureOf(from)
      if (!own) return false
      if (/^server\/src\/adapters\/.*(\.driver\.ts|\/local\/)/.test(module)) return true
      const other = featureOf(module)
      return other !== null && other !== own && !module.endsWith('.api.ts')
    })
    expect(wrong).toEqual([])
  })

  test('the platform knows no feature and no adapter; adapters know no feature', () => {
    const wrong = imports.filter(
      ({ from, module }) =>
        (from.startsWith('server/src/platform/') &&
          /^server\/src\/(features|adapters|app|main|instance)/.test(module)) ||
        (from.startsWith('server/src/adapters/') && /^server\/src\/(features|app|main|instance)/.test(module)),
    )
    expect(wrong).toEqual([])
  })

  test('nobody but a manifest or other routes imports routes', () => {
    const wrong = imports.filter(
      ({ from, module }) => module.endsWith('.routes.ts') && !/\.(feature|routes)\.ts$/.test(from),
    )
    expect(wrong).toEqual([])
  })

  test('features and adapters reach the query builder in their stores alone', () => {
    const wrong = imports.filter(
      ({ from, module }) => module === 'kysely' && !/^server\/src\/platform\/|\.store\.ts$/.test(from),
    )
    expect(wrong.map(({ from }) => from)).toEqual([])
    const builders = /\b(tx|trx|kysely)\s*\.\s*(selectFrom|insertInto|updateTable|deleteFrom)\b/
    const direct = production.filter(
      ({ path, text }) => featureOf(path) && !path.endsWith('.store.ts') && builders.test(text),
    )
    expect(direct.map(({ path }) => path)).toEqual([])
  })

  test('only the configuration reads the environment', () => {
    const wrong = production.filter(
      ({ path, text }) => /process\.env\b/.test(text) && path !== 'server/src/platform/config.ts',
    )
    expect(wrong.map(({ path }) => path)).toEqual([])
  })
})

describe('addresses', () => {
  const operations = operationsOf(
    createFeatures({ config: loadConfig({}), signer: tokenSigner(new Uint8Array(32)), metrics: createMetrics() }),
  )

  test('each stands once per method, so that one search finds its code', () => {
    const keys = operations.map(({ method, path }) => `${method} ${path}`)
    expect(keys.filter((key, index) => keys.indexOf(key) !== index)).toEqual([])
    const features = production.filter(({ path }) => featureOf(path)).map(({ text }) => text)
    const missing = [...new Set(operations.map(({ path }) => path))].filter(
      (path) => !features.some((text) => text.includes(`'${path}'`) || text.includes(`\`${path}\``)),
    )
    expect(missing.filter((path) => !variants.test(path))).toEqual([])
  })

  test('each is written by one feature alone', () => {
    const paths = new Set(operations.map(({ path }) => path))
    const writers = [...paths].map((path) => ({
      path,
      features: new Set(
        production.filter(({ text }) => text.includes(`path: '${path}'`)).map(({ path: file }) => featureOf(file)),
      ),
    }))
    expect(writers.filter(({ features }) => features.size > 1)).toEqual([])
  })

  test('each has tests that name it', () => {
    const tests = server
      .filter(({ path }) => path.endsWith('.test.ts') && !path.endsWith('tree.test.ts'))
      .map(({ text }) => text)
      .join('\n')
    const untested = operations.filter(({ path }) => {
      const parts = path.split(/\{\w+\+?\}/).map((part) => part.replace(/[.*+?^$()|[\]\\]/g, '\\$&'))
      return !new RegExp(`${parts.join('[^\\s\'"`?]+?')}(?=[\\s'"\`?]|$)`, 'm').test(tests)
    })
    expect(untested.map(({ id, path }) => `${id} ${path}`)).toEqual([])
  })
})

// Three families of variants share one set of operations over three bases.
const variants = /^\/api\/v1\/(training\/(runtimes|stagers)|images\/builders)\b/

describe('tables', () => {
  let database: TestDatabase
  beforeAll(async () => {
    database = await createTestDatabase()
  })
  afterAll(() => database?.drop())

  test('each with a tenant_id is closed by row-level security, forced, with a policy for every command', async () => {
    const { rows } = await database.pool.query<{ name: string; forced: boolean; policies: string[] }>(`
      select c.relname as name, c.relrowsecurity and c.relforcerowsecurity as forced,
        coalesce(array_agg(p.polcmd::text) filter (where p.polname is not null), '{}') as policies
      from pg_class c
      join pg_attribute a on a.attrelid = c.oid and a.attname = 'tenant_id' and not a.attisdropped
      left join pg_policy p on p.polrelid = c.oid
      where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p')
      group by c.relname, c.relrowsecurity, c.relforcerowsecurity`)
    expect(rows.length).toBeGreaterThan(10)
    expect(rows.filter(({ forced, policies }) => !forced || !policies.includes('*')).map(({ name }) => name)).toEqual(
      [],
    )
  })

  test('none belongs to the role that the server works as', async () => {
    const { rows } = await database.pool.query(
      `select relname from pg_class where relnamespace = 'public'::regnamespace and pg_get_userbyid(relowner) = current_user`,
    )
    expect(rows).toEqual([])
  })

  test('a transaction that says for whom it works sees that tenant alone, whatever it asks', async () => {
    const { rows: tables } = await database.pool.query<{ name: string }>(
      `select tablename as name from pg_policies where schemaname = 'public' group by tablename`,
    )
    for (const { name } of tables) {
      const { rows } = await database.pool.query(`select count(*)::int as n from ${name}`)
      expect(rows[0].n, `${name} without a scope`).toBe(0)
    }
  })

  test('every foreign key to users or tenants says what becomes of the row', async () => {
    const { rows } = await database.pool.query<{ name: string }>(`
      select conrelid::regclass || '.' || conname as name from pg_constraint
      where contype = 'f' and confrelid in ('users'::regclass, 'tenants'::regclass) and confdeltype = 'a'`)
    expect(rows).toEqual([])
  })
})
