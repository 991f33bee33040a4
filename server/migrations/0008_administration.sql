-- Administration: tenants that go, notifications, and the audit as a chain.

-- Null until every feature has filled the tenant with what it starts with.
alter table tenants add column prepared_at timestamptz;

-- The record of a tenant's deletion outlives the tenant.
create table tenant_deletions (
  id uuid primary key,
  tenant_id uuid not null unique,
  tenant_code text not null,
  tenant_name text not null,
  status text not null default 'PENDING' check (status in ('PENDING', 'RUNNING', 'DONE', 'FAILED')),
  -- Rows per kind as of the request.
  counts jsonb not null,
  run_id uuid references runs on delete set null,
  requested_by text not null,
  error text,
  created_at timestamptz not null default now(),
  started_at timestamptz,
  ended_at timestamptz
);
call enable_tenant_isolation('tenant_deletions');
create index tenant_deletions_order on tenant_deletions (created_at desc, id desc);

-- What a person is told. A row without a tenant is about the installation.
create table notifications (
  id uuid primary key,
  tenant_id uuid references tenants on delete cascade,
  user_id uuid not null references users on delete cascade,
  group_name text not null,
  title text not null,
  body text,
  -- Path within the console.
  link text,
  -- What it is about; the same is not told twice.
  dedupe_key text,
  in_app boolean not null,
  created_at timestamptz not null default now(),
  read_at timestamptz,
  email_state text not null check (email_state in ('none', 'pending', 'sent', 'failed')),
  email_attempts integer not null default 0,
  email_after timestamptz not null default now(),
  email_error text
);
call enable_tenant_isolation('notifications');
create index notifications_order on notifications (user_id, tenant_id, created_at desc, id desc) where in_app;
create index notifications_unread on notifications (user_id, tenant_id) where in_app and read_at is null;
create unique index notifications_once on notifications (user_id, dedupe_key) where dedupe_key is not null;
create index notifications_emails on notifications (email_after) where email_state = 'pending';
create index notifications_age on notifications (created_at);

-- Only what differs from the defaults: group → {"in_app": …, "email": …}.
create table notification_preferences (
  user_id uuid primary key references users on delete cascade,
  prefs jsonb not null,
  updated_at timestamptz not null default now()
);

-- The audit as a chain. Rows are written without waiting for one another; a run seals what is committed, in one order
-- for the whole installation: hash = sha256(hash of the row before || sha256 of this row's content). A sealed row can't
-- be changed, and whoever removes or changes one by force breaks the chain.
alter table audit_events
  add column seq bigint unique,
  add column hash bytea check ((seq is null) = (hash is null));
create index audit_events_unsealed on audit_events (at, id) where seq is null;
-- Ordered by bytes, an index finds prefixes and distinct actions.
alter table audit_events alter column action type text collate "C";
create index audit_events_tenant_action on audit_events (tenant_id, action);
create index audit_events_action on audit_events (action);
grant update (seq, hash) on audit_events to platform_app;

create function refuse_change_of_sealed_audit() returns trigger language plpgsql as $$
begin
  raise exception 'audit row % is sealed and can not be changed', old.seq using errcode = 'insufficient_privilege';
end
$$;
create trigger audit_events_sealed before update on audit_events
  for each row when (old.seq is not null) execute function refuse_change_of_sealed_audit();

-- Content of a row as it goes into the chain.
create function audit_content_hash(e audit_events) returns bytea language sql stable parallel safe as $$
  select sha256(convert_to(jsonb_build_array(e.id, (extract(epoch from e.at) * 1000000)::bigint, e.tenant_id,
    e.tenant_code, e.actor_id, e.actor_email, e.action, e.target, e.outcome, e.ip, e.request_id, e.detail)::text, 'UTF8'))
$$;

-- What is left of sealed rows that retention or a tenant's deletion removed: their place in the chain.
create table audit_erasures (
  seq bigint primary key,
  content_hash bytea not null,
  hash bytea not null,
  reason text not null check (reason in ('retention', 'tenant_deletion')),
  erased_at timestamptz not null default now()
);
revoke update on audit_erasures from platform_app;
