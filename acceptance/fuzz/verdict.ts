import { errorCatalogue } from '../../server/src/platform/errors.ts'
import { validator } from '../../server/src/platform/http/validation.ts'
import type { DescribedOperation, Schema } from './document.ts'
import type { Attempt } from './requests.ts'
import type { WireAnswer } from './wire.ts'

/** What no answer may show: traces, paths and queries of the server, hashes of passwords. */
const leaks =
  /\n\s+at \S+|node_modules|server\/src|\$argon2|syntax error at or near|violates \w+ constraint|ECONNREFUSED|ENOENT|EACCES|select .+ from "|invalid input syntax|relation "\w+"/i

/** Tell about the server itself, to everybody or to global administrators. */
const ofTheServer = /^(machine\.docsAsset|system\.getHealth)$/

/** Only these may answer that something behind them does not work. */
const mayFail: Record<number, RegExp> = { 502: /^proxy\./, 503: /^(proxy|machine)\./, 504: /^proxy\./ }

const checks = new WeakMap<Schema, (value: unknown) => void>()
const fits = (schema: Schema, value: unknown): string | null => {
  const check = checks.get(schema) ?? validator('body', schema as never)
  checks.set(schema, check)
  try {
    check(structuredClone(value))
    return null
  } catch (error) {
    return (error as Error).message
  }
}

/** What is wrong with an answer: a short name of the fault each, and what shows it. */
export function judge(attempt: Attempt, answer: WireAnswer): { fault: string; shown: string }[] {
  const faults: { fault: string; shown: string }[] = []
  const { operation, wire } = attempt
  const { status, headers, text } = answer
  const wrong = (fault: string, shown = text.slice(0, 400)) => faults.push({ fault, shown })

  if (status >= 500 && !(mayFail[status]?.test(operation.id) && status in operation.responses))
    wrong(`status ${status}`)
  if (leaks.test(text) && !ofTheServer.test(operation.id))
    wrong('a leak', text.slice(Math.max(0, text.search(leaks) - 200)).slice(0, 400))
  if (wire.method === 'HEAD' && text) wrong('HEAD with a body')
  if (status === 204 && text) wrong('204 with a body')
  if (!headers['x-request-id']) wrong('no x-request-id')
  if (status >= 400 && wire.method !== 'HEAD') for (const fault of envelopeFaults(attempt, answer)) wrong(fault)
  if (attempt.faithful) for (const { fault, shown } of contractFaults(attempt, answer)) wrong(fault, shown)
  if (attempt.foreign && status < 400) wrong(`a thing of another tenant answers ${status}`)
  return faults
}

function envelopeFaults({ wire, operation }: Attempt, { status, headers, text }: WireAnswer): string[] {
  // The protocols of others under our roof have errors of their own, and so have inference servers.
  if (
    /^(registry\.ping$|proxy\.)/.test(operation.id) ||
    /^\/(v2|api\/v1\/mlflow|api\/2\.0|ajax-api)(\/|$)/.test(wire.target)
  )
    return text.startsWith('{') ? [] : ['no JSON error']
  if (!String(headers['content-type']).startsWith('application/json')) return [`${status} without an envelope`]
  const body = parsed(text) as Record<string, unknown>
  if (Object.keys(body ?? {}).join() !== 'error_id,code,message,detail') return [`${status} with another envelope`]
  const known = errorCatalogue[body.code as keyof typeof errorCatalogue]
  return known?.status === status ? [] : [`${status} with the code ${body.code}`]
}

function contractFaults({ operation, json }: Attempt, { status, headers, text }: WireAnswer) {
  const faults: { fault: string; shown: string }[] = []
  if (!(status in operation.responses) && !undeclared(operation, status))
    return [{ fault: `undeclared status ${status}`, shown: text.slice(0, 400) }]
  const declared = operation.responses[status]
  if (declared && status < 400) {
    const type = String(headers['content-type']).split(';')[0]
    if (declared.type === 'application/json' && type === 'application/json') {
      const misfit = fits(declared.schema, parsed(text))
      if (misfit) faults.push({ fault: `${status} does not fit its schema`, shown: misfit })
    }
  }
  if (status < 300 && json !== undefined && operation.body) {
    const misfit = fits(operation.body.schema, json)
    if (misfit) faults.push({ fault: 'took a body that it describes as wrong', shown: misfit })
  }
  return faults
}

/** Of the wire rather than of the operation: a body nobody asked for that is too large, a header too long. */
const undeclared = ({ body }: DescribedOperation, status: number): boolean =>
  status === 431 || status === 414 || status >= 500 || (body === null && (status === 413 || status === 415))

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
