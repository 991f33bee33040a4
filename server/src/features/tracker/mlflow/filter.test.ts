import { describe, expect, test } from 'vitest'
import { parseFilter } from './filter.ts'
import { parseOrders } from './orders.ts'
import { runGrammar } from './run-search.store.ts'

const parse = (text: string) =>
  parseFilter(text, runGrammar).map(({ entity, key, operator, value }) => [entity, key, operator, value])

describe('parseFilter', () => {
  test.each([
    ['metrics.loss < 0.5', ['metric', 'loss', '<', 0.5]],
    ['metric.`val/acc top 5`>=1e-3', ['metric', 'val/acc top 5', '>=', 0.001]],
    ['metrics."a b" != -1', ['metric', 'a b', '!=', -1]],
    ["params.lr='0.1'", ['param', 'lr', '=', '0.1']],
    ['parameter.model = "it\'s"', ['param', 'model', '=', "it's"]],
    ["tags.mlflow.source.type = 'LOCAL'", ['tag', 'mlflow.source.type', '=', 'LOCAL']],
    ["tag.`x` ilike 'A%'", ['tag', 'x', 'ILIKE', 'A%']],
    ["attributes.run_id IN ('a', 'b')", ['attribute', 'run_id', 'IN', ['a', 'b']]],
    ["run_name not in ('a')", ['attribute', 'run_name', 'NOT IN', ['a']]],
    ['attribute.`Run name` = "x"', ['attribute', 'run_name', '=', 'x']],
    ['created > 1700000000000', ['attribute', 'start_time', '>', 1_700_000_000_000]],
    ['params.seed IS NULL', ['param', 'seed', 'IS NULL', null]],
    ['tags.a is not null', ['tag', 'a', 'IS NOT NULL', null]],
    ["dataset.context = 'train'", ['dataset', 'context', '=', 'train']],
  ])('%s', (text, expected) => {
    expect(parse(text)).toEqual([expected])
  })

  test('AND joins, in any case and over lines; words inside of quotes are text', () => {
    expect(parse("metrics.a > 1 and\n params.b = 'x AND y' AND tags.c != ''")).toEqual([
      ['metric', 'a', '>', 1],
      ['param', 'b', '=', 'x AND y'],
      ['tag', 'c', '!=', ''],
    ])
    expect(parse('  ')).toEqual([])
  })

  test.each([
    'metrics.a',
    'metrics.a >',
    "metrics.a > '1'",
    'params.a = 1',
    "params.a > 'x'",
    "metrics.a LIKE 'x'",
    "metrics.a > 1 OR params.b = 'x'",
    "nothing.a = 'x'",
    "attributes.nothing = 'x'",
    "params.a = 'x",
    "params.a = 'x'; drop table runs",
    'attributes.run_id IN ()',
    "(params.a = 'x')",
    "params.a = 'x' params.b = 'y'",
  ])('INVALID_PARAMETER_VALUE: %s', (text) => {
    expect(() => parse(text)).toThrow(expect.objectContaining({ code: 'INVALID_PARAMETER_VALUE' }))
  })
})

describe('parseOrders', () => {
  test('a key with its direction, ascending when it does not say', () => {
    const orders = parseOrders(['metrics.`a desc` DESC', 'params.b', 'start_time asc'], runGrammar)
    expect(orders).toEqual([
      { entity: 'metric', key: 'a desc', descending: true },
      { entity: 'param', key: 'b', descending: false },
      { entity: 'attribute', key: 'start_time', descending: false },
    ])
  })

  test.each(['', 'metrics.a sideways', 'metrics.a desc desc', 'nothing.a'])('INVALID_PARAMETER_VALUE: %j', (text) => {
    expect(() => parseOrders([text], runGrammar)).toThrow(expect.objectContaining({ code: 'INVALID_PARAMETER_VALUE' }))
  })
})
