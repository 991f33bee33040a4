-- What every later migration stands on: who asks (tenant or system), and how a table is closed to everybody else.
--
-- The server connects as platform_app, which owns nothing, so row-level security binds it. Each transaction says for
-- whom it works (platform/db/transaction.ts); a transaction that says nothing sees nothing.

-- The tenant of this transaction, or null.
create function app_tenant_id() returns uuid
  language sql stable parallel safe
  return nullif(current_setting('app.tenant_id', true), '')::uuid;

-- Whether this transaction works across tenants: background work, system administration.
create function app_is_system() returns boolean
  language sql stable parallel safe
  return coalesce(current_setting('app.system', true), '') = 'on';

-- Closes a table that has a column tenant_id: a row is seen and written by its tenant and by system work alone. Rows
-- without a tenant belong to the system. `call enable_tenant_isolation('datasets')` right after `create table`.
--
-- The functions stand in sub-selects so that they run once per statement, not per row. Queries still name the tenant in
-- their own `where`: the policy is a filter, and only that condition lets an index on (tenant_id, …) be used.
create procedure enable_tenant_isolation(isolated regclass)
  language plpgsql
as $$
begin
  execute format('alter table %s enable row level security', isolated);
  execute format('alter table %s force row level security', isolated);
  execute format(
    'create policy tenant_isolation on %s
       using (tenant_id = (select app_tenant_id()) or (select app_is_system()))
       with check (tenant_id = (select app_tenant_id()) or (select app_is_system()))',
    isolated);
  execute format('grant select, insert, update, delete on %s to platform_app', isolated);
end
$$;

-- Only migrations close tables.
revoke execute on procedure enable_tenant_isolation(regclass) from public;

-- Tables of later migrations are the server's to use; those with tenants are closed by the procedure above.
grant usage on schema public to platform_app;
alter default privileges in schema public grant select, insert, update, delete on tables to platform_app;
alter default privileges in schema public grant usage, select on sequences to platform_app;
