-- Container images of model versions, and the endpoints that serve them.

create table model_images (
  id uuid primary key,
  tenant_id uuid not null references tenants on delete cascade,
  -- Which version it holds. No foreign key: an image outlives the version it was built from.
  model_id uuid not null,
  model_name text not null,
  model_version integer not null,
  builder_tag text not null,
  state text not null default 'PENDING'
    check (state in ('PENDING', 'BUILDING', 'PUSHING', 'READY', 'FAILED', 'CANCELED')),
  -- From 0 to 1, over all steps of the build.
  progress real not null default 0,
  run_id uuid not null,
  -- Where it was published, with the tenant in front; null until READY.
  repository text,
  tag text,
  digest text,
  size_bytes bigint,
  error jsonb,
  created_by text not null,
  created_at timestamptz not null default now(),
  ended_at timestamptz,
  unique (tenant_id, id)
);
create index model_images_newest on model_images (tenant_id, created_at desc, id);
create index model_images_version on model_images (tenant_id, model_id, model_version, created_at desc, id);
create unique index model_images_in_progress on model_images (tenant_id, model_id, model_version, builder_tag)
  where state in ('PENDING', 'BUILDING', 'PUSHING');
call enable_tenant_isolation('model_images');

create table serving_endpoints (
  id uuid primary key,
  tenant_id uuid not null references tenants on delete cascade,
  name text not null check (name ~ '^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$'),
  -- What is wanted. A change counts the generation up; whoever works on an older one leaves off.
  desired text not null default 'RUNNING' check (desired in ('RUNNING', 'STOPPED', 'DELETED')),
  generation integer not null default 1,
  replicas integer not null check (replicas between 1 and 100),
  gpu integer not null default 0 check (gpu >= 0),
  image_id uuid not null,
  image_digest text not null,
  model_id uuid not null,
  model_name text not null,
  model_version integer not null,
  -- What is.
  state text not null default 'PENDING'
    check (state in ('PENDING', 'CONNECTING', 'RUNNING', 'DEGRADED', 'FAILED', 'STOPPED', 'DELETING')),
  error jsonb,
  -- The deployment that made the present generation.
  deployment_id uuid not null,
  validation_dataset_id text,
  checked_at timestamptz,
  created_by text not null,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  unique (tenant_id, id),
  constraint serving_endpoints_name unique (tenant_id, name),
  -- Neither goes while an endpoint serves it. Checked at the end of the statement, so that a tenant can go as a whole.
  constraint serving_endpoints_image foreign key (tenant_id, image_id) references model_images (tenant_id, id),
  constraint serving_endpoints_model foreign key (tenant_id, model_id, model_version) references model_versions
);
create index serving_endpoints_newest on serving_endpoints (tenant_id, created_at desc, id);
create index serving_endpoints_image on serving_endpoints (tenant_id, image_id);
create index serving_endpoints_model on serving_endpoints (tenant_id, model_id, model_version);
call enable_tenant_isolation('serving_endpoints');

-- One process (or pod) of an endpoint each. The row is there before the work is started and stays until it is removed.
create table serving_replicas (
  id uuid primary key,
  tenant_id uuid not null,
  endpoint_id uuid not null,
  image_digest text not null,
  state text not null default 'STARTING' check (state in ('STARTING', 'READY', 'UNREADY', 'WAITING', 'DRAINING')),
  -- Counted up at every start; part of the name of the work.
  attempt integer not null default 1,
  -- Crashes in a row; set to 0 when it has been ready for a while.
  failures integer not null default 0,
  -- host:port, while it is ready.
  address text,
  -- Why the last attempt ended.
  failure jsonb,
  -- Since when it is in its state; for WAITING, until when it waits.
  since timestamptz not null default now(),
  until timestamptz,
  created_at timestamptz not null default now(),
  foreign key (tenant_id, endpoint_id) references serving_endpoints (tenant_id, id) on delete cascade
);
create index serving_replicas_endpoint on serving_replicas (tenant_id, endpoint_id, created_at, id);
call enable_tenant_isolation('serving_replicas');

-- A record per change of an endpoint; it outlives the endpoint.
create table serving_deployments (
  id uuid primary key,
  tenant_id uuid not null references tenants on delete cascade,
  endpoint_id uuid not null,
  endpoint text not null,
  action text not null check (action in ('create', 'update', 'scale', 'start', 'stop', 'delete')),
  state text not null default 'PENDING' check (state in ('PENDING', 'ROLLING', 'READY', 'FAILED')),
  run_id uuid not null,
  generation integer not null,
  -- What the change set, and what it goes back to when a new image does not start.
  wanted jsonb not null,
  previous jsonb,
  error jsonb,
  created_by text not null,
  created_at timestamptz not null default now(),
  ended_at timestamptz
);
create index serving_deployments_newest on serving_deployments (tenant_id, created_at desc, id);
create index serving_deployments_endpoint on serving_deployments (tenant_id, endpoint, created_at desc, id);
call enable_tenant_isolation('serving_deployments');

-- What passed the proxy, summed up. The process adds to the row of the time; older rows are summed up into longer ones.
create table serving_traffic (
  tenant_id uuid not null,
  endpoint_id uuid not null,
  bucket_at timestamptz not null,
  bucket_seconds integer not null,
  count_2xx bigint not null,
  count_3xx bigint not null,
  count_4xx bigint not null,
  count_5xx bigint not null,
  duration_seconds double precision not null,
  -- Requests per class of latency; the limits of the classes are fixed in the server.
  latencies bigint[] not null,
  primary key (tenant_id, endpoint_id, bucket_at, bucket_seconds),
  foreign key (tenant_id, endpoint_id) references serving_endpoints (tenant_id, id) on delete cascade
);
call enable_tenant_isolation('serving_traffic');

-- Runs of the validation data set through an endpoint.
create table serving_validations (
  id uuid primary key,
  tenant_id uuid not null,
  endpoint_id uuid not null,
  run_id uuid not null,
  state text not null default 'RUNNING' check (state in ('RUNNING', 'PASSED', 'FAILED')),
  dataset_id text not null,
  image_digest text not null,
  samples integer,
  correct integer,
  failed integer,
  -- name, value, threshold, ok
  kpis jsonb not null default '[]',
  latency_ms jsonb,
  errors jsonb not null default '[]',
  created_by text not null,
  started_at timestamptz not null default now(),
  ended_at timestamptz,
  foreign key (tenant_id, endpoint_id) references serving_endpoints (tenant_id, id) on delete cascade
);
create index serving_validations_newest on serving_validations (tenant_id, endpoint_id, started_at desc, id);
create unique index serving_validations_one on serving_validations (endpoint_id) where state = 'RUNNING';
call enable_tenant_isolation('serving_validations');
