import { audited } from '../../../platform/audit.ts'
import type { TenantCtx } from '../../../platform/context.ts'
import type { Tx } from '../../../platform/db/transaction.ts'
import { read, transaction } from '../../../platform/transaction.ts'
import * as registry from '../../models/registry.api.ts'
import { artifactRootUri } from '../artifact-addresses.api.ts'
import { isRunId } from '../runs.store.ts'
import { type Fields, messages, optionalFlag, optionalText, requiredText } from './fields.ts'
import { type FilterGrammar, textOperators } from './filter.ts'
import { checkTag, tagsOf } from './limits.ts'
import { loadLoggedModel } from './logged-model-access.ts'
import { type LoggedModelRow, updateLoggedModel } from './logged-models.store.ts'
import { invalidParameter, permissionDenied } from './mlflow-errors.ts'
import { get, type MlflowRoute, write } from './mlflow-route.ts'
import { versionView } from './registry.present.ts'
import { loadRun } from './run-access.ts'
import { nextPage, readSearch } from './search.ts'
import { downloadUri, filesOfSource } from './version-sources.ts'

const times = ['creation_timestamp', 'last_updated_timestamp'] as const

const grammar: FilterGrammar = {
  aliases: { '': 'attribute', attribute: 'attribute', attributes: 'attribute', tag: 'tag', tags: 'tag' },
  entities: {
    attribute: {
      keys: ['name', 'run_id', 'source_path', 'version_number', ...times],
      numeric: ['version_number', ...times],
      operators: [...textOperators, 'IN'],
    },
    tag: { operators: [...textOperators, 'IS NULL', 'IS NOT NULL'] },
  },
}

/** A version that moves or goes counts as a change of its model. */
const changedNow = {}

const named = (fields: Fields) => ({ name: requiredText(fields, 'name'), version: versionOf(fields) })

/** Clients send the number as text or as number. */
function versionOf(fields: Fields): string {
  const value = fields.version
  const text = typeof value === 'number' ? String(value) : requiredText(fields, 'version')
  if (!/^-?\d+$/.test(text)) throw invalidParameter(`Parameter 'version' must be an integer, got '${text}'.`)
  return text
}

async function create(ctx: TenantCtx, fields: Fields) {
  const name = requiredText(fields, 'name')
  const source = requiredText(fields, 'source')
  const loggedModelId = optionalText(fields, 'model_id') || (/^models:\/+(m-[0-9a-f]{32})$/.exec(source)?.[1] ?? null)
  const runId = optionalText(fields, 'run_id') || null
  const tags = tagsOf(messages(fields, 'tags'), 'model')
  audited(ctx, name, { source })
  return transaction(ctx, async (tx) => {
    const logged = loggedModelId ? await loadLoggedModel(tx, ctx, loggedModelId) : null
    // Clients of MLflow 3 name the model alone; the run it came from is known. A run of another server is only a name.
    const origin = runId ?? logged?.sourceRunId ?? ''
    const run = isRunId(origin) ? await loadRun(tx, ctx, origin) : null
    const version = {
      source,
      runId: run?.runId ?? null,
      experimentId: run?.experimentId ?? null,
      loggedModelId,
      runLink: optionalText(fields, 'run_link') ?? '',
      description: optionalText(fields, 'description') ?? '',
      tags,
    }
    const files = await filesOfSource(tx, ctx, source)
    const made = await registry.createRegistryVersion(tx, ctx, name, version, files)
    if (logged) await noteVersion(tx, ctx, logged, made)
    return { model_version: versionView(made) }
  })
}

const versionsTag = 'mlflow.modelVersions'

/** A logged model says in a tag which versions were made of it; clients show that. */
async function noteVersion(
  tx: Tx,
  ctx: TenantCtx,
  { modelId, tags }: LoggedModelRow,
  { name, version }: registry.RegistryVersion,
): Promise<void> {
  const known = versionsIn(tags[versionsTag])
  // With the spaces of the stock server: some clients compare the text.
  const listed = [...known, { name, version }].map(
    (item) => `{"name": ${JSON.stringify(item.name)}, "version": ${item.version}}`,
  )
  const change = { tags: { [versionsTag]: `[${listed.join(', ')}]` } }
  await updateLoggedModel(tx, ctx.tenant.id, modelId, change, ctx.clock.now().getTime())
}

/** None in a tag that somebody wrote something else into. */
function versionsIn(text = '[]'): { name: string; version: number }[] {
  try {
    const list: unknown = JSON.parse(text)
    return Array.isArray(list)
      ? list.filter((item) => typeof item?.name === 'string' && Number.isInteger(item.version))
      : []
  } catch {
    return []
  }
}

async function change(
  ctx: TenantCtx,
  fields: Fields,
  values: { description?: string; tags?: Record<string, string>; removedTag?: string },
) {
  const { name, version } = named(fields)
  audited(ctx, `${name}/${version}`)
  return transaction(ctx, async (tx) => {
    const found = await registry.findRegistryVersion(tx, ctx, name, version)
    await registry.updateRegistryVersion(tx, ctx, found, values)
    return { model_version: versionView(await registry.findRegistryVersion(tx, ctx, name, version)) }
  })
}

async function setTag(ctx: TenantCtx, fields: Fields): Promise<null> {
  const [key, value] = [requiredText(fields, 'key'), optionalText(fields, 'value') ?? '']
  checkTag(key, value, 'model')
  await change(ctx, fields, { tags: { [key]: value } })
  return null
}

/** @source contract B10.1, B10.10 */
async function transition(ctx: TenantCtx, fields: Fields) {
  const { name, version } = named(fields)
  const text = requiredText(fields, 'stage')
  const stage = registry.registryStage(text)
  if (!stage) {
    throw invalidParameter(
      `Invalid Model Version stage: ${text}. Value must be one of None, Staging, Production, Archived.`,
    )
  }
  const archive = optionalFlag(fields, 'archive_existing_versions') ?? false
  if (archive && stage !== 'Staging' && stage !== 'Production') {
    throw invalidParameter(
      `Model version transition cannot archive existing model versions because '${stage}' is not an Active stage. Valid stages are Staging, Production.`,
    )
  }
  if (stage === 'Production' && !ctx.permissions.has('PRODUCTION_PROMOTE')) {
    throw permissionDenied('Production needs the permission PRODUCTION_PROMOTE.')
  }
  audited(ctx, `${name}/${version}`, { stage })
  return transaction(ctx, async (tx) => {
    await registry.findRegistryVersion(tx, ctx, name, version)
    const moved = await registry.transitionRegistryVersion(tx, ctx, { name, version }, stage, archive)
    await registry.updateRegistryModel(tx, ctx, moved.modelId, changedNow)
    return { model_version: versionView(moved) }
  })
}

async function remove(ctx: TenantCtx, fields: Fields): Promise<null> {
  const { name, version } = named(fields)
  audited(ctx, `${name}/${version}`)
  await transaction(ctx, async (tx) => {
    const { modelId } = await registry.findRegistryVersion(tx, ctx, name, version)
    await registry.deleteRegistryVersion(tx, ctx, name, version)
    await registry.updateRegistryModel(tx, ctx, modelId, changedNow)
  })
  return null
}

async function getOne(ctx: TenantCtx, fields: Fields) {
  const { name, version } = named(fields)
  return { model_version: versionView(await read(ctx, (tx) => registry.findRegistryVersion(tx, ctx, name, version))) }
}

async function list(ctx: TenantCtx, fields: Fields) {
  const wanted = readSearch(fields, grammar, { view: null, fallback: 10_000, most: 200_000 })
  const page = await read(ctx, (tx) => registry.searchRegistryVersions(tx, ctx, wanted))
  return { model_versions: page.items.map(versionView), ...nextPage(wanted, page) }
}

async function whereFrom(ctx: TenantCtx, fields: Fields) {
  const { name, version } = named(fields)
  return read(ctx, async (tx) => {
    const found = await registry.findRegistryVersion(tx, ctx, name, version)
    return { artifact_uri: await downloadUri(tx, ctx, found, artifactRootUri(ctx)) }
  })
}

const registers = { needs: 'MODEL_REGISTER' } as const

/** @source contract B10.0, B10.1, B10.10 */
export const modelVersionRoutes: MlflowRoute[] = [
  write('POST', '/model-versions/create', (ctx, { fields }) => create(ctx, fields), {
    ...registers,
    audit: 'model.register_version',
  }),
  write(
    'PATCH',
    '/model-versions/update',
    (ctx, { fields }) => change(ctx, fields, { description: optionalText(fields, 'description') ?? '' }),
    { ...registers, audit: 'model.update_version' },
  ),
  write('POST', '/model-versions/transition-stage', (ctx, { fields }) => transition(ctx, fields), {
    needs: 'STAGING_PROMOTE',
    audit: 'model.set_stage',
  }),
  write('DELETE', '/model-versions/delete', (ctx, { fields }) => remove(ctx, fields), {
    ...registers,
    audit: 'model.delete_version',
  }),
  get('/model-versions/get', (ctx, { fields }) => getOne(ctx, fields)),
  get('/model-versions/search', (ctx, { fields }) => list(ctx, fields)),
  get('/model-versions/get-download-uri', (ctx, { fields }) => whereFrom(ctx, fields)),
  write('POST', '/model-versions/set-tag', (ctx, { fields }) => setTag(ctx, fields), registers),
  write(
    'DELETE',
    '/model-versions/delete-tag',
    async (ctx, { fields }) => {
      await change(ctx, fields, { removedTag: requiredText(fields, 'key') })
      return null
    },
    registers,
  ),
]
