-- Trainings: what was asked for, how far each is, and what came of it. The run (platform/runs) does the work; this row
-- is what people see, and everything the training job said is written with the position in its event file it was read to.

create table experiments (
  id uuid primary key,
  tenant_id uuid not null references tenants on delete cascade,
  name text not null check (length(name) between 1 and 200),
  state text not null default 'PENDING' check (state in
    ('PENDING', 'STAGING', 'RUNNING', 'STOPPING', 'SUCCEEDED', 'FAILED', 'STOPPED', 'KILLED')),
  -- The body of the request with every default filled in, as the API shows it.
  config json not null,
  preset text,
  task text not null,
  framework text not null,
  model text not null,
  -- The dataset as it was; it may be deleted later.
  dataset_id text not null,
  dataset_name text not null,
  dataset_digest text not null,
  classes jsonb not null,
  -- The YAML text over the defaults of the model.
  hyperparameters json not null,
  run_id uuid not null,
  tracker_run_id text not null,
  tracker_experiment_id text not null,
  stop_requested_at timestamptz,
  kill_requested_at timestamptz,
  -- Bytes of the job's event file that are in this row, the tracker and the log already.
  events_offset bigint not null default 0,
  -- Steps inside the job, in order: [{id, title, state, progress, message, started_at, ended_at}].
  job_steps jsonb not null,
  percent real not null default 0,
  epoch integer not null default 0,
  epochs integer not null default 0,
  -- Files the job finished: [{path, kind, size, sha256}], by path.
  artifacts jsonb not null default '[]',
  -- What the job said at its end: {state, metrics, best_epoch}.
  result jsonb,
  -- Message and remedy of the job's own error.
  fault jsonb,
  environment jsonb,
  -- What was handed to the compute, for GET …/launch.
  launch jsonb,
  registered_name text,
  registered_version text,
  error jsonb,
  created_by text not null,
  created_by_id uuid,
  created_at timestamptz not null default now(),
  started_at timestamptz,
  ended_at timestamptz
);
create index experiments_newest on experiments (tenant_id, created_at desc, id);
create index experiments_by_name on experiments (tenant_id, name, id);
create index experiments_by_state on experiments (tenant_id, state, id);
create index experiments_live on experiments (state) where state in ('PENDING', 'STAGING', 'RUNNING', 'STOPPING');
create index experiments_dataset on experiments (tenant_id, dataset_id);
call enable_tenant_isolation('experiments');
