-- The tracker (experiments, runs and what they log, in the terms of MLflow) and the model registry. The REST API and
-- the MLflow mount are two faces of these same rows.
-- The first form of tracker_login needed a superuser; 0015 replaces it, so databases of former texts go on.
-- Former text: sha256 5e4691a9a0e8743028e355887904c6051dd316ba2d87d4c3bd17a9ecd62cd701
-- Former text: sha256 93c554fb64af69c8ac5d77f1d7268745f8de2f9ea95bd31639c96ff559bf227b

create table tracker_experiments (
  tenant_id uuid not null references tenants on delete cascade,
  -- Counted per tenant; "0" is the experiment "Default".
  experiment_id bigint not null,
  name text not null check (length(name) between 1 and 500),
  lifecycle_stage text not null default 'active' check (lifecycle_stage in ('active', 'deleted')),
  -- Where clients keep artifacts themselves; null for the platform's own store.
  artifact_location text,
  tags jsonb not null default '{}',
  -- Milliseconds since 1970, as the protocol counts.
  created_ms bigint not null default (extract(epoch from clock_timestamp()) * 1000)::bigint,
  updated_ms bigint not null default (extract(epoch from clock_timestamp()) * 1000)::bigint,
  primary key (tenant_id, experiment_id),
  -- A deleted experiment keeps its name.
  constraint tracker_experiments_name unique (tenant_id, name)
);
call enable_tenant_isolation('tracker_experiments');

create table tracker_experiment_counters (
  tenant_id uuid primary key references tenants on delete cascade,
  last_id bigint not null default 0
);
call enable_tenant_isolation('tracker_experiment_counters');

-- Every tenant has the experiment "Default", however the tenant came to be.
create function create_default_experiment() returns trigger
  language plpgsql
as $$
begin
  insert into tracker_experiments (tenant_id, experiment_id, name) values (new.id, 0, 'Default');
  insert into tracker_experiment_counters (tenant_id) values (new.id);
  return null;
end
$$;
create trigger tenants_default_experiment after insert on tenants
  for each row execute function create_default_experiment();
insert into tracker_experiments (tenant_id, experiment_id, name) select id, 0, 'Default' from tenants;
insert into tracker_experiment_counters (tenant_id) select id from tenants;

create table tracker_runs (
  run_id uuid primary key,
  tenant_id uuid not null,
  experiment_id bigint not null,
  name text not null,
  user_name text not null default '',
  status text not null default 'RUNNING' check (status in ('RUNNING', 'SCHEDULED', 'FINISHED', 'FAILED', 'KILLED')),
  lifecycle_stage text not null default 'active' check (lifecycle_stage in ('active', 'deleted')),
  start_ms bigint,
  end_ms bigint,
  foreign key (tenant_id, experiment_id) references tracker_experiments on delete cascade
);
create index tracker_runs_newest on tracker_runs (tenant_id, experiment_id, start_ms desc nulls last, run_id);
call enable_tenant_isolation('tracker_runs');

create table tracker_params (
  run_id uuid not null references tracker_runs on delete cascade,
  tenant_id uuid not null,
  key text not null,
  value text not null,
  primary key (run_id, key)
);
-- Serves `params.key = 'value'`; a value may be longer than an index takes.
create index tracker_params_search on tracker_params (tenant_id, key, left(value, 100));
call enable_tenant_isolation('tracker_params');

create table tracker_tags (
  run_id uuid not null references tracker_runs on delete cascade,
  tenant_id uuid not null,
  key text not null,
  value text not null,
  primary key (run_id, key)
);
create index tracker_tags_search on tracker_tags (tenant_id, key, left(value, 100));
call enable_tenant_isolation('tracker_tags');

create sequence tracker_metric_series;

-- One row per run and key with its last value (highest step, then time, then value): all that lists and searches read.
create table tracker_metrics (
  run_id uuid not null references tracker_runs on delete cascade,
  tenant_id uuid not null,
  key text not null,
  series_id bigint not null default nextval('tracker_metric_series'),
  step bigint not null,
  at_ms bigint not null,
  value double precision not null,
  -- Points in chunks, and about how many wait in tracker_metric_points to be packed.
  packed_count bigint not null default 0,
  loose_count integer not null,
  primary key (run_id, key)
) with (fillfactor = 70);
-- Serves filters and orders by a metric.
create index tracker_metrics_search on tracker_metrics (tenant_id, key, value) include (run_id);
call enable_tenant_isolation('tracker_metrics');

-- The newest points of a series, a row each, until there are enough for a chunk. The same point sent again counts once.
create table tracker_metric_points (
  series_id bigint not null,
  tenant_id uuid not null,
  step bigint not null,
  at_ms bigint not null,
  value double precision not null,
  primary key (series_id, step, at_ms, value)
);
call enable_tenant_isolation('tracker_metric_points');

-- Older points, 256 per row, with the few of them that a long curve needs: drawing a million points reads their
-- outlines and no point.
create table tracker_metric_chunks (
  series_id bigint not null,
  chunk integer not null,
  tenant_id uuid not null,
  -- First, lowest, highest and last point, ordered by step.
  outline_steps bigint[] not null,
  outline_at_ms bigint[] not null,
  outline_values double precision[] not null,
  -- Every point, ordered by step, time and value.
  steps bigint[] not null,
  at_ms bigint[] not null,
  point_values double precision[] not null,
  primary key (series_id, chunk)
);
-- Keeps the outlines together on few pages: everything larger than they are is stored aside.
alter table tracker_metric_chunks set (toast_tuple_target = 256);
call enable_tenant_isolation('tracker_metric_chunks');

-- In place of foreign keys, which would be checked for every point that arrives.
create function delete_points_of_series() returns trigger
  language plpgsql
as $$
begin
  delete from tracker_metric_points where series_id in (select series_id from gone);
  delete from tracker_metric_chunks where series_id in (select series_id from gone);
  return null;
end
$$;
create trigger tracker_metrics_points after delete on tracker_metrics referencing old table as gone
  for each statement execute function delete_points_of_series();

-- Opens a run in an active experiment, in one round trip: the name of its stage, or null when there is none.
create function tracker_create_run(
    tenant uuid, experiment bigint, run uuid, run_name text, run_user text, run_start bigint, tag_keys text[],
    tag_values text[], out lifecycle text, out location text)
  language plpgsql
as $$
begin
  select e.lifecycle_stage, e.artifact_location into lifecycle, location
  from tracker_experiments e where e.tenant_id = tenant and e.experiment_id = experiment;
  if lifecycle is distinct from 'active' then
    return;
  end if;
  insert into tracker_runs (run_id, tenant_id, experiment_id, name, user_name, start_ms)
  values (run, tenant, experiment, run_name, run_user, run_start);
  insert into tracker_tags (run_id, tenant_id, key, value)
  select run, tenant, key, value from unnest(tag_keys, tag_values) as g(key, value);
end
$$;

-- Appends points to a run and keeps the last value per key. Gives back the keys with enough loose points for a chunk.
-- A point that is there already is left out: clients send a batch again when its answer was lost.
create function tracker_log_metrics(
    tenant uuid, run uuid, keys text[], steps bigint[], times bigint[], point_values double precision[], pack_from integer)
  returns text[]
  language plpgsql
as $$
declare
  full_series text[];
begin
  with given as (
    select * from unnest(keys, steps, times, point_values) as g(key, step, at_ms, value)
  ),
  last as (
    select distinct on (key) key, step, at_ms, value, count(*) over (partition by key) as points
    from given order by key, step desc, at_ms desc, value desc
  ),
  series as (
    insert into tracker_metrics as m (run_id, tenant_id, key, step, at_ms, value, loose_count)
    select run, tenant, key, step, at_ms, value, points from last order by key
    on conflict (run_id, key) do update set
      (step, at_ms, value) = (
        select * from (values (m.step, m.at_ms, m.value), (excluded.step, excluded.at_ms, excluded.value))
          as candidate(step, at_ms, value)
        order by step desc, at_ms desc, value desc limit 1
      ),
      loose_count = m.loose_count + excluded.loose_count
    returning m.key, m.series_id, m.loose_count
  ),
  loose as (
    insert into tracker_metric_points (series_id, tenant_id, step, at_ms, value)
    select s.series_id, tenant, g.step, g.at_ms, g.value from given g join series s using (key)
    on conflict do nothing
  )
  select array_agg(s.key) into full_series from series s where s.loose_count >= pack_from;
  return full_series;
end
$$;

-- What one request logs to a run, in one round trip: nothing of it unless the run is active and no parameter changes.
create function tracker_log(
    tenant uuid, run uuid, param_keys text[], param_values text[], tag_keys text[], tag_values text[],
    keys text[], steps bigint[], times bigint[], point_values double precision[], pack_from integer,
    out lifecycle text, out changed_key text, out held text, out given text, out full_series text[])
  language plpgsql
as $$
begin
  select r.lifecycle_stage into lifecycle from tracker_runs r where r.run_id = run and r.tenant_id = tenant;
  if lifecycle is distinct from 'active' then
    return;
  end if;
  if cardinality(param_keys) > 0 then
    -- The update changes nothing; it makes a value that another transaction wrote at the same time come back too.
    with wanted as (select * from unnest(param_keys, param_values) as g(key, value)),
    kept as (
      insert into tracker_params as p (run_id, tenant_id, key, value)
      select run, tenant, key, value from wanted order by key
      on conflict (run_id, key) do update set value = p.value
      returning p.key, p.value
    )
    select k.key, k.value, w.value into changed_key, held, given
    from wanted w join kept k using (key) where k.value <> w.value limit 1;
    if changed_key is not null then
      return;
    end if;
  end if;
  if cardinality(tag_keys) > 0 then
    insert into tracker_tags (run_id, tenant_id, key, value)
    select run, tenant, key, value from unnest(tag_keys, tag_values) as g(key, value) order by key
    on conflict (run_id, key) do update set value = excluded.value;
  end if;
  if cardinality(keys) > 0 then
    full_series := tracker_log_metrics(tenant, run, keys, steps, times, point_values, pack_from);
  end if;
end
$$;

create table tracker_datasets (
  id uuid primary key,
  tenant_id uuid not null,
  experiment_id bigint not null,
  name text not null,
  digest text not null,
  source_type text not null,
  source text not null,
  schema text,
  profile text,
  unique (tenant_id, experiment_id, name, digest),
  foreign key (tenant_id, experiment_id) references tracker_experiments on delete cascade
);
call enable_tenant_isolation('tracker_datasets');

create table tracker_run_datasets (
  run_id uuid not null references tracker_runs on delete cascade,
  dataset_id uuid not null references tracker_datasets on delete cascade,
  tenant_id uuid not null,
  tags jsonb not null default '{}',
  primary key (run_id, dataset_id)
);
create index tracker_run_datasets_dataset on tracker_run_datasets (dataset_id);
call enable_tenant_isolation('tracker_run_datasets');

create table tracker_logged_models (
  model_id text primary key check (model_id ~ '^m-[0-9a-f]{32}$'),
  tenant_id uuid not null,
  experiment_id bigint not null,
  name text not null,
  source_run_id uuid references tracker_runs on delete set null,
  model_type text not null default '',
  status text not null default 'LOGGED_MODEL_PENDING',
  lifecycle_stage text not null default 'active' check (lifecycle_stage in ('active', 'deleted')),
  params jsonb not null default '{}',
  tags jsonb not null default '{}',
  created_ms bigint not null,
  updated_ms bigint not null,
  foreign key (tenant_id, experiment_id) references tracker_experiments on delete cascade
);
create index tracker_logged_models_newest on tracker_logged_models (tenant_id, experiment_id, created_ms desc, model_id);
create index tracker_logged_models_run on tracker_logged_models (source_run_id);
call enable_tenant_isolation('tracker_logged_models');

-- Values that a run measured of a logged model, on a data set or on none.
create table tracker_logged_model_metrics (
  model_id text not null references tracker_logged_models on delete cascade,
  tenant_id uuid not null,
  run_id uuid not null references tracker_runs on delete cascade,
  key text not null,
  dataset_name text not null default '',
  dataset_digest text not null default '',
  step bigint not null,
  at_ms bigint not null,
  value double precision not null,
  primary key (model_id, run_id, key, dataset_name, dataset_digest)
);
create index tracker_logged_model_metrics_run on tracker_logged_model_metrics (run_id);
call enable_tenant_isolation('tracker_logged_model_metrics');

create table tracker_run_models (
  run_id uuid not null references tracker_runs on delete cascade,
  model_id text not null references tracker_logged_models on delete cascade,
  tenant_id uuid not null,
  direction text not null check (direction in ('input', 'output')),
  step bigint not null default 0,
  primary key (run_id, model_id, direction)
);
create index tracker_run_models_model on tracker_run_models (model_id);
call enable_tenant_isolation('tracker_run_models');

-- Files by their path below the tenant's artifact root, such as 0/<run>/artifacts/model/MLmodel. The bytes are blobs.
create table tracker_artifacts (
  tenant_id uuid not null references tenants on delete cascade,
  path text collate "C" not null check (length(path) <= 1024),
  digest text not null,
  size bigint not null,
  created_at timestamptz not null default now(),
  primary key (tenant_id, path)
);
create index tracker_artifacts_digest on tracker_artifacts (digest);
call enable_tenant_isolation('tracker_artifacts');

-- What lets an MLflow client in: one tenant, with the rights that its owner has there at the time.
create table tracker_tokens (
  id uuid primary key,
  tenant_id uuid not null references tenants on delete cascade,
  user_id uuid not null references users on delete cascade,
  name text not null,
  token_hash text not null unique,
  created_at timestamptz not null default now(),
  last_used_at timestamptz,
  expires_at timestamptz,
  revoked_at timestamptz
);
create index tracker_tokens_owner on tracker_tokens (tenant_id, user_id, created_at desc, id);
call enable_tenant_isolation('tracker_tokens');

-- Whom a token lets in, looked up before it is known for which tenant: the one place that sees all tenants' tokens.
create function tracker_login(hash text)
  returns table (
    token_id uuid, tenant_id uuid, tenant_code text, tenant_is_active boolean, tenant_features jsonb, user_id uuid,
    email text, full_name text, is_superuser boolean, role text, last_used_at timestamptz
  )
  -- In this language the plan is made once per connection, not once per request.
  language plpgsql
as $$
declare
  scope_before text := current_setting('app.system', true);
begin
  perform set_config('app.system', 'on', true);
  return query select k.id, t.id, t.code, t.is_active, t.features, u.id, u.email, u.full_name, u.is_superuser, m.role,
    k.last_used_at
  from tracker_tokens k
  join tenants t on t.id = k.tenant_id
  join users u on u.id = k.user_id and u.is_active
  left join memberships m on m.tenant_id = k.tenant_id and m.user_id = k.user_id
  where k.token_hash = hash and k.revoked_at is null and (k.expires_at is null or k.expires_at > now());
  perform set_config('app.system', coalesce(scope_before, ''), true);
end
$$;

create table models (
  id uuid primary key,
  tenant_id uuid not null references tenants on delete cascade,
  name text not null check (length(name) between 1 and 256),
  description text not null default '',
  tags jsonb not null default '{}',
  -- Numbers are never used again, also after the newest version was deleted.
  last_version integer not null default 0,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  unique (tenant_id, id)
);
create unique index models_name on models (tenant_id, lower(name));
create index models_newest on models (tenant_id, updated_at desc, id);
call enable_tenant_isolation('models');

create table model_versions (
  tenant_id uuid not null,
  model_id uuid not null,
  version integer not null check (version > 0),
  stage text not null default 'None' check (stage in ('None', 'Staging', 'Production', 'Archived')),
  stage_at timestamptz not null default now(),
  description text not null default '',
  tags jsonb not null default '{}',
  -- Where the MLflow client that registered it says the files are; null when the platform did, from its own files.
  source text,
  run_id uuid,
  experiment_id bigint,
  logged_model_id text,
  run_link text not null default '',
  task text,
  framework text,
  architecture text,
  classes jsonb not null default '[]',
  signature jsonb,
  metrics jsonb not null default '{}',
  environment jsonb not null default '{}',
  dataset jsonb,
  created_by text not null,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  primary key (tenant_id, model_id, version),
  foreign key (tenant_id, model_id) references models (tenant_id, id) on delete cascade
);
create index model_versions_stage on model_versions (tenant_id, stage, model_id);
create index model_versions_run on model_versions (tenant_id, run_id);
call enable_tenant_isolation('model_versions');

create table model_version_files (
  tenant_id uuid not null,
  model_id uuid not null,
  version integer not null,
  path text collate "C" not null,
  digest text not null,
  size bigint not null,
  primary key (tenant_id, model_id, version, path),
  foreign key (tenant_id, model_id, version) references model_versions on delete cascade
);
create index model_version_files_digest on model_version_files (digest);
call enable_tenant_isolation('model_version_files');

create table model_aliases (
  tenant_id uuid not null,
  model_id uuid not null,
  alias text not null,
  version integer not null,
  primary key (tenant_id, model_id, alias),
  foreign key (tenant_id, model_id, version) references model_versions on delete cascade
);
create index model_aliases_version on model_aliases (tenant_id, model_id, version);
call enable_tenant_isolation('model_aliases');

create table model_comments (
  id uuid primary key,
  tenant_id uuid not null,
  model_id uuid not null,
  version integer not null,
  author text not null,
  body text not null,
  created_at timestamptz not null default now(),
  foreign key (tenant_id, model_id, version) references model_versions on delete cascade
);
create index model_comments_newest on model_comments (tenant_id, model_id, version, created_at desc, id);
call enable_tenant_isolation('model_comments');

-- Requests to make a version the one in Production.
create table model_promotions (
  id uuid primary key,
  tenant_id uuid not null,
  model_id uuid not null,
  from_version integer not null,
  to_version integer not null,
  reason text not null,
  rollback_conditions text,
  scope text,
  status text not null default 'PENDING'
    check (status in ('PENDING', 'APPROVED', 'REJECTED', 'CANCELED', 'EXPIRED', 'ROLLED_BACK')),
  requested_by_id uuid,
  requested_by text not null,
  decided_by text,
  decision_comment text,
  -- Versions that were in Production when it was approved: what a rollback restores.
  replaced_versions integer[] not null default '{}',
  rolled_back_by text,
  rollback_reason text,
  rolled_back_at timestamptz,
  created_at timestamptz not null default now(),
  decided_at timestamptz,
  expires_at timestamptz not null,
  foreign key (tenant_id, model_id) references models (tenant_id, id) on delete cascade
);
create index model_promotions_newest on model_promotions (tenant_id, created_at desc, id);
create unique index model_promotions_pending on model_promotions (tenant_id, model_id) where status = 'PENDING';
create index model_promotions_expiry on model_promotions (expires_at) where status = 'PENDING';
call enable_tenant_isolation('model_promotions');

-- Which version had which stage since when, by whom and why; it outlives the versions. What was in Production at a time
-- is the last row of each version before it.
create table model_stage_history (
  id uuid primary key,
  tenant_id uuid not null references tenants on delete cascade,
  model_id uuid not null,
  model_name text not null,
  version integer not null,
  from_stage text,
  -- 'Deleted' ends the last period.
  to_stage text not null,
  at timestamptz not null,
  actor text not null,
  reason text,
  promotion_id uuid
);
create index model_stage_history_version on model_stage_history (tenant_id, model_id, version, at desc, id desc);
call enable_tenant_isolation('model_stage_history');
-- History is added to, never rewritten.
revoke update, delete on model_stage_history from platform_app;
