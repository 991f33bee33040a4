-- One sweep for the content of all features: each names the digests its rows hold. What the registry had for itself goes.
-- A look at a blob becomes one round trip, and uploads that are under way at once get a limit.

-- Content on the disk that nothing referred to when a sweep last looked. It goes when a later sweep finds the same, so
-- that a transaction that was about to refer to it has long ended.
create table unheld_contents (
  -- `sha256:` and 64 hexadecimal digits.
  digest text primary key,
  since timestamptz not null
);

create index dataset_files_by_preview on dataset_files (preview_digest) where preview_digest is not null;
create index dataset_upload_members_by_digest on dataset_upload_members (digest);

drop function contents_named_elsewhere(text[]);
drop function registry_open_upload(uuid, text, uuid, text);
drop function registry_start_upload(uuid, text, uuid, uuid);
drop table registry_contents;

-- What HEAD and GET of a blob ask for, in one round trip: the scope is set where it is used, and ends with the statement.
create function registry_find_blob(for_tenant uuid, repository text, blob text)
  returns table (repository_id uuid, digest text, content_digest text, size bigint, touched_at timestamptz)
  language plpgsql as $$
begin
  perform set_config('app.tenant_id', for_tenant::text, true);
  return query
    select b.repository_id, b.digest, b.content_digest, b.size, b.touched_at
    from registry_repositories r join registry_blobs b on b.repository_id = r.id
    where r.name = repository and b.digest = blob;
end $$;

-- False when the tenant has `most` uploads under way. Whoever loses the last moments of a session in a power cut begins
-- it again, so only the end of an upload waits for the disk.
create function registry_start_upload(
  for_tenant uuid, repository text, upload uuid, new_repository uuid, most integer) returns boolean
  language plpgsql as $$
declare
  found_id uuid;
begin
  perform set_config('app.tenant_id', for_tenant::text, true), set_config('synchronous_commit', 'off', true);
  if (select count(*) from (select from registry_uploads where tenant_id = for_tenant limit most) live) >= most then
    return false;
  end if;
  select id into found_id from registry_repositories where name = repository;
  if found_id is null then
    insert into registry_repositories (id, tenant_id, name) values (new_repository, for_tenant, repository)
    on conflict (name) do nothing;
    select id into found_id from registry_repositories where name = repository;
  end if;
  insert into registry_uploads (id, repository_id, tenant_id) values (upload, found_id, for_tenant);
  return true;
end $$;

-- Also says what the quota leaves (null without one).
create function registry_open_upload(for_tenant uuid, repository text, upload uuid)
  returns table (id uuid, received_bytes bigint, repository_id uuid, left_bytes bigint)
  language plpgsql as $$
declare
  quota bigint;
begin
  perform set_config('app.tenant_id', for_tenant::text, true);
  select quota_bytes into quota from registry_quotas where tenant_id = for_tenant;
  return query
    select u.id, u.received_bytes, u.repository_id,
      case when quota is not null then quota - registry_usage(for_tenant) end
    from registry_uploads u join registry_repositories r on r.id = u.repository_id
    where u.id = upload and r.name = repository;
end $$;
