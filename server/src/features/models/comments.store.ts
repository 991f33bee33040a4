import type { Tx } from '../../platform/db/transaction.ts'
import { newId } from '../../platform/ids.ts'

export interface CommentRow {
  id: string
  version: number
  author: string
  body: string
  createdAt: Date
}

const columns = ['id', 'version', 'author', 'body', 'createdAt'] as const

/** Newest first. */
export async function listComments(tx: Tx, tenantId: string, modelId: string, version: number): Promise<CommentRow[]> {
  return tx
    .selectFrom('modelComments')
    .select(columns)
    .where('tenantId', '=', tenantId)
    .where('modelId', '=', modelId)
    .where('version', '=', version)
    .orderBy('createdAt', 'desc')
    .orderBy('id', 'desc')
    .execute()
}

export async function insertComment(
  tx: Tx,
  tenantId: string,
  comment: { modelId: string; version: number; author: string; body: string; createdAt: Date },
): Promise<CommentRow> {
  return tx
    .insertInto('modelComments')
    .values({ id: newId(), tenantId, ...comment })
    .returning(columns)
    .executeTakeFirstOrThrow()
}
