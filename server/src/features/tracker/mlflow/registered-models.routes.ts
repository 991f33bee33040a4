import { audited } from '../../../platform/audit.ts'
import type { TenantCtx } from '../../../platform/context.ts'
import { read, transaction } from '../../../platform/transaction.ts'
import * as registry from '../../models/registry.api.ts'

import { type Fields, invalidValue, messages, optionalText, requiredText, texts } from './fields.ts'
import { type FilterGrammar, textOperators } from './filter.ts'
import { checkTag, tagsOf } from './limits.ts'
import { alreadyExists, invalidParameter } from './mlflow-errors.ts'
import { get, type MlflowRoute, search, write } from './mlflow-route.ts'
import { modelView, versionView } from './registry.present.ts'
import { nextPage, readSearch } from './search.ts'

const times = ['creation_timestamp', 'last_updated_timestamp'] as const

const grammar: FilterGrammar = {
  aliases: { '': 'attribute', attribute: 'attribute', attributes: 'attribute', tag: 'tag', tags: 'tag' },
  keyAliases: { timestamp: 'last_updated_timestamp' },
  entities: {
    attribute: {
      keys: ['name', ...times],
      numeric: times,
      operators: textOperators,
    },
    tag: { operators: [...textOperators, 'IS NULL', 'IS NOT NULL'] },
  },
}

const taken = (name: string) => alreadyExists(`Registered Model (name=${name}) already exists.`)

async function create(ctx: TenantCtx, fields: Fields) {
  const name = requiredText(fields, 'name')
  const tags = tagsOf(messages(fields, 'tags'), 'model')
  audited(ctx, name)
  return transaction(ctx, async (tx) => {
    const description = optionalText(fields, 'description') ?? ''
    const model = await registry.createRegistryModel(tx, ctx, { name, description, tags })
    if (!model) throw taken(name)
    return { registered_model: modelView(model, []) }
  })
}

async function change(ctx: TenantCtx, fields: Fields, values: { name?: string; description?: string }) {
  const name = requiredText(fields, 'name')
  audited(ctx, name, values)
  try {
    return await transaction(ctx, async (tx) => {
      const { id } = await registry.findRegistryModel(tx, ctx, name)
      await registry.updateRegistryModel(tx, ctx, id, values)
      const changed = await registry.findRegistryModel(tx, ctx, values.name ?? name)
      return { registered_model: modelView(changed, await registry.findLatestOf(tx, ctx, [id])) }
    })
  } catch (error) {
    if ((error as { code?: string }).code === '23505') throw taken(values.name ?? name)
    throw error
  }
}

async function remove(ctx: TenantCtx, fields: Fields): Promise<null> {
  const name = requiredText(fields, 'name')
  audited(ctx, name)
  await transaction(ctx, (tx) => registry.deleteRegistryModel(tx, ctx, name))
  return null
}

async function getOne(ctx: TenantCtx, fields: Fields) {
  const name = requiredText(fields, 'name')
  return read(ctx, async (tx) => {
    const model = await registry.findRegistryModel(tx, ctx, name)
    return { registered_model: modelView(model, await registry.findLatestOf(tx, ctx, [model.id])) }
  })
}

async function list(ctx: TenantCtx, fields: Fields) {
  const wanted = readSearch(fields, grammar, { view: null, fallback: 100, most: 1000 })
  return read(ctx, async (tx) => {
    const page = await registry.searchRegistryModels(tx, ctx, wanted)
    const latest = await registry.findLatestOf(
      tx,
      ctx,
      page.items.map((model) => model.id),
    )
    return { registered_models: page.items.map((model) => modelView(model, latest)), ...nextPage(wanted, page) }
  })
}

async function latestVersions(ctx: TenantCtx, fields: Fields) {
  const name = requiredText(fields, 'name')
  const asked = texts(fields, 'stages').map((text) => {
    const stage = registry.registryStage(text)
    if (!stage)
      throw invalidParameter(
        `Invalid Model Version stage: ${text}. Value must be one of None, Staging, Production, Archived.`,
      )
    return stage
  })
  return read(ctx, async (tx) => {
    const { id } = await registry.findRegistryModel(tx, ctx, name)
    const latest = await registry.findLatestOf(tx, ctx, [id], ...(asked.length ? [asked] : []))
    return { model_versions: latest.map(versionView) }
  })
}

async function tag(ctx: TenantCtx, fields: Fields, value: string | null): Promise<null> {
  const key = requiredText(fields, 'key')
  const name = requiredText(fields, 'name')
  if (value !== null) checkTag(key, value, 'model')
  await transaction(ctx, async (tx) => {
    const { id } = await registry.findRegistryModel(tx, ctx, name)
    await registry.tagRegistryModel(tx, ctx, id, key, value)
  })
  return null
}

/** `latest` and `v3` would mean something else to clients. @source contract B10.4 */
function aliasOf(fields: Fields): string {
  const alias = requiredText(fields, 'alias')
  if (!/^[\w-]{1,255}$/.test(alias)) {
    throw invalidValue('alias', alias, 'Names may only contain alphanumerics, underscores (_), and dashes (-).')
  }
  if (alias.toLowerCase() === 'latest') throw invalidParameter("'latest' alias name (case insensitive) is reserved.")
  if (/^v\d+$/i.test(alias)) throw invalidParameter(`Version alias name '${alias}' is reserved.`)
  return alias
}

async function setAlias(ctx: TenantCtx, fields: Fields): Promise<null> {
  const [name, alias, version] = [requiredText(fields, 'name'), aliasOf(fields), requiredText(fields, 'version')]
  audited(ctx, `${name}/${version}`, { alias })
  await transaction(ctx, async (tx) => {
    await registry.setRegistryAlias(tx, ctx, await registry.findRegistryVersion(tx, ctx, name, version), alias)
  })
  return null
}

async function versionOfAlias(ctx: TenantCtx, fields: Fields) {
  const [name, alias] = [requiredText(fields, 'name'), requiredText(fields, 'alias')]
  return read(ctx, async (tx) => {
    const { aliases } = await registry.findRegistryModel(tx, ctx, name)
    const version = aliases[alias]
    // The client tells "no alias" from "no model" by this code.
    if (version === undefined) throw invalidParameter(`Registered model alias ${alias} not found.`)
    return { model_version: versionView(await registry.findRegistryVersion(tx, ctx, name, String(version))) }
  })
}

async function removeAlias(ctx: TenantCtx, fields: Fields): Promise<null> {
  const [name, alias] = [requiredText(fields, 'name'), requiredText(fields, 'alias')]
  audited(ctx, name, { alias })
  await transaction(ctx, async (tx) => {
    const { id } = await registry.findRegistryModel(tx, ctx, name)
    await registry.deleteRegistryAlias(tx, ctx, id, alias)
  })
  return null
}

const registers = { needs: 'MODEL_REGISTER' } as const

/** @source contract B10.0, B10.1, B10.4 */
export const registeredModelRoutes: MlflowRoute[] = [
  write('POST', '/registered-models/create', (ctx, { fields }) => create(ctx, fields), {
    ...registers,
    audit: 'model.create',
  }),
  write('POST', '/registered-models/rename', (ctx, { fields }) => change(ctx, fields, { name: newName(fields) }), {
    ...registers,
    audit: 'model.rename',
  }),
  write(
    'PATCH',
    '/registered-models/update',
    (ctx, { fields }) => change(ctx, fields, { description: optionalText(fields, 'description') ?? '' }),
    { ...registers, audit: 'model.update' },
  ),
  write('DELETE', '/registered-models/delete', (ctx, { fields }) => remove(ctx, fields), {
    ...registers,
    audit: 'model.delete',
  }),
  get('/registered-models/get', (ctx, { fields }) => getOne(ctx, fields)),
  get('/registered-models/search', (ctx, { fields }) => list(ctx, fields)),
  get('/registered-models/get-latest-versions', (ctx, { fields }) => latestVersions(ctx, fields)),
  search('/registered-models/get-latest-versions', (ctx, { fields }) => latestVersions(ctx, fields)),
  write(
    'POST',
    '/registered-models/set-tag',
    (ctx, { fields }) => tag(ctx, fields, optionalText(fields, 'value') ?? ''),
    registers,
  ),
  write('DELETE', '/registered-models/delete-tag', (ctx, { fields }) => tag(ctx, fields, null), registers),
  write('POST', '/registered-models/alias', (ctx, { fields }) => setAlias(ctx, fields), {
    ...registers,
    audit: 'model.set_alias',
  }),
  get('/registered-models/alias', (ctx, { fields }) => versionOfAlias(ctx, fields)),
  write('DELETE', '/registered-models/alias', (ctx, { fields }) => removeAlias(ctx, fields), {
    ...registers,
    audit: 'model.delete_alias',
  }),
]

function newName(fields: Fields): string {
  const name = requiredText(fields, 'new_name')
  const fault = registry.registryNameFault(name)
  if (fault) throw invalidValue('new_name', name, fault)
  return name
}
