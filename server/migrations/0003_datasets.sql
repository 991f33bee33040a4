-- Datasets, their files and annotations, upload sessions, and which trainings used them.

create table datasets (
  tenant_id uuid not null references tenants on delete cascade,
  id text not null check (id ~ '^[a-z0-9][a-z0-9._-]{0,62}$'),
  name text not null,
  source text,
  modality text,
  schema_version text,
  format text,
  storage_uri text,
  key_fields jsonb not null default '[]',
  variables jsonb not null default '[]',
  -- Derived from the facts by datasets.states.ts after every change, so that lists can filter by it.
  state text not null default 'DRAFT'
    check (state in ('DRAFT', 'UPLOADING', 'VALIDATING', 'READY', 'INVALID', 'SYNCING', 'FROZEN')),
  validation_status text not null default 'PENDING',
  -- The report of the last validation.
  validation jsonb,
  statistics jsonb,
  classes jsonb not null default '[]',
  tasks text[] not null default '{}',
  splits jsonb not null default '{}',
  record_count bigint not null default 0,
  file_count bigint not null default 0,
  size_bytes bigint not null default 0,
  -- Goes up with every change of the files; a report is of one revision.
  revision bigint not null default 0,
  validated_revision bigint not null default 0,
  digest text,
  frozen_at timestamptz,
  parent_id text,
  version integer not null default 1,
  created_by text not null,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  primary key (tenant_id, id),
  foreign key (tenant_id, parent_id) references datasets on delete set null (parent_id)
);
call enable_tenant_isolation('datasets');
-- One index per order of the list; read backwards it serves the other direction.
create index datasets_by_creation on datasets (tenant_id, created_at, id);
create index datasets_by_name on datasets (tenant_id, name, id);
create index datasets_by_records on datasets (tenant_id, record_count, id);
create index datasets_by_size on datasets (tenant_id, size_bytes, id);
create index datasets_by_validation on datasets (tenant_id, validation_status, id);
create index datasets_by_state on datasets (tenant_id, state, created_at, id);
create index datasets_by_source on datasets (tenant_id, source, created_at, id);
create index datasets_by_parent on datasets (tenant_id, parent_id);

create table dataset_files (
  tenant_id uuid not null,
  dataset_id text not null,
  id uuid not null,
  -- Ordered by bytes, whatever the collation of the database: the digest of a dataset depends on it.
  path text collate "C" not null,
  digest text not null,
  size bigint not null,
  media_type text not null,
  kind text not null check (kind in ('image', 'video', 'annotation', 'tabular', 'archive', 'other')),
  origin text not null check (origin in ('upload', 'sync')),
  status text not null default 'PENDING' check (status in ('PENDING', 'VALID', 'INVALID', 'DUPLICATE')),
  -- Why a file is not valid, or what is odd about it: a code of the validation report, and words.
  fault_code text,
  fault text,
  width integer,
  height integer,
  -- Perceptual hash of an image, 16 hexadecimal digits: near-duplicates differ in few bits.
  fingerprint text,
  label text,
  split text check (split in ('train', 'val', 'test')),
  -- Whether an annotation file speaks of this image, be it to say that nothing is on it.
  annotated boolean not null default false,
  preview_digest text,
  preview_size bigint,
  created_at timestamptz not null default now(),
  primary key (tenant_id, dataset_id, id),
  -- With the id inside, deep pages by name are found in the index alone.
  constraint dataset_files_path unique (tenant_id, dataset_id, path) include (id),
  foreign key (tenant_id, dataset_id) references datasets on delete cascade
);
call enable_tenant_isolation('dataset_files');
create index dataset_files_by_creation on dataset_files (tenant_id, dataset_id, created_at, id);
create index dataset_files_by_size on dataset_files (tenant_id, dataset_id, size, id);
create index dataset_files_by_kind on dataset_files (tenant_id, dataset_id, kind, id);
create index dataset_files_by_status on dataset_files (tenant_id, dataset_id, status, id);
create index dataset_files_by_digest on dataset_files (digest);

-- How many files of each sort a dataset has, so that no list ever counts a million rows.
create table dataset_file_counts (
  tenant_id uuid not null,
  dataset_id text not null,
  kind text not null,
  origin text not null,
  status text not null,
  files bigint not null,
  bytes bigint not null,
  primary key (tenant_id, dataset_id, kind, origin, status),
  foreign key (tenant_id, dataset_id) references datasets on delete cascade
);
call enable_tenant_isolation('dataset_file_counts');

create function count_added_dataset_files() returns trigger language plpgsql as $$
begin
  insert into dataset_file_counts as c (tenant_id, dataset_id, kind, origin, status, files, bytes)
  select tenant_id, dataset_id, kind, origin, status, count(*), sum(size)
  from added group by 1, 2, 3, 4, 5 order by 1, 2, 3, 4, 5
  on conflict (tenant_id, dataset_id, kind, origin, status)
  do update set files = c.files + excluded.files, bytes = c.bytes + excluded.bytes;
  return null;
end $$;

-- Updates and never inserts: with the dataset itself its counts are gone already.
create function count_removed_dataset_files() returns trigger language plpgsql as $$
begin
  update dataset_file_counts c set files = c.files - r.files, bytes = c.bytes - r.bytes
  from (
    select tenant_id, dataset_id, kind, origin, status, count(*) as files, sum(size) as bytes
    from removed group by 1, 2, 3, 4, 5
  ) r
  where (c.tenant_id, c.dataset_id, c.kind, c.origin, c.status)
    = (r.tenant_id, r.dataset_id, r.kind, r.origin, r.status);
  return null;
end $$;

create function count_changed_dataset_files() returns trigger language plpgsql as $$
begin
  insert into dataset_file_counts as c (tenant_id, dataset_id, kind, origin, status, files, bytes)
  select tenant_id, dataset_id, kind, origin, status, sum(n), sum(n * size) from (
    select tenant_id, dataset_id, kind, origin, status, size, 1 as n from added
    union all
    select tenant_id, dataset_id, kind, origin, status, size, -1 from removed
  ) changes
  group by 1, 2, 3, 4, 5 having sum(n) <> 0 or sum(n * size) <> 0 order by 1, 2, 3, 4, 5
  on conflict (tenant_id, dataset_id, kind, origin, status)
  do update set files = c.files + excluded.files, bytes = c.bytes + excluded.bytes;
  return null;
end $$;

create trigger dataset_files_added after insert on dataset_files
  referencing new table as added for each statement execute function count_added_dataset_files();
create trigger dataset_files_removed after delete on dataset_files
  referencing old table as removed for each statement execute function count_removed_dataset_files();
create trigger dataset_files_changed after update on dataset_files
  referencing old table as removed new table as added for each statement execute function count_changed_dataset_files();

-- One annotated object of an image, as read from the annotation files by the last validation.
create table dataset_objects (
  tenant_id uuid not null,
  dataset_id text not null,
  file_id uuid not null,
  ordinal integer not null,
  class text not null,
  shape text not null check (shape in ('box', 'polygon', 'mask', 'keypoints', 'oriented_box')),
  -- Box, points, run lengths: in pixels of the image.
  geometry jsonb not null,
  primary key (tenant_id, dataset_id, file_id, ordinal),
  foreign key (tenant_id, dataset_id, file_id) references dataset_files on delete cascade
);
call enable_tenant_isolation('dataset_objects');

create table dataset_uploads (
  id uuid primary key,
  tenant_id uuid not null,
  dataset_id text not null,
  filename text not null,
  size bigint not null check (size >= 1),
  sha256 text,
  chunk_size bigint not null,
  state text not null default 'open' check (state in ('open', 'assembling', 'done', 'failed')),
  received_chunks integer not null default 0,
  received_bytes bigint not null default 0,
  result jsonb,
  error jsonb,
  run_id uuid,
  created_by text not null,
  created_at timestamptz not null default now(),
  -- A session that nobody touches for a day is gone.
  touched_at timestamptz not null default now(),
  ended_at timestamptz,
  foreign key (tenant_id, dataset_id) references datasets on delete cascade
);
call enable_tenant_isolation('dataset_uploads');
create index dataset_uploads_by_dataset on dataset_uploads (tenant_id, dataset_id, created_at, id);
create index dataset_uploads_idle on dataset_uploads (touched_at) where state = 'open';

create table dataset_upload_chunks (
  upload_id uuid not null references dataset_uploads on delete cascade,
  tenant_id uuid not null,
  chunk_index integer not null,
  size bigint not null,
  sha256 text not null,
  primary key (upload_id, chunk_index)
);
call enable_tenant_isolation('dataset_upload_chunks');

-- The members of an archive that are in the blob store already. They become files of the dataset all at once, when
-- the last one is there: nobody sees half an archive, and one that turns out to be bad leaves nothing behind.
create table dataset_upload_members (
  upload_id uuid not null references dataset_uploads on delete cascade,
  tenant_id uuid not null,
  path text collate "C" not null,
  -- The id of the file it becomes.
  file_id uuid not null,
  digest text not null,
  size bigint not null,
  media_type text not null,
  kind text not null,
  -- What was found out about an image while its bytes were at hand; null for what is looked into later.
  inspection jsonb,
  primary key (upload_id, path)
);
call enable_tenant_isolation('dataset_upload_members');

-- Which training used which dataset; deleting looks here.
create table dataset_usage (
  tenant_id uuid not null,
  dataset_id text not null,
  experiment_id text not null,
  experiment_name text not null,
  state text not null check (state in ('running', 'ended')),
  started_at timestamptz not null default now(),
  ended_at timestamptz,
  primary key (tenant_id, dataset_id, experiment_id),
  foreign key (tenant_id, dataset_id) references datasets on delete cascade
);
call enable_tenant_isolation('dataset_usage');
create index dataset_usage_by_experiment on dataset_usage (tenant_id, experiment_id);
