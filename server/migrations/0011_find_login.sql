-- Everything a request has to know about its caller, as one statement that the connection keeps prepared: every request
-- asks it, so it has to be one round trip without a transaction around it. The function works for the system by its own
-- setting, so it needs no scope from outside; it gives nothing but the row of a session whose id the caller holds.
create function find_login(wanted_session uuid, wanted_tenant text)
  returns table (
    session_id uuid, expires_at timestamptz, user_id uuid, email text, full_name text, is_superuser boolean,
    is_active boolean, tenant_id uuid, tenant_code text, tenant_is_active boolean, tenant_features jsonb, role text)
  -- In this language the plan is made once per connection, not once per request.
  language plpgsql
as $$
declare
  scope_before text := current_setting('app.system', true);
begin
  perform set_config('app.system', 'on', true);
  return query
    select s.id, s.expires_at, u.id, u.email, u.full_name, u.is_superuser, u.is_active,
      t.id, t.code, t.is_active, t.features, m.role
    from sessions s
      join users u on u.id = s.user_id
      left join tenants t on t.code = wanted_tenant
      left join memberships m on m.tenant_id = t.id and m.user_id = u.id
    where s.id = wanted_session;
  -- A caller inside a transaction of its own keeps its own scope.
  perform set_config('app.system', coalesce(scope_before, ''), true);
end
$$;
