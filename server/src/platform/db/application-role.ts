import type pg from 'pg'

/** The role that the server works as: it owns no table, so row-level security binds it. */
export const applicationRole = 'platform_app'

const remedy = (user: string) =>
  `Let an administrator of the database run once:\n  CREATE ROLE ${applicationRole} NOLOGIN;\n  GRANT ${applicationRole} TO ${user};`

/**
 * Makes sure that the role exists and that the present user may act as it.
 * @throws an error that names the statements to run, when the present user may not.
 */
export async function ensureApplicationRole(client: pg.ClientBase): Promise<void> {
  const state = await client.query<{ user: string; exists: boolean; member: boolean; superuser: boolean }>(
    `select quote_ident(current_user) as "user", role.oid is not null as exists,
            coalesce(pg_has_role(current_user, role.oid, 'member'), false) as member,
            (select rolsuper from pg_roles where rolname = current_user) as superuser
       from (select 1) as one left join pg_roles as role on role.rolname = $1`,
    [applicationRole],
  )
  const [{ user, exists, member, superuser } = { user: '', exists: false, member: false, superuser: false }] =
    state.rows
  try {
    // A role belongs to all databases of a server, so the migration of another one may create it at this moment.
    if (!exists) await client.query(`create role ${applicationRole} login`).catch(ignoreDuplicate)
    if (!member && !superuser) await client.query(`grant ${applicationRole} to ${user}`)
  } catch (cause) {
    throw new Error(`The role ${applicationRole} is missing or not granted. ${remedy(user)}`, { cause })
  }
}

function ignoreDuplicate(error: { code?: string }): void {
  if (error.code !== '42710' && error.code !== '23505') throw error
}

/** Refuses a connection that row-level security would not bind. */
export async function assertBound(pool: pg.Pool): Promise<void> {
  const { rows } = await pool.query<{ name: string; unbound: boolean }>(
    'select rolname as name, rolsuper or rolbypassrls as unbound from pg_roles where rolname = current_user',
  )
  if (rows[0]?.unbound !== false) throw new Error(`The role ${rows[0]?.name} passes row-level security by; it must not`)
}
