-- Searching the list of datasets for a word that most of them have: what is searched stands once, in lower case, in a
-- column and an index of its own. To count a hundred thousand matches is then one walk along that narrow index, without
-- the rows and without three comparisons that fold the case of each.

drop index datasets_search;
-- The newlines keep a word from matching across two fields.
alter table datasets add column search_text text not null
  generated always as (lower(name || E'\n' || id || E'\n' || coalesce(source, ''))) stored;
create index datasets_search on datasets using gin (tenant_id, search_text gin_trgm_ops);
-- Each of the three is short: an entry stays far below the 2,704 bytes that an index takes.
create index datasets_by_search_text on datasets (tenant_id, search_text);

create or replace function search_datasets(wanted_tenant uuid, pattern text, most integer)
  returns setof text
  language plpgsql stable security definer set search_path from current
as $$
begin
  return query execute
    'select id from datasets
     where tenant_id = $1 and search_text like $2
       and ($1 = (select app_tenant_id()) or (select app_is_system())) limit $3'
    using wanted_tenant, lower(pattern), most;
end
$$;
