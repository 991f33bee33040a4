-- What find_login told of one request, for all that come together: under load most of what the database did for small
-- reads was to answer this one by one. Each session goes with the tenant at the same place; `place` counts from 1.
create function find_logins(wanted_sessions uuid[], wanted_tenants text[])
  returns table (
    place bigint, expires_at timestamptz, user_id uuid, email text, full_name text, is_superuser boolean,
    is_active boolean, tenant_id uuid, tenant_code text, tenant_is_active boolean, tenant_features jsonb, role text)
  -- In this language the plan is made once per connection, not once per request.
  language plpgsql
as $$
declare
  scope_before text := current_setting('app.system', true);
begin
  perform set_config('app.system', 'on', true);
  return query
    select w.place, s.expires_at, u.id, u.email, u.full_name, u.is_superuser, u.is_active,
      t.id, t.code, t.is_active, t.features, m.role
    from unnest(wanted_sessions, wanted_tenants) with ordinality w (session_id, tenant_code, place)
      join sessions s on s.id = w.session_id
      join users u on u.id = s.user_id
      left join tenants t on t.code = w.tenant_code
      left join memberships m on m.tenant_id = t.id and m.user_id = u.id;
  -- A caller inside a transaction of its own keeps its own scope.
  perform set_config('app.system', coalesce(scope_before, ''), true);
end
$$;
drop function find_login(uuid, text);
