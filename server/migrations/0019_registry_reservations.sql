-- Pushes that run at once share what the quota leaves: a body takes its room before its bytes come, step by step, so
-- that together they never go beyond. An upload ends once: what would end it again finds it gone.

-- The length up to which the body that is arriving may bring the upload; nothing when none is. What a killed server had
-- reserved counts until the next body or until the upload expires.
alter table registry_uploads add column reserved_bytes bigint not null default 0;

-- Bytes of a tenant as its quota counts them: each blob once, manifests, and uploads that are under way.
create or replace function registry_usage(for_tenant uuid) returns bigint
  language sql stable as $$
  select (
    (select coalesce(sum(size), 0) from
      (select distinct on (digest) size from registry_blobs where tenant_id = for_tenant) blobs)
    + (select coalesce(sum(size), 0) from
      (select distinct on (digest) size from registry_manifests where tenant_id = for_tenant) manifests)
    + (select coalesce(sum(greatest(received_bytes, reserved_bytes)), 0) from registry_uploads
      where tenant_id = for_tenant))::bigint
$$;

-- Also says what the quota leaves beside this upload's own reservation (null without a quota).
create or replace function registry_open_upload(for_tenant uuid, repository text, upload uuid)
  returns table (id uuid, received_bytes bigint, repository_id uuid, left_bytes bigint)
  language plpgsql as $$
declare
  quota bigint;
begin
  perform set_config('app.tenant_id', for_tenant::text, true);
  select quota_bytes into quota from registry_quotas where tenant_id = for_tenant;
  return query
    select u.id, u.received_bytes, u.repository_id,
      case when quota is not null
        then quota - registry_usage(for_tenant) + greatest(u.reserved_bytes - u.received_bytes, 0) end
    from registry_uploads u join registry_repositories r on r.id = u.repository_id
    where u.id = upload and r.name = repository;
end $$;

-- Lets those that count against a tenant's quota and then rely on the sum go one after the other, until the transaction
-- ends.
create function registry_lock_quota(for_tenant uuid) returns void
  language sql as $$
  select pg_advisory_xact_lock(7003, hashtext(for_tenant::text))
$$;

-- Reserves room for the upload to grow to `wanted` bytes, or to what the quota leaves; returns the length it may have.
-- Null when the upload has ended.
create function registry_reserve_upload(for_tenant uuid, upload uuid, wanted bigint) returns bigint
  language plpgsql as $$
declare
  quota bigint;
  held bigint;
  granted bigint;
begin
  perform set_config('app.tenant_id', for_tenant::text, true), set_config('synchronous_commit', 'off', true);
  perform registry_lock_quota(for_tenant);
  select greatest(received_bytes, reserved_bytes) into held from registry_uploads where id = upload;
  select quota_bytes into quota from registry_quotas where tenant_id = for_tenant;
  granted := least(wanted, coalesce(quota - registry_usage(for_tenant) + held, wanted));
  update registry_uploads set reserved_bytes = granted, touched_at = now() where id = upload;
  return case when held is not null then granted end;
end $$;

-- Records what arrived and ends the reservation; false when the upload ended or moved on meanwhile.
create or replace function registry_advance_upload(for_tenant uuid, upload uuid, from_bytes bigint, to_bytes bigint)
  returns boolean language plpgsql as $$
begin
  perform set_config('app.tenant_id', for_tenant::text, true), set_config('synchronous_commit', 'off', true);
  update registry_uploads set received_bytes = to_bytes, reserved_bytes = 0, touched_at = now()
  where id = upload and received_bytes = from_bytes;
  return found;
end $$;

-- Links the blob that the upload brought, and forgets the upload; false when it had ended already.
drop function registry_end_upload(uuid, uuid, uuid, text, text, bigint);
create function registry_end_upload(
  for_tenant uuid, upload uuid, repository uuid, blob text, content text, bytes bigint) returns boolean
  language plpgsql as $$
begin
  perform set_config('app.tenant_id', for_tenant::text, true);
  delete from registry_uploads where id = upload;
  if not found then
    return false;
  end if;
  insert into registry_blobs (repository_id, tenant_id, digest, content_digest, size)
  values (repository, for_tenant, blob, content, bytes)
  on conflict (repository_id, digest) do update set touched_at = now();
  return true;
end $$;
