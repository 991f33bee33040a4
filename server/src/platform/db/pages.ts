import type { SelectQueryBuilder } from 'kysely'

/** A page of what a query finds and how much it finds in all, asked in one go: neither waits for the other. */
export async function pageAndTotal<Item>(
  // biome-ignore lint/suspicious/noExplicitAny: a count does not care for tables and columns
  found: SelectQueryBuilder<any, any, any>,
  page: { execute(): Promise<Item[]> },
): Promise<{ items: Item[]; total: number }> {
  const counted = found.select(({ fn }) => fn.countAll<number>().as('total')).executeTakeFirstOrThrow()
  const [items, { total }] = await Promise.all([page.execute(), counted])
  return { items, total }
}
