-- A tracker token also has to know what its tenant has switched off.
drop function tracker_login(text);
create function tracker_login(hash text)
  returns table (
    token_id uuid, tenant_id uuid, tenant_code text, tenant_is_active boolean, tenant_features jsonb, user_id uuid,
    email text, full_name text, is_superuser boolean, role text, last_used_at timestamptz
  )
  -- In this language the plan is made once per connection, not once per request.
  language plpgsql stable
  set app.system = 'on'
as $$
begin
  return query select k.id, t.id, t.code, t.is_active, t.features, u.id, u.email, u.full_name, u.is_superuser, m.role,
    k.last_used_at
  from tracker_tokens k
  join tenants t on t.id = k.tenant_id
  join users u on u.id = k.user_id and u.is_active
  left join memberships m on m.tenant_id = k.tenant_id and m.user_id = k.user_id
  where k.token_hash = hash and k.revoked_at is null and (k.expires_at is null or k.expires_at > now());
end
$$;
