-- Searching the lists of datasets and files by a part of a name, in milliseconds among a million.
--
-- Under row-level security no index serves ILIKE: its operator may be asked only about rows that the policy has let
-- through. So each search is a function of the tables' owner that names tenant and scope itself. Where the owner is no
-- superuser the policy binds it too, and the same function reads on without the index.

create extension if not exists pg_trgm;
create extension if not exists btree_gin;

create index dataset_files_search on dataset_files
  using gin (tenant_id, dataset_id, path gin_trgm_ops, label gin_trgm_ops);
create index datasets_search on datasets
  using gin (tenant_id, name gin_trgm_ops, id gin_trgm_ops, source gin_trgm_ops);

-- Ids of the files that match; `most` at most, in no order. Planned for each pattern: a rare one is looked up, of a
-- frequent one the first are taken as they come.
create function search_dataset_files(wanted_tenant uuid, wanted_dataset text, pattern text, most integer)
  returns setof uuid
  language plpgsql stable security definer set search_path from current
as $$
begin
  return query execute
    'select id from dataset_files
     where tenant_id = $1 and dataset_id = $2 and (path ilike $3 or label ilike $3)
       and ($1 = (select app_tenant_id()) or (select app_is_system())) limit $4'
    using wanted_tenant, wanted_dataset, pattern, most;
end
$$;

create function search_datasets(wanted_tenant uuid, pattern text, most integer)
  returns setof text
  language plpgsql stable security definer set search_path from current
as $$
begin
  return query execute
    'select id from datasets
     where tenant_id = $1 and (name ilike $2 or id ilike $2 or source ilike $2)
       and ($1 = (select app_tenant_id()) or (select app_is_system())) limit $3'
    using wanted_tenant, pattern, most;
end
$$;

revoke execute on function search_dataset_files(uuid, text, text, integer), search_datasets(uuid, text, integer) from public;
grant execute on function search_dataset_files(uuid, text, text, integer), search_datasets(uuid, text, integer)
  to platform_app;
