import pg from 'pg'
import { sendOnce } from './http-load.fixture.ts'
import type { TrackerServer } from './tracker-servers.fixture.ts'

const keys = 5

/** An experiment with so many runs, each with 5 metrics, 5 parameters and 3 tags, written past the server. */
type Fill = (server: TrackerServer, runs: number) => Promise<string>

async function newExperiment(server: TrackerServer, runs: number): Promise<string> {
  const path = `${server.prefix}/api/2.0/mlflow/experiments/create`
  const body = JSON.stringify({ name: `filled with ${runs}` })
  const { experiment_id } = JSON.parse(await sendOnce(server, { method: 'POST', path, body }))
  return experiment_id
}

async function write(server: TrackerServer, statements: string[]): Promise<void> {
  const client = new pg.Client({ connectionString: server.databaseUrl })
  await client.connect()
  try {
    for (const statement of statements) await client.query(statement)
  } finally {
    await client.end()
  }
}

export const fillOurs: Fill = async (server, runs) => {
  const experiment = await newExperiment(server, runs)
  const each = (table: string, columns: string, values: string, count: number) => `
    insert into ${table} (run_id, tenant_id, ${columns})
    select run_id, tenant_id, ${values} from tracker_runs, generate_series(0, ${count - 1}) i
    where experiment_id = ${experiment}`
  await write(server, [
    "set app.system = 'on'",
    `insert into tracker_runs (run_id, tenant_id, experiment_id, name, start_ms)
     select gen_random_uuid(), tenant_id, experiment_id, 'run-' || n, 1700000000000 + n
     from tracker_experiments, generate_series(1, ${runs}) n where experiment_id = ${experiment}`,
    each('tracker_metrics', 'key, step, at_ms, value, loose_count', "'m' || i, 10, 1700000000000, random(), 0", keys),
    each('tracker_params', 'key, value', "'p' || i, (random() * 10)::int::text", keys),
    each('tracker_tags', 'key, value', "'t' || i, 'some value'", 3),
    'vacuum analyze',
  ])
  return experiment
}

export const fillMlflow: Fill = async (server, runs) => {
  const experiment = await newExperiment(server, runs)
  const each = (table: string, columns: string, values: string, count: number) => `
    insert into ${table} (run_uuid, ${columns})
    select run_uuid, ${values} from runs, generate_series(0, ${count - 1}) i where experiment_id = ${experiment}`
  await write(server, [
    `insert into runs (run_uuid, name, source_type, status, start_time, lifecycle_stage, experiment_id, artifact_uri, user_id)
     select replace(gen_random_uuid()::text, '-', ''), 'run-' || n, 'LOCAL', 'RUNNING', 1700000000000 + n, 'active',
       ${experiment}, 'mlflow-artifacts:/', 'bench' from generate_series(1, ${runs}) n`,
    each('latest_metrics', 'key, value, timestamp, step, is_nan', "'m' || i, random(), 1700000000000, 10, false", keys),
    each('params', 'key, value', "'p' || i, (random() * 10)::int::text", keys),
    each('tags', 'key, value', "'t' || i, 'some value'", 3),
    'vacuum analyze',
  ])
  return experiment
}
