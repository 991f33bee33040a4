-- The tracker takes what many requests log in one statement, and draws curves of any length from outlines of outlines.

drop function tracker_log(
  uuid, uuid, text[], text[], text[], text[], text[], bigint[], bigint[], double precision[], integer);
drop function tracker_log_metrics(uuid, uuid, text[], bigint[], bigint[], double precision[], integer);
drop function tracker_create_run(uuid, bigint, uuid, text, text, bigint, text[], text[]);
drop function tracker_login(text);

-- The few points of a stretch that a curve needs. Level 0 outlines a chunk of 256 points, every further level four
-- stretches of the one below it. So a curve of any length, and any part of one, is drawn from about as many rows as it
-- shows points.
create table tracker_metric_outlines (
  series_id bigint not null,
  level smallint not null,
  place integer not null,
  tenant_id uuid not null,
  -- First, lowest, highest and last point, ordered by step.
  steps bigint[] not null,
  at_ms bigint[] not null,
  point_values double precision[] not null,
  primary key (series_id, level, place)
);
call enable_tenant_isolation('tracker_metric_outlines');

alter table tracker_metric_chunks drop column outline_steps, drop column outline_at_ms, drop column outline_values;

create or replace function delete_points_of_series() returns trigger
  language plpgsql
as $$
begin
  delete from tracker_metric_points where series_id in (select series_id from gone);
  delete from tracker_metric_chunks where series_id in (select series_id from gone);
  delete from tracker_metric_outlines where series_id in (select series_id from gone);
  return null;
end
$$;

-- Adds the outlines that a series with so many chunks lacks.
create function tracker_outline(tenant uuid, wanted bigint, chunks integer) returns void
  language plpgsql
as $$
declare
  done integer;
  ready integer := chunks;
begin
  for depth in 0..15 loop
    select coalesce(max(o.place) + 1, 0) into done
    from tracker_metric_outlines o where o.series_id = wanted and o.level = depth;
    if depth > 0 then
      ready := ready / 4;
    end if;
    exit when ready <= done;
    insert into tracker_metric_outlines (series_id, level, place, tenant_id, steps, at_ms, point_values)
    select wanted, depth, part, tenant, array_agg(step order by place), array_agg(at_ms order by place),
      array_agg(value order by place)
    from (
      select *, count(*) over (partition by part) as last,
        row_number() over (partition by part order by value, place) as lowest,
        row_number() over (partition by part order by value = 'NaN', value desc, place) as highest
      from (
        select *, row_number() over (partition by part order by step, at_ms, value) as place
        from (
          select c.chunk as part, u.*
          from tracker_metric_chunks c, unnest(c.steps, c.at_ms, c.point_values) u(step, at_ms, value)
          where depth = 0 and c.series_id = wanted and c.chunk >= done
          union all
          select o.place / 4, u.*
          from tracker_metric_outlines o, unnest(o.steps, o.at_ms, o.point_values) u(step, at_ms, value)
          where o.series_id = wanted and o.level = depth - 1 and o.place >= done * 4 and o.place < ready * 4
        ) point
      ) placed
    ) ranked
    where place in (1, last) or lowest = 1 or highest = 1
    group by part;
  end loop;
end
$$;

select tracker_outline(m.tenant_id, m.series_id, (m.packed_count / 256)::integer)
from tracker_metrics m where m.packed_count > 0;

-- Moves the oldest loose points of a series into full chunks; the newest chunk's worth stays loose, so that points that
-- are sent again are seen. The caller holds the row of the series.
create function tracker_pack(tenant uuid, run uuid, wanted_key text) returns void
  language plpgsql
as $$
declare
  series tracker_metrics;
  loose bigint;
  moved bigint;
  last tracker_metric_points;
begin
  select * into series from tracker_metrics m where m.tenant_id = tenant and m.run_id = run and m.key = wanted_key;
  select count(*) into loose from tracker_metric_points p where p.series_id = series.series_id;
  -- What was sent twice was counted twice.
  moved := greatest((loose - 256) / 256, 0) * 256;
  if moved > 0 then
    select * into last from tracker_metric_points p where p.series_id = series.series_id
    order by p.step, p.at_ms, p.value offset moved - 1 limit 1;
    insert into tracker_metric_chunks (series_id, chunk, tenant_id, steps, at_ms, point_values)
    select series.series_id, series.packed_count / 256 + place / 256, tenant, array_agg(step order by place),
      array_agg(at_ms order by place), array_agg(value order by place)
    from (
      select p.step, p.at_ms, p.value, row_number() over (order by p.step, p.at_ms, p.value) - 1 as place
      from tracker_metric_points p where p.series_id = series.series_id
    ) ordered
    where place < moved group by place / 256;
    delete from tracker_metric_points p
    where p.series_id = series.series_id and (p.step, p.at_ms, p.value) <= (last.step, last.at_ms, last.value);
    perform tracker_outline(tenant, series.series_id, ((series.packed_count + moved) / 256)::integer);
  end if;
  update tracker_metrics m set packed_count = m.packed_count + moved, loose_count = loose - moved
  where m.tenant_id = tenant and m.run_id = run and m.key = wanted_key;
end
$$;

-- Appends points, each to its run, and keeps the last value per key. A point that is there already is left out: clients
-- send a batch again when its answer was lost.
create function tracker_log_metrics(
    tenant uuid, runs uuid[], keys text[], steps bigint[], times bigint[], point_values double precision[])
  returns void
  language plpgsql
as $$
declare
  full_run uuid;
  full_key text;
begin
  for full_run, full_key in
    with given as (
      select * from unnest(runs, keys, steps, times, point_values) as g(run_id, key, step, at_ms, value)
    ),
    last as (
      select distinct on (run_id, key) *, count(*) over (partition by run_id, key) as points
      from given order by run_id, key, step desc, at_ms desc, value desc
    ),
    series as (
      insert into tracker_metrics as m (run_id, tenant_id, key, step, at_ms, value, loose_count)
      select run_id, tenant, key, step, at_ms, value, points from last order by run_id, key
      on conflict (run_id, key) do update set
        step = greatest(m.step, excluded.step),
        at_ms = case when (excluded.step, excluded.at_ms) > (m.step, m.at_ms) then excluded.at_ms else m.at_ms end,
        value = case when (excluded.step, excluded.at_ms, excluded.value) > (m.step, m.at_ms, m.value)
          then excluded.value else m.value end,
        loose_count = m.loose_count + excluded.loose_count
      returning m.run_id, m.key, m.series_id, m.loose_count
    ),
    loose as (
      insert into tracker_metric_points (series_id, tenant_id, step, at_ms, value)
      select s.series_id, tenant, g.step, g.at_ms, g.value from given g join series s using (run_id, key)
      on conflict do nothing
    )
    select s.run_id, s.key from series s where s.loose_count >= 768
  loop
    perform tracker_pack(tenant, full_run, full_key);
  end loop;
end
$$;

-- What requests log to runs, each to its own. Nothing of a request is logged that is told of here: its run is not there
-- or deleted, or a parameter holds another value already. Requests of one call do not give one run parameters twice.
create function tracker_log(
    tenant uuid, runs uuid[], param_of integer[], param_keys text[], param_values text[], tag_of integer[],
    tag_keys text[], tag_values text[], metric_of integer[], keys text[], steps bigint[], times bigint[],
    point_values double precision[])
  returns table (request integer, lifecycle text, changed_key text, held text, given text)
  language plpgsql
  -- Plans are kept from when the tables were small.
  set enable_seqscan = off
as $$
declare
  refused integer[] := '{}';
  expected bigint;
  kept bigint;
begin
  for request, lifecycle in
    select g.place, (select r.lifecycle_stage from tracker_runs r where r.run_id = g.run_id and r.tenant_id = tenant)
    from unnest(runs) with ordinality g(run_id, place)
  loop
    if lifecycle is distinct from 'active' then
      refused := refused || request;
      return next;
    end if;
  end loop;

  if cardinality(param_of) > 0 then
    lifecycle := 'active';
    for request, changed_key, held, given in
      select distinct on (n.place) n.place, n.key, n.held, n.value
      from (
        select g.*, (select p.value from tracker_params p where p.run_id = runs[g.place] and p.key = g.key) as held
        from unnest(param_of, param_keys, param_values) g(place, key, value) where g.place <> all(refused)
      ) n
      where n.held <> n.value
    loop
      refused := refused || request;
      return next;
    end loop;
    select count(*) into expected from unnest(param_of) place where place <> all(refused);
    insert into tracker_params as p (run_id, tenant_id, key, value)
    select runs[g.place], tenant, g.key, g.value from unnest(param_of, param_keys, param_values) g(place, key, value)
    where g.place <> all(refused) order by 1, 3
    on conflict (run_id, key) do update set value = p.value where p.value = excluded.value;
    get diagnostics kept = row_count;
    if kept < expected then
      raise serialization_failure using message = 'another request gave a parameter its value at the same time';
    end if;
  end if;

  if cardinality(tag_of) > 0 then
    with wanted as (
      select distinct on (runs[g.place], g.key) runs[g.place] as run_id, g.key, g.value
      from unnest(tag_of, tag_keys, tag_values) g(place, key, value)
      where g.place <> all(refused) order by runs[g.place], g.key, g.place desc
    ),
    -- The tag of the name and the name are one thing.
    named as (
      update tracker_runs r set name = w.value from wanted w
      where r.run_id = w.run_id and r.tenant_id = tenant and w.key = 'mlflow.runName' and w.value <> ''
    )
    insert into tracker_tags (run_id, tenant_id, key, value)
    select w.run_id, tenant, w.key, w.value from wanted w order by w.run_id, w.key
    on conflict (run_id, key) do update set value = excluded.value;
  end if;

  if cardinality(metric_of) > 0 then
    perform tracker_log_metrics(tenant, array_agg(runs[g.place]), array_agg(g.key), array_agg(g.step),
      array_agg(g.at_ms), array_agg(g.value))
    from unnest(metric_of, keys, steps, times, point_values) g(place, key, step, at_ms, value)
    where g.place <> all(refused) having count(*) > 0;
  end if;
end
$$;

-- Opens runs, each in its experiment unless that is not there or deleted, and says where the artifacts of each go.
create function tracker_create_runs(
    tenant uuid, experiments bigint[], runs uuid[], names text[], users text[], starts bigint[], tag_of integer[],
    tag_keys text[], tag_values text[])
  returns table (lifecycle text, location text)
  language plpgsql
  set enable_seqscan = off
as $$
declare
  active boolean[] := '{}';
  experiment bigint;
begin
  foreach experiment in array experiments loop
    select e.lifecycle_stage, e.artifact_location into lifecycle, location
    from tracker_experiments e where e.tenant_id = tenant and e.experiment_id = experiment;
    active := active || (lifecycle is not distinct from 'active');
    return next;
  end loop;
  insert into tracker_runs (run_id, tenant_id, experiment_id, name, user_name, start_ms)
  select g.run_id, tenant, g.experiment_id, g.name, g.user_name, g.start_ms
  from unnest(experiments, runs, names, users, starts, active)
    g(experiment_id, run_id, name, user_name, start_ms, is_active)
  where g.is_active;
  insert into tracker_tags (run_id, tenant_id, key, value)
  select runs[g.place], tenant, g.key, g.value from unnest(tag_of, tag_keys, tag_values) g(place, key, value)
  where active[g.place];
end
$$;

-- The points that a curve of about so many points is drawn from, between two steps if they are given: outlines of
-- stretches that lie between them, every point of a chunk at their edge, and the points that are in no chunk yet.
create function tracker_curve(wanted bigint, packed bigint, enough integer, from_step bigint, to_step bigint)
  returns table (step bigint, at_ms bigint, value double precision, loose boolean)
  language plpgsql
as $$
declare
  chunks constant integer := packed / 256;
  first_chunk integer := 0;
  after_chunk integer := chunks;
  depth integer;
  before integer;
begin
  loop
    before := depth;
    depth := -1;
    while depth < 15 and 4 * ((after_chunk - first_chunk) >> (2 * depth + 2)) >= enough loop
      depth := depth + 1;
    end loop;
    exit when from_step is null or depth < 0 or depth >= before;
    select coalesce(min(o.place << (2 * l)), 0), coalesce(max((o.place + 1) << (2 * l)), 0)
    into first_chunk, after_chunk
    from generate_series(0, depth) l
    join tracker_metric_outlines o on o.series_id = wanted and o.level = l
      and o.place >= case when l = depth then first_chunk >> (2 * l) else (chunks >> (2 * l + 2)) << 2 end
      and o.place <= (after_chunk - 1) >> (2 * l)
    where o.steps[1] <= to_step and o.steps[cardinality(o.steps)] >= from_step;
  end loop;

  return query with recursive stretch as (
    select o.level, o.place, o.steps, o.at_ms, o.point_values,
      from_step is null or (o.steps[1] >= from_step and o.steps[cardinality(o.steps)] <= to_step) as inside
    from generate_series(0, greatest(depth, 0)) l
    join tracker_metric_outlines o on o.series_id = wanted and o.level = l
      and o.place >= case when l >= depth then first_chunk >> (2 * l) else (chunks >> (2 * l + 2)) << 2 end
      and o.place <= (after_chunk - 1) >> (2 * l)
    where from_step is null or (o.steps[1] <= to_step and o.steps[cardinality(o.steps)] >= from_step)
    union all
    select o.level, o.place, o.steps, o.at_ms, o.point_values,
      o.steps[1] >= from_step and o.steps[cardinality(o.steps)] <= to_step
    from stretch s
    join tracker_metric_outlines o on o.series_id = wanted and o.level = s.level - 1
      and o.place between s.place * 4 and s.place * 4 + 3
    where not s.inside and s.level > 0 and o.steps[1] <= to_step and o.steps[cardinality(o.steps)] >= from_step
  )
  select u.*, false from stretch s, unnest(s.steps, s.at_ms, s.point_values) u
  where s.inside and depth >= 0
  union all
  select u.*, false
  from stretch s join tracker_metric_chunks c on c.series_id = wanted and c.chunk = s.place,
    unnest(c.steps, c.at_ms, c.point_values) u(step, at_ms, value)
  where s.level = 0 and (depth < 0 or not s.inside) and (from_step is null or u.step between from_step and to_step)
  union all
  select p.step, p.at_ms, p.value, true from tracker_metric_points p
  where p.series_id = wanted and (from_step is null or p.step between from_step and to_step);
end
$$;

-- What runs logged, with the last value per metric key, for many runs at once. Keys and values come apart, as arrays are
-- made and read several times as fast as objects.
create function tracker_run_data(tenant uuid, runs uuid[])
  returns table (
    run_id uuid, metric_keys json, metric_values json, metric_times json, metric_steps json, param_keys json,
    param_values json, tag_keys json, tag_values json, datasets json, model_inputs json, model_outputs json
  )
  -- In this language the plan is made once per connection, not once per request.
  language plpgsql
  set enable_seqscan = off
as $$
begin
  return query select g.run_id, m.keys, m.last_values, m.times, m.steps, p.keys, p.label_values, t.keys, t.label_values,
    d.items, o.inputs, o.outputs
  from unnest(runs) g(run_id)
  left join (
    select l.run_id, json_agg(l.key order by l.key) as keys, json_agg(l.value order by l.key) as last_values,
      json_agg(l.at_ms order by l.key) as times, json_agg(l.step order by l.key) as steps
    from tracker_metrics l where l.tenant_id = tenant and l.run_id = any(runs) group by l.run_id
  ) m on m.run_id = g.run_id
  left join (
    select l.run_id, json_agg(l.key order by l.key) as keys, json_agg(l.value order by l.key) as label_values
    from tracker_params l where l.tenant_id = tenant and l.run_id = any(runs) group by l.run_id
  ) p on p.run_id = g.run_id
  left join (
    select l.run_id, json_agg(l.key order by l.key) as keys, json_agg(l.value order by l.key) as label_values
    from tracker_tags l where l.tenant_id = tenant and l.run_id = any(runs) group by l.run_id
  ) t on t.run_id = g.run_id
  left join (
    select rd.run_id, json_agg(json_build_object(
      'tags', (
        select coalesce(json_agg(json_build_object('key', e.key, 'value', e.value)), '[]') from jsonb_each_text(rd.tags) e
      ),
      'dataset', json_strip_nulls(json_build_object('name', ds.name, 'digest', ds.digest,
        'source_type', ds.source_type, 'source', ds.source, 'schema', ds.schema, 'profile', ds.profile))
    ) order by ds.name, ds.digest) as items
    from tracker_run_datasets rd join tracker_datasets ds on ds.id = rd.dataset_id
    where rd.tenant_id = tenant and rd.run_id = any(runs) group by rd.run_id
  ) d on d.run_id = g.run_id
  left join (
    select rm.run_id,
      json_agg(json_build_object('model_id', rm.model_id) order by rm.model_id)
        filter (where rm.direction = 'input') as inputs,
      json_agg(json_build_object('model_id', rm.model_id, 'step', rm.step) order by rm.step, rm.model_id)
        filter (where rm.direction = 'output') as outputs
    from tracker_run_models rm where rm.tenant_id = tenant and rm.run_id = any(runs) group by rm.run_id
  ) o on o.run_id = g.run_id;
end
$$;

-- Whom tokens let in, looked up before it is known for which tenants: the one place that sees all tenants' tokens.
create function tracker_logins(hashes text[])
  returns table (
    token_hash text, token_id uuid, tenant_id uuid, tenant_code text, tenant_is_active boolean, tenant_features jsonb,
    user_id uuid, email text, full_name text, is_superuser boolean, role text, last_used_at timestamptz
  )
  -- In this language the plan is made once per connection, not once per request.
  language plpgsql
as $$
declare
  scope_before text := current_setting('app.system', true);
begin
  perform set_config('app.system', 'on', true);
  return query select k.token_hash, k.id, t.id, t.code, t.is_active, t.features, u.id, u.email, u.full_name,
    u.is_superuser, m.role, k.last_used_at
  from tracker_tokens k
  join tenants t on t.id = k.tenant_id
  join users u on u.id = k.user_id and u.is_active
  left join memberships m on m.tenant_id = k.tenant_id and m.user_id = k.user_id
  where k.token_hash = any(hashes) and k.revoked_at is null and (k.expires_at is null or k.expires_at > now());
  perform set_config('app.system', coalesce(scope_before, ''), true);
end
$$;
