import { sql } from 'kysely'
import type { Database } from '../../platform/db/database.ts'

/** Whether the database answers at all; throws when it does not. */
export const askDatabase = (db: Database): Promise<unknown> => sql`select 1`.execute(db.kysely)
