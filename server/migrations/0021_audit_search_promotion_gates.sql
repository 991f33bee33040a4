-- Searching the audit by a part of a target or an actor among a million entries, and promotions that keep what was seen
-- when they were decided.

-- The counts of sealed entries, so far per action, now also per actor and per target. They are the words that a search
-- looks through, and the totals of what it finds. Writers of entries pay nothing for them: sealing keeps them.
alter table audit_counts rename column action to value;
alter table audit_counts add column facet text not null default 'action'
  check (facet in ('action', 'actor', 'target'));
alter table audit_counts alter column facet drop default;
alter table audit_counts drop constraint audit_counts_tenant_id_action_key;
alter table audit_counts add unique nulls not distinct (tenant_id, facet, value);

-- A target longer than this would not fit an index. There are hardly any; searches read them one by one.
create index audit_events_long_targets on audit_events (tenant_id, at desc, id desc)
  where octet_length(target) > 2000;

insert into audit_counts (tenant_id, facet, value, entries)
  select tenant_id, 'actor', actor_email, count(*) from audit_events
  where seq is not null and actor_email is not null group by tenant_id, actor_email
  union all
  select tenant_id, 'target', target, count(*) from audit_events
  where seq is not null and octet_length(target) <= 2000 group by tenant_id, target;

create extension if not exists pg_trgm;
create extension if not exists btree_gin;
-- Actions are ordered by bytes, but letters are to be found in any case of whatever script.
create index audit_counts_search on audit_counts
  using gin (tenant_id, (value collate "default") gin_trgm_ops) where facet = 'target';

-- The entries of a value, newest first. Those of all tenants are found tenant by tenant, as the counts name them.
drop index audit_events_actor;
create index audit_events_tenant_target on audit_events (tenant_id, target, at desc, id desc)
  where octet_length(target) <= 2000;

-- Values that match a pattern, of a tenant or of all with null; `most` at most, in no order. An actor also matches by the
-- name of the user. A function of the tables' owner, because row-level security keeps ILIKE from any index; planned for
-- each pattern (see 0014).
drop function audit_actors(uuid, text);
create function search_audit_values(wanted_tenant uuid, wanted_facet text, pattern text, most integer)
  returns table (tenant_id uuid, value text, entries bigint)
  language plpgsql stable security definer set search_path from current
as $$
begin
  return query execute format(
    'select c.tenant_id, c.value, c.entries from audit_counts c
     where c.facet = %L and %s and ((select app_is_system()) or c.tenant_id = (select app_tenant_id()))
       and (c.value collate "default" ilike $2 %s) limit $3',
    wanted_facet,
    case when wanted_tenant is null then 'true' else 'c.tenant_id = $1' end,
    case when wanted_facet = 'actor'
      then 'or c.value in (select u.email from users u where u.full_name ilike $2)' else '' end)
    using wanted_tenant, pattern, most;
end
$$;
revoke execute on function search_audit_values(uuid, text, text, integer) from public;
grant execute on function search_audit_values(uuid, text, text, integer) to platform_app;

-- What the platform could say about the version when the request was decided or expired; null while it waits.
alter table model_promotions add column gates jsonb;
