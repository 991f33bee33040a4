import { describe, expect, test } from 'vitest'
import { parquetFiles } from './parquet.fixture.ts'
import { readParquetFooter } from './parquet-footer.ts'
import { readParquetColumn } from './parquet-pages.ts'
import { dtypeOf } from './parquet-values.ts'

async function readTable(content: Buffer) {
  const readRange = async (start: number, end: number) => content.subarray(start, end)
  const file = await readParquetFooter(content.length, readRange)
  const columns: Record<string, unknown[]> = {}
  for (const column of file.columns)
    columns[column.name] = (await Array.fromAsync(readParquetColumn(column, readRange))).flat()
  return { rows: file.rows, dtypes: Object.fromEntries(file.columns.map((c) => [c.name, dtypeOf(c)])), columns }
}

const bytesOf = (name: keyof typeof parquetFiles) => Buffer.from(parquetFiles[name], 'base64')
const rows = Array.from({ length: 12 }, (_, index) => index)

describe('readParquetColumn', () => {
  test.each(Object.keys(parquetFiles) as (keyof typeof parquetFiles)[])('reads every value: %s', async (name) => {
    const table = await readTable(bytesOf(name))
    expect(table.rows).toBe(12)
    expect(table.dtypes).toEqual({
      id: 'integer',
      score: 'number',
      label: 'text',
      day: 'time',
      at: 'time',
      price: 'number',
      tags: 'list',
      ok: 'boolean',
      raw: 'text',
    })
    expect(table.columns).toEqual({
      id: rows.map((i) => (i * 2 ** 50 > Number.MAX_SAFE_INTEGER ? String(BigInt(i) << 50n) : i * 2 ** 50)),
      score: rows.map((i) => (i % 4 === 1 ? null : i / 2)),
      label: rows.map((i) => (i % 3 ? '고양이' : 'dog')),
      day: rows.map((i) => new Date(Date.UTC(1969, 11, 30 + i)).toISOString().slice(0, 10)),
      at: rows.map((i) => new Date(Date.UTC(2026, 0, 2, 3 + i, 4, 5, 250)).toISOString().replace('250Z', '25Z')),
      price: rows.map((i) => (i * 5 - 7) / 4),
      tags: rows.map((i) => (i % 5 === 4 ? null : Array.from({ length: i % 3 }, (_, j) => `t${j}`))),
      ok: rows.map((i) => i % 2 === 0),
      raw: rows.map(() => '2 bytes'),
    })
  })

  test('damage anywhere is a SyntaxError or other values, and never anything else', async () => {
    for (const name of ['snappyDictionary', 'lz4Plain', 'zstdDelta'] as const) {
      const good = bytesOf(name)
      for (let at = 0; at < good.length; at += 3) {
        const bad = Buffer.from(good)
        bad[at]! ^= 0x55
        const outcome = await readTable(bad).catch((error) => error)
        if (outcome instanceof Error) expect(outcome, `${name} at ${at}`).toBeInstanceOf(SyntaxError)
      }
    }
  })
})
