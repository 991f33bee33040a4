-- Tenants, people, who belongs where, logins, and the audit of what they do.

create table tenants (
  id uuid primary key,
  code text not null unique check (code ~ '^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$'),
  name text not null,
  kpi_targets jsonb not null default '{}',
  retention jsonb not null default '{}',
  features jsonb not null default '{}',
  shared_defaults jsonb not null default '[]',
  is_active boolean not null default true,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);

create table users (
  id uuid primary key,
  email text not null check (length(email) <= 320),
  password_hash text not null,
  full_name text,
  phone text,
  is_active boolean not null default true,
  is_superuser boolean not null default false,
  is_verified boolean not null default false,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
create unique index users_email on users (lower(email));

create table memberships (
  tenant_id uuid not null references tenants on delete cascade,
  user_id uuid not null references users on delete cascade,
  role text not null,
  created_at timestamptz not null default now(),
  primary key (tenant_id, user_id)
);
create index memberships_user on memberships (user_id);
call enable_tenant_isolation('memberships');

-- A login. The JWT carries the id, so deleting the row ends it at once, wherever the token is.
create table sessions (
  id uuid primary key,
  user_id uuid not null references users on delete cascade,
  created_at timestamptz not null default now(),
  expires_at timestamptz,
  ip text,
  user_agent text
);
create index sessions_user on sessions (user_id);

-- Failed logins per account and address in the current window; lost in a crash without harm.
create unlogged table login_attempts (
  key text primary key,
  window_ends_at timestamptz not null,
  failures integer not null
);

create table audit_events (
  id uuid primary key,
  at timestamptz not null,
  tenant_id uuid,
  tenant_code text,
  actor_id uuid,
  actor_email text,
  action text not null,
  target text,
  outcome text not null check (outcome in ('success', 'denied')),
  ip text,
  request_id text,
  detail jsonb
);
create index audit_events_tenant on audit_events (tenant_id, at desc, id desc);
create index audit_events_all on audit_events (at desc, id desc);
call enable_tenant_isolation('audit_events');
-- History is added to, never rewritten.
revoke update on audit_events from platform_app;
