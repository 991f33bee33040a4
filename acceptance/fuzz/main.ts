/**
 * Sends made-up requests to every operation that /openapi.json describes and says what was wrong with the answers.
 * Usage: node acceptance/fuzz/main.ts [--minutes 1] [--seed N] [--lanes 2] [--only REGEXP]
 *        [--url http://… --email … --password …]   (without: a platform of its own, which is removed afterwards)
 * Use it on nothing that holds data: it changes and deletes what it finds.
 */
import { randomInt } from 'node:crypto'
import { parseArgs } from 'node:util'
import { type FuzzResult, fuzz } from './fuzz.ts'
import { startOwnPlatform } from './own-platform.ts'

const { values: options } = parseArgs({
  options: {
    minutes: { type: 'string', default: '1' },
    seed: { type: 'string', default: String(randomInt(1_000_000)) },
    lanes: { type: 'string', default: '2' },
    only: { type: 'string' },
    url: { type: 'string' },
    email: { type: 'string', default: 'admin@example.com' },
    password: { type: 'string', default: 'only for the fuzzer' },
  },
})

const seed = Number(options.seed)
const own = options.url ? null : await startOwnPlatform(options.password)
console.log(`seed ${seed}, ${options.minutes} min, ${options.lanes} lanes, ${options.url ?? own!.url}`)
try {
  const result = await fuzz({
    url: new URL(options.url ?? own!.url),
    email: options.email,
    password: options.password,
    seed,
    seconds: Number(options.minutes) * 60,
    lanes: Number(options.lanes),
    ...(options.only ? { only: new RegExp(options.only) } : {}),
    ...(own ? { prepare: own.prepare } : {}),
    onFault: (fault) => {
      console.log(`\n${fault.operation}: ${fault.fault}\n  ${fault.shown}\n  ${fault.curl.slice(0, 1500)}`)
      own?.logOf(fault.shown).then((line) => line && console.log(`  ${line}`), console.error)
    },
  })
  report(result)
  if (result.faults.length) process.exitCode = 1
} finally {
  await own?.stop()
}

function report({ requests, faults, statuses, slowest }: FuzzResult): void {
  const succeeded = [...statuses].filter(([, counts]) => [...counts.keys()].some((status) => status < 300))
  const never = [...statuses.keys()].filter((id) => !succeeded.some(([one]) => one === id))
  console.log(`\n${requests} requests; ${succeeded.length} of ${statuses.size} operations succeeded at least once`)
  if (never.length) console.log(`never: ${never.sort().join(', ')}`)
  console.log(`slowest: ${slowest.map(({ operation, ms }) => `${operation} ${Math.round(ms)} ms`).join(', ')}`)
  console.log(`${faults.length} kinds of faults`)
  for (const { operation, fault, times } of faults) console.log(`  ${times} x ${operation}: ${fault}`)
}
