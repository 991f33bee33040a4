-- Filtering the audit by a part of an actor's e-mail or name: actors are few, their entries are many. So the actors that
-- match are found first, each by one step into an index, and their entries by that index too.

create index audit_events_tenant_actor on audit_events (tenant_id, actor_email, at desc, id desc);
create index audit_events_actor on audit_events (actor_email, at desc, id desc);

-- E-mails in the audit (of a tenant, or of all with null) that match, or that are those of users whose names match.
create function audit_actors(of_tenant uuid, pattern text) returns text[]
  language plpgsql stable as $$
declare
  last_email text := '';
  emails text[] := '{}';
begin
  loop
    if of_tenant is null then
      select e.actor_email into last_email from audit_events e
      where e.actor_email > last_email order by e.actor_email limit 1;
    else
      select e.actor_email into last_email from audit_events e
      where e.tenant_id = of_tenant and e.actor_email > last_email order by e.actor_email limit 1;
    end if;
    exit when last_email is null;
    emails := emails || last_email;
  end loop;
  return array(
    select email from unnest(emails) email
    where email ilike pattern or email in (select u.email from users u where u.full_name ilike pattern));
end
$$;
