-- Places outside of the platform that datasets are kept in step with, and every sync from them.

create table external_sources (
  id uuid primary key,
  tenant_id uuid not null references tenants on delete cascade,
  name text not null,
  kind text not null check (kind in ('s3', 'http', 'directory')),
  -- Where it is; holds no secret.
  config jsonb not null,
  -- Sealed under the key of the installation; no answer ever holds it.
  credentials text,
  created_by text not null,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  unique (tenant_id, id)
);
call enable_tenant_isolation('external_sources');
create unique index external_sources_name on external_sources (tenant_id, lower(name));
create index external_sources_by_name on external_sources (tenant_id, name, id);

alter table datasets
  -- The source it is synced from.
  add column external_source_id uuid,
  -- The sync that changes it now: while there is one, nobody else does.
  add column sync_run_id uuid,
  add foreign key (tenant_id, external_source_id) references external_sources (tenant_id, id);
create index datasets_by_external_source on datasets (tenant_id, external_source_id, created_at, id)
  where external_source_id is not null;

-- How a dataset follows its source.
create table dataset_syncs (
  tenant_id uuid not null,
  dataset_id text not null,
  -- Folder within the source; its name is no part of the paths in the dataset.
  prefix text not null default '',
  -- Patterns; empty takes everything.
  include text[] not null default '{}',
  delete_missing boolean not null default false,
  -- Cron expression in UTC; null for by hand alone.
  schedule text,
  next_at timestamptz,
  updated_by text not null,
  updated_at timestamptz not null default now(),
  primary key (tenant_id, dataset_id),
  foreign key (tenant_id, dataset_id) references datasets on delete cascade
);
call enable_tenant_isolation('dataset_syncs');
create index dataset_syncs_due on dataset_syncs (next_at) where next_at is not null;

create table dataset_sync_runs (
  -- The id of the run.
  id uuid primary key,
  tenant_id uuid not null,
  dataset_id text not null,
  -- The source then; it may be gone.
  source_id uuid not null,
  source_name text not null,
  dry_run boolean not null,
  trigger text not null check (trigger in ('manual', 'schedule')),
  state text not null default 'RUNNING' check (state in ('RUNNING', 'DONE', 'FAILED', 'CANCELED')),
  added bigint not null default 0,
  updated bigint not null default 0,
  removed bigint not null default 0,
  -- Left alone, for whatever reason; the unchanged ones are among them.
  skipped bigint not null default 0,
  unchanged bigint not null default 0,
  failed bigint not null default 0,
  -- Read from the source.
  bytes bigint not null default 0,
  error jsonb,
  started_by text not null,
  started_at timestamptz not null default now(),
  ended_at timestamptz,
  foreign key (tenant_id, dataset_id) references datasets on delete cascade
);
call enable_tenant_isolation('dataset_sync_runs');
create index dataset_sync_runs_by_start on dataset_sync_runs (tenant_id, dataset_id, started_at, id);

-- The objects of one sync and what becomes of each. Afterwards only the tellable ones stay.
create table dataset_sync_objects (
  run_id uuid not null references dataset_sync_runs on delete cascade,
  tenant_id uuid not null,
  -- In the dataset.
  path text collate "C" not null,
  -- In the source.
  key text not null,
  size bigint,
  -- What the source tells versions of the object apart by; null when only reading it tells.
  version text,
  -- The version that the dataset has.
  known_version text,
  action text not null check (action in ('add', 'update', 'remove', 'skip', 'unchanged', 'fail')),
  reason text,
  done boolean not null default false,
  primary key (run_id, path)
);
call enable_tenant_isolation('dataset_sync_objects');
create index dataset_sync_objects_by_action on dataset_sync_objects (run_id, action, path);
create index dataset_sync_objects_pending on dataset_sync_objects (run_id, path) where not done;

-- What a file of a dataset was made from, so that an unchanged object is not read again.
create table dataset_sync_entries (
  tenant_id uuid not null,
  dataset_id text not null,
  path text collate "C" not null,
  -- Source, its address and the key there.
  origin text not null,
  version text not null,
  digest text not null,
  primary key (tenant_id, dataset_id, path),
  foreign key (tenant_id, dataset_id) references datasets on delete cascade
);
call enable_tenant_isolation('dataset_sync_entries');
