-- Everything with steps, progress, logs, cancel and retry. The run row is itself the queue.

-- Numbers of worker processes. Each holds the advisory lock (7001, number) while it lives; a run whose owner's lock is
-- free was left behind by a dead process.
create sequence worker_numbers as integer maxvalue 2147483647 cycle;

create table runs (
  id uuid primary key,
  tenant_id uuid references tenants on delete cascade,
  kind text not null,
  -- What the run is about, such as 'experiment:<id>'; at most one live run of a kind per subject.
  subject text,
  input jsonb not null,
  state text not null default 'pending'
    check (state in ('pending', 'running', 'succeeded', 'failed', 'canceled')),
  owner integer,
  -- Times a worker died with it in hand, in a row.
  interruptions integer not null default 0,
  cancel_requested_at timestamptz,
  cancel_reason text,
  progress real not null default 0,
  error jsonb,
  actor_id uuid,
  actor_email text,
  run_after timestamptz not null default now(),
  created_at timestamptz not null default now(),
  started_at timestamptz,
  ended_at timestamptz
);
create index runs_queue on runs (run_after, id) where state = 'pending';
create index runs_live on runs (owner) where state = 'running';
create index runs_subject on runs (tenant_id, subject, created_at desc);
create unique index runs_one_live_per_subject on runs (kind, subject) where state in ('pending', 'running');
call enable_tenant_isolation('runs');

create table run_steps (
  run_id uuid not null references runs on delete cascade,
  tenant_id uuid,
  position integer not null,
  step_id text not null,
  title text not null,
  state text not null default 'pending'
    check (state in ('pending', 'running', 'succeeded', 'failed', 'skipped', 'canceled')),
  progress real not null default 0,
  message text,
  -- What later steps read; kept when the run is retried.
  output jsonb,
  -- What the step itself remembers across interruptions, such as the handle of work it started.
  saved jsonb,
  started_at timestamptz,
  ended_at timestamptz,
  primary key (run_id, step_id)
);
call enable_tenant_isolation('run_steps');

-- The log of a run, written once and read by byte offset.
create table run_logs (
  run_id uuid not null references runs on delete cascade,
  tenant_id uuid,
  byte_offset bigint not null,
  byte_length integer not null,
  text text not null,
  primary key (run_id, byte_offset)
);
call enable_tenant_isolation('run_logs');

create table schedules (
  name text primary key,
  next_at timestamptz not null,
  last_run_id uuid
);
