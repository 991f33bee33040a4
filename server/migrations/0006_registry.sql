-- The container registry: repositories, manifests, tags, blobs, uploads, tokens, holds and archive imports.
--
-- Rows without a tenant are the reserved namespace `shared/`. The bytes lie in the blob store, once for everybody; a
-- blob is readable only through the repository that links it.

create table registry_repositories (
  id uuid primary key,
  tenant_id uuid references tenants on delete cascade,
  -- The whole name, tenant first: `acme/team/app`. Ordered by bytes, as the protocol lists it.
  name text collate "C" not null unique check (length(name) <= 255),
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  -- First manifest; until then the repository is a place for uploads that nobody sees.
  pushed_at timestamptz,
  pull_count bigint not null default 0,
  last_pulled_at timestamptz
);
call enable_tenant_isolation('registry_repositories');
create index registry_repositories_by_update on registry_repositories (tenant_id, updated_at, id);
create index registry_repositories_by_name on registry_repositories (tenant_id, name);

-- Tenants that may pull from a repository of the reserved namespace.
create table registry_shares (
  repository_id uuid not null references registry_repositories on delete cascade,
  tenant_id uuid not null references tenants on delete cascade,
  primary key (repository_id, tenant_id)
);
call enable_tenant_isolation('registry_shares');

-- A manifest in a repository. `digest` is the name clients use; `content_digest` is the SHA-256 the blob store knows.
create table registry_manifests (
  repository_id uuid not null references registry_repositories on delete cascade,
  tenant_id uuid references tenants on delete cascade,
  digest text not null,
  content_digest text not null,
  media_type text not null,
  kind text not null check (kind in ('image', 'index')),
  size bigint not null,
  -- Manifest, configuration and layers (of all platforms of an index): what a client would pull.
  total_size bigint not null,
  subject text,
  artifact_type text,
  annotations jsonb not null default '{}',
  created_at timestamptz not null default now(),
  primary key (repository_id, digest)
);
call enable_tenant_isolation('registry_manifests');
create index registry_manifests_by_subject on registry_manifests (repository_id, subject) where subject is not null;
create index registry_manifests_by_tenant on registry_manifests (tenant_id, digest);
create index registry_manifests_by_content on registry_manifests (content_digest);

-- What a manifest needs: its configuration, layers (lowest first) and, for an index, manifests.
create table registry_references (
  repository_id uuid not null,
  tenant_id uuid references tenants on delete cascade,
  manifest_digest text not null,
  role text not null check (role in ('config', 'layer', 'manifest')),
  position integer not null,
  digest text not null,
  media_type text not null,
  size bigint not null,
  primary key (repository_id, manifest_digest, role, position),
  foreign key (repository_id, manifest_digest) references registry_manifests on delete cascade
);
call enable_tenant_isolation('registry_references');
create index registry_references_by_digest on registry_references (repository_id, digest);

create table registry_tags (
  repository_id uuid not null,
  tenant_id uuid references tenants on delete cascade,
  name text collate "C" not null,
  digest text not null,
  updated_at timestamptz not null default now(),
  primary key (repository_id, name),
  foreign key (repository_id, digest) references registry_manifests on delete cascade
);
call enable_tenant_isolation('registry_tags');
create index registry_tags_by_digest on registry_tags (repository_id, digest);

-- A blob linked into a repository.
create table registry_blobs (
  repository_id uuid not null references registry_repositories on delete cascade,
  tenant_id uuid references tenants on delete cascade,
  digest text not null,
  content_digest text not null,
  size bigint not null,
  created_at timestamptz not null default now(),
  -- Last push that relied on it. Pushes update it and sweeps compare it, so the two can never miss each other.
  touched_at timestamptz not null default now(),
  primary key (repository_id, digest)
);
call enable_tenant_isolation('registry_blobs');
create index registry_blobs_by_tenant on registry_blobs (tenant_id, digest);
create index registry_blobs_by_content on registry_blobs (content_digest);
create index registry_blobs_untouched on registry_blobs (touched_at);

-- Content that came into the blob store through the registry, noted before its bytes are: no crash leaves any that a
-- sweep does not know.
create table registry_contents (
  digest text primary key,
  touched_at timestamptz not null default now()
);
create index registry_contents_untouched on registry_contents (touched_at);

create table registry_uploads (
  id uuid primary key,
  repository_id uuid not null references registry_repositories on delete cascade,
  tenant_id uuid references tenants on delete cascade,
  received_bytes bigint not null default 0,
  created_at timestamptz not null default now(),
  touched_at timestamptz not null default now()
);
call enable_tenant_isolation('registry_uploads');
create index registry_uploads_idle on registry_uploads (touched_at);
create index registry_uploads_by_tenant on registry_uploads (tenant_id);
create index registry_uploads_by_repository on registry_uploads (repository_id);

-- A personal token. Only the hash of its secret is kept; its rights are those of its owner's role at the time of use.
create table registry_tokens (
  id uuid primary key,
  tenant_id uuid not null references tenants on delete cascade,
  user_id uuid not null references users on delete cascade,
  name text not null,
  -- The public part, `mlr_<id>`, by which people tell tokens apart.
  prefix text not null,
  secret_hash bytea not null unique,
  created_at timestamptz not null default now(),
  expires_at timestamptz,
  last_used_at timestamptz,
  revoked_at timestamptz,
  revoked_by text
);
call enable_tenant_isolation('registry_tokens');
create index registry_tokens_by_creation on registry_tokens (tenant_id, user_id, created_at desc, id);
create index registry_tokens_by_user on registry_tokens (user_id);
create index registry_tokens_expiring on registry_tokens (expires_at) where revoked_at is null;

-- Most bytes a tenant may keep in the registry; without a row there is no limit.
create table registry_quotas (
  tenant_id uuid primary key references tenants on delete cascade,
  quota_bytes bigint not null check (quota_bytes >= 0)
);
call enable_tenant_isolation('registry_quotas');

-- Who still needs an image: what a holder holds can't be deleted.
create table registry_holds (
  tenant_id uuid not null references tenants on delete cascade,
  holder text not null,
  repository_name text not null,
  digest text not null,
  reason text not null,
  created_at timestamptz not null default now(),
  primary key (tenant_id, holder, repository_name, digest)
);
call enable_tenant_isolation('registry_holds');
create index registry_holds_by_image on registry_holds (tenant_id, repository_name, digest);

-- An image archive on its way in.
create table registry_imports (
  id uuid primary key,
  tenant_id uuid not null references tenants on delete cascade,
  status text not null default 'UPLOADING'
    check (status in ('UPLOADING', 'RUNNING', 'READY', 'FAILED', 'CANCELED')),
  phase text not null default 'upload' check (phase in ('upload', 'assemble', 'inspect', 'done')),
  progress real not null default 0,
  -- As asked for; what is absent is taken from the archive.
  repository text,
  tag text,
  filename text,
  size_bytes bigint not null check (size_bytes >= 1),
  chunk_size bigint not null,
  received_bytes bigint not null default 0,
  -- Pull addresses of what it brought, the first one foremost.
  images jsonb not null default '[]',
  error jsonb,
  run_id uuid,
  created_by text not null,
  created_at timestamptz not null default now(),
  touched_at timestamptz not null default now(),
  ended_at timestamptz
);
call enable_tenant_isolation('registry_imports');
create index registry_imports_by_creation on registry_imports (tenant_id, created_at desc, id);
create index registry_imports_idle on registry_imports (touched_at) where status = 'UPLOADING';
create index registry_imports_by_run on registry_imports (run_id) where run_id is not null;

-- What pulls ask for all the time, in one round trip: the scope is set where it is used, and ends with the statement.
create function registry_find_manifest(for_tenant uuid, repository text, tag text, manifest text)
  returns table (repository_id uuid, digest text, content_digest text, media_type text, size bigint)
  language plpgsql as $$
begin
  perform set_config('app.tenant_id', for_tenant::text, true);
  if tag is null then
    return query
      select m.repository_id, m.digest, m.content_digest, m.media_type, m.size
      from registry_repositories r join registry_manifests m on m.repository_id = r.id
      where r.name = repository and m.digest = manifest;
  else
    return query
      select m.repository_id, m.digest, m.content_digest, m.media_type, m.size
      from registry_repositories r
      join registry_tags t on t.repository_id = r.id
      join registry_manifests m on m.repository_id = t.repository_id and m.digest = t.digest
      where r.name = repository and t.name = tag;
  end if;
end $$;

-- Null for a repository that was never pushed to; `most` null for all tags.
create function registry_list_tags(for_tenant uuid, repository text, after_name text, most integer)
  returns text[] language plpgsql as $$
begin
  perform set_config('app.tenant_id', for_tenant::text, true);
  return (
    select coalesce(
      (select array_agg(page.name order by page.name) from
        (select t.name from registry_tags t where t.repository_id = r.id and t.name > after_name
         order by t.name limit most) page),
      '{}')
    from registry_repositories r where r.name = repository and r.pushed_at is not null);
end $$;

-- An upload from its begin to its end, a round trip each. Whoever loses the last moments of a session in a power cut
-- begins it again, so only its end waits for the disk.
create function registry_start_upload(for_tenant uuid, repository text, upload uuid, new_repository uuid) returns void
  language plpgsql as $$
declare
  found_id uuid;
begin
  perform set_config('app.tenant_id', for_tenant::text, true), set_config('synchronous_commit', 'off', true);
  select id into found_id from registry_repositories where name = repository;
  if found_id is null then
    insert into registry_repositories (id, tenant_id, name) values (new_repository, for_tenant, repository)
    on conflict (name) do nothing;
    select id into found_id from registry_repositories where name = repository;
  end if;
  insert into registry_uploads (id, repository_id, tenant_id) values (upload, found_id, for_tenant);
end $$;

-- Also notes the content that is to come, where it is known, and says what the quota leaves (null without one).
create function registry_open_upload(for_tenant uuid, repository text, upload uuid, content text)
  returns table (id uuid, received_bytes bigint, repository_id uuid, left_bytes bigint)
  language plpgsql as $$
declare
  quota bigint;
begin
  perform set_config('app.tenant_id', for_tenant::text, true), set_config('synchronous_commit', 'off', true);
  select quota_bytes into quota from registry_quotas where tenant_id = for_tenant;
  if content is not null then
    insert into registry_contents (digest) values (content) on conflict (digest) do update set touched_at = now();
  end if;
  return query
    select u.id, u.received_bytes, u.repository_id,
      case when quota is not null then quota - registry_usage(for_tenant) end
    from registry_uploads u join registry_repositories r on r.id = u.repository_id
    where u.id = upload and r.name = repository;
end $$;

-- Bytes of a tenant as its quota counts them: each blob once, manifests, and uploads that are under way.
create function registry_usage(for_tenant uuid) returns bigint
  language sql stable as $$
  select (
    (select coalesce(sum(size), 0) from
      (select distinct on (digest) size from registry_blobs where tenant_id = for_tenant) blobs)
    + (select coalesce(sum(size), 0) from
      (select distinct on (digest) size from registry_manifests where tenant_id = for_tenant) manifests)
    + (select coalesce(sum(received_bytes), 0) from registry_uploads where tenant_id = for_tenant))::bigint
$$;

-- False when the upload ended or moved on meanwhile.
create function registry_advance_upload(for_tenant uuid, upload uuid, from_bytes bigint, to_bytes bigint)
  returns boolean language plpgsql as $$
begin
  perform set_config('app.tenant_id', for_tenant::text, true), set_config('synchronous_commit', 'off', true);
  update registry_uploads set received_bytes = to_bytes, touched_at = now()
  where id = upload and received_bytes = from_bytes;
  return found;
end $$;

create function registry_end_upload(
  for_tenant uuid, upload uuid, repository uuid, blob text, content text, bytes bigint) returns void
  language plpgsql as $$
begin
  perform set_config('app.tenant_id', for_tenant::text, true);
  insert into registry_blobs (repository_id, tenant_id, digest, content_digest, size)
  values (repository, for_tenant, blob, content, bytes)
  on conflict (repository_id, digest) do update set touched_at = now();
  delete from registry_uploads where id = upload;
end $$;

-- Which of these contents (64 hexadecimal digits of SHA-256 each) are named anywhere outside of the registry: in a row of
-- any table, whatever its shape, so that no feature has to be remembered. The same bytes may be somebody's data file.
-- Reads whole tables; only a sweep that has found something asks.
create function contents_named_elsewhere(contents text[]) returns setof text
  language plpgsql stable as $$
declare
  named record;
begin
  for named in
    select c.table_name, string_agg(format('%I::text', c.column_name), ', ') as texts
    from information_schema.columns c join information_schema.tables t using (table_schema, table_name)
    where c.table_schema = 'public' and t.table_type = 'BASE TABLE'
      and c.udt_name in ('text', 'varchar', 'json', 'jsonb', '_text')
      -- Histories name much that is gone.
      and c.table_name not in ('run_logs', 'audit_events', 'schema_migrations')
      and c.table_name not like 'registry\_%'
    group by c.table_name
  loop
    return query execute format(
      'select distinct m[1] from %I, regexp_matches(concat_ws('' '', %s), ''[0-9a-f]{64}'', ''g'') m where m[1] = any($1)',
      named.table_name, named.texts) using contents;
  end loop;
end $$;
