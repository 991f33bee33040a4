-- Administration at scale: counts of the audit that nobody has to count, backups that are known of, and hashes of
-- passwords that came from another system.

-- How many sealed entries of the audit there are, per tenant and action. Sealing and erasing keep it, in the transaction
-- in which they change the entries; what is not sealed yet is counted where it lies.
create table audit_counts (
  tenant_id uuid,
  action text collate "C" not null,
  entries bigint not null,
  unique nulls not distinct (tenant_id, action)
);
call enable_tenant_isolation('audit_counts');
insert into audit_counts (tenant_id, action, entries)
  select tenant_id, action, count(*) from audit_events where seq is not null group by tenant_id, action;

-- When backups were taken. Only who owns the database can say so.
create table backups (
  id bigint generated always as identity primary key,
  -- What was written later is not in it.
  taken_at timestamptz not null,
  -- `archive`: one of our own; `other`: by means the platform knows nothing of.
  kind text not null check (kind in ('archive', 'other')),
  size_bytes bigint
);
revoke insert, update, delete on backups from platform_app;

-- bcrypt hashes, of which hardly any are left after a while.
create index users_imported_hash on users (password_hash) where password_hash like '$2%';

-- One run of tenants.erase does what these did.
delete from schedules where name in ('audit.erase', 'notifications.erase');
