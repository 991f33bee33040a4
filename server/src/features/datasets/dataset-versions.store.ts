import { sql } from 'kysely'
import type { Tx } from '../../platform/db/transaction.ts'
import type { PageQuery } from '../../platform/http/lists.ts'
import type { DatasetState } from './datasets.states.ts'
import type { DatasetRow } from './datasets.store.ts'

/** Ids of a dataset's whole family: up to its first version and down to every version of that. */
const family = (tenantId: string, id: string) => sql`
  ancestors as (
    select id, parent_id from datasets where tenant_id = ${tenantId} and id = ${id}
    union
    select d.id, d.parent_id from datasets d join ancestors a on d.tenant_id = ${tenantId} and d.id = a.parent_id
  ),
  family as (
    select id from ancestors where parent_id is null
    union
    select d.id from datasets d join family f on d.tenant_id = ${tenantId} and d.parent_id = f.id
  )`

export interface VersionRow {
  id: string
  name: string
  version: number
  parentId: string | null
  state: DatasetState
  digest: string | null
  fileCount: number
  sizeBytes: number
  createdAt: Date
  frozenAt: Date | null
}

/** The lineage, oldest version first. */
export async function listVersions(tx: Tx, tenantId: string, id: string): Promise<VersionRow[]> {
  const { rows } = await sql<VersionRow>`
    with recursive ${family(tenantId, id)}
    select id, name, version, parent_id as "parentId", state, digest, file_count as "fileCount",
      size_bytes as "sizeBytes", created_at as "createdAt", frozen_at as "frozenAt"
    from datasets where tenant_id = ${tenantId} and id in (select id from family) order by version, created_at, id`.execute(
    tx,
  )
  return rows
}

/** Makes a draft that holds the files of another dataset; not a byte of content is copied. */
export async function cloneDataset(
  tx: Tx,
  parent: DatasetRow,
  child: { id: string; name: string; version: number; createdBy: string },
): Promise<void> {
  const { tenantId } = parent
  await sql`
    insert into datasets (tenant_id, id, name, source, modality, schema_version, format, storage_uri, key_fields,
      variables, classes, tasks, splits, statistics, record_count, file_count, size_bytes, revision, validated_revision,
      parent_id, version, created_by)
    select tenant_id, ${child.id}, ${child.name}, source, modality, schema_version, format, storage_uri, key_fields,
      variables, classes, tasks, splits, statistics, record_count, file_count, size_bytes, 1, 1, id, ${child.version},
      ${child.createdBy}
    from datasets where tenant_id = ${tenantId} and id = ${parent.id}`.execute(tx)
  await sql`
    insert into dataset_files (tenant_id, dataset_id, id, path, digest, size, media_type, kind, origin, status,
      fault_code, fault, width, height, fingerprint, label, split, annotated, preview_digest, preview_size, created_at)
    select tenant_id, ${child.id}, id, path, digest, size, media_type, kind, origin, status,
      fault_code, fault, width, height, fingerprint, label, split, annotated, preview_digest, preview_size, created_at
    from dataset_files where tenant_id = ${tenantId} and dataset_id = ${parent.id}`.execute(tx)
  await sql`
    insert into dataset_objects (tenant_id, dataset_id, file_id, ordinal, class, shape, geometry)
    select tenant_id, ${child.id}, file_id, ordinal, class, shape, geometry
    from dataset_objects where tenant_id = ${tenantId} and dataset_id = ${parent.id}`.execute(tx)
}

export interface DiffCounts {
  added: number
  removed: number
  changed: number
  unchanged: number
}

interface Side {
  digest: string
  size: number
  label: string | null
  split: string | null
}

export interface DiffRow {
  path: string
  before: Side | null
  after: Side | null
}

const joined = (tenantId: string, before: string, after: string) => sql`
  (select path, digest, size, label, split from dataset_files where tenant_id = ${tenantId} and dataset_id = ${before}) b
  full join
  (select path, digest, size, label, split from dataset_files where tenant_id = ${tenantId} and dataset_id = ${after}) a
  on a.path = b.path`

const same = sql`(a.digest, a.label, a.split) is not distinct from (b.digest, b.label, b.split)`

export async function countDiff(tx: Tx, tenantId: string, before: string, after: string): Promise<DiffCounts> {
  const { rows } = await sql<DiffCounts>`
    select count(*) filter (where b.path is null) as added, count(*) filter (where a.path is null) as removed,
      count(*) filter (where a.path is not null and b.path is not null and not ${same}) as changed,
      count(*) filter (where ${same}) as unchanged
    from ${joined(tenantId, before, after)}`.execute(tx)
  return rows[0]!
}

/** What differs between two datasets, in path order. */
export async function listDiff(
  tx: Tx,
  tenantId: string,
  before: string,
  after: string,
  page: PageQuery,
): Promise<DiffRow[]> {
  const side = (alias: 'a' | 'b') => {
    const t = sql.raw(alias)
    return sql`case when ${t}.path is not null then jsonb_build_object('digest', ${t}.digest, 'size', ${t}.size,
      'label', ${t}.label, 'split', ${t}.split) end`
  }
  const { rows } = await sql<DiffRow>`
    select coalesce(a.path, b.path) as path, ${side('b')} as before, ${side('a')} as after
    from ${joined(tenantId, before, after)} where not ${same} order by 1
    limit ${page.page_size} offset ${(page.page - 1) * page.page_size}`.execute(tx)
  return rows
}

export async function exportTotals(tx: Tx, tenantId: string, datasetId: string) {
  const { rows } = await sql<{ files: number; bytes: number; pathBytes: number }>`
    select count(*) as files, coalesce(sum(size), 0)::bigint as bytes,
      coalesce(sum(octet_length(path)), 0)::bigint as "pathBytes"
    from dataset_files where tenant_id = ${tenantId} and dataset_id = ${datasetId}`.execute(tx)
  return rows[0]!
}
