import { describe, expect, test } from 'vitest'
import { endpointState, observe, planReplicas, startingMax, startRoom } from './replica-plan.ts'
import type { ReplicaRow } from './replicas.store.ts'
import type { EndpointState, ReplicaState } from './serving.states.ts'

const now = new Date('2026-01-01T12:00:00Z')
const ago = (seconds: number) => new Date(now.getTime() - seconds * 1000)
const failure = { message: 'boom', exitCode: 1, signal: null, reason: 'exited', at: now.toISOString() }
let count = 0
const replica = (state: ReplicaState, more: Partial<ReplicaRow> = {}): ReplicaRow => ({
  ...{ id: `r${count++}`, tenantId: 't', endpointId: 'e', imageDigest: 'new', state, attempt: 1, failures: 0 },
  ...{ address: state === 'READY' ? 'a:1' : null, failure: null, since: ago(5), until: null, createdAt: now },
  ...more,
})
const wanted = (replicas: number, desired: 'RUNNING' | 'STOPPED' | 'DELETED' = 'RUNNING') => ({
  ...{ desired, replicas, imageDigest: 'new', state: 'RUNNING' as EndpointState },
})
const old = (state: ReplicaState) => replica(state, { imageDigest: 'old' })

describe('the plan', () => {
  test('adds what is missing and keeps the old until the new is ready', () => {
    const before = [old('READY'), old('READY')]
    expect(planReplicas(wanted(2), before)).toEqual({ create: 2, drain: [] })
    const starting = [...before, replica('STARTING'), replica('STARTING')]
    expect(planReplicas(wanted(2), starting)).toEqual({ create: 0, drain: [] })
    const half = [...before, replica('READY'), replica('STARTING')]
    expect(planReplicas(wanted(2), half).drain.length).toBe(1)
    const whole = [...before, replica('READY'), replica('READY')]
    expect(planReplicas(wanted(2), whole).drain).toEqual(before)
  })

  test('parts first with those that do not answer, then with the youngest', () => {
    const kept = replica('READY', { createdAt: ago(100) })
    const young = replica('READY', { createdAt: ago(1) })
    const waiting = replica('WAITING', { createdAt: ago(200) })
    expect(planReplicas(wanted(1), [kept, young, waiting]).drain).toEqual([waiting, young])
  })

  test.each(['STOPPED', 'DELETED'] as const)('drains all when it is %s, and nothing twice', (desired) => {
    const ready = replica('READY')
    expect(planReplicas(wanted(3, desired), [ready, replica('DRAINING')])).toEqual({ create: 0, drain: [ready] })
  })
})

test('room for starting is what is not starting yet', () => {
  expect(startRoom([replica('READY'), replica('WAITING')])).toBe(startingMax)
  expect(startRoom([replica('STARTING'), replica('READY')])).toBe(startingMax - 1)
  expect(startRoom(Array.from({ length: startingMax + 1 }, () => replica('STARTING')))).toBe(0)
})

describe('a look at a replica', () => {
  test('backs off longer after every crash, a minute at most, and then starts anew', () => {
    const waits = [0, 1, 2, 5, 10].map((failures) => {
      const { change } = observe(replica('READY', { failures }), { seen: 'ended', failure }, now)
      expect(change).toMatchObject({ state: 'WAITING', address: null, failures: failures + 1, failure })
      return (change!.until!.getTime() - now.getTime()) / 1000
    })
    expect(waits).toEqual([1, 2, 4, 32, 60])
    const waiting = replica('WAITING', { attempt: 4, until: ago(-1) })
    expect(observe(waiting, { seen: 'absent' }, now).change).toBeNull()
    const due = observe({ ...waiting, until: ago(0) }, { seen: 'absent' }, now)
    expect(due.change).toMatchObject({ state: 'STARTING', attempt: 5 })
  })

  test('forgives crashes after a minute of service', () => {
    const look = (since: Date) =>
      observe(replica('READY', { failures: 2, since }), { seen: 'ready', address: 'a:1' }, now)
    expect(look(ago(10)).change).toBeNull()
    expect(look(ago(61)).change).toEqual({ failures: 0, failure: null })
  })

  test('takes one that does not answer out of service at once, and kills it when that lasts', () => {
    const silent = { seen: 'unready', address: 'a:1' } as const
    expect(observe(replica('READY'), silent, now).change).toMatchObject({ state: 'UNREADY', address: null })
    expect(observe(replica('UNREADY', { since: ago(30) }), silent, now)).toEqual({ change: null, kill: false })
    expect(observe(replica('UNREADY', { since: ago(61) }), silent, now)).toEqual({ change: null, kill: true })
    const back = observe(replica('UNREADY'), { seen: 'ready', address: 'a:1' }, now)
    expect(back.change).toMatchObject({ state: 'READY', address: 'a:1' })
  })

  test('kills one that never comes up, and leaves one that drains alone', () => {
    const starting = { seen: 'starting', address: null } as const
    expect(observe(replica('STARTING', { since: ago(299) }), starting, now).kill).toBe(false)
    expect(observe(replica('STARTING', { since: ago(301) }), starting, now).kill).toBe(true)
    expect(observe(replica('DRAINING'), { seen: 'ended', failure }, now)).toEqual({ change: null, kill: false })
  })

  test('one that has vanished is started again; one that is not there yet is waited for', () => {
    expect(observe(replica('READY'), { seen: 'absent' }, now).change).toMatchObject({ state: 'WAITING', failures: 1 })
    expect(observe(replica('STARTING'), { seen: 'absent' }, now).change).toBeNull()
  })
})

describe('the state of an endpoint', () => {
  const ready = replica('READY')
  const starting = replica('STARTING')
  const crashing = replica('WAITING', { failures: 3 })
  test.each<[string, EndpointState, ReplicaRow[], boolean, EndpointState]>([
    ['all ready', 'CONNECTING', [ready, ready], false, 'RUNNING'],
    ['none there yet', 'PENDING', [], true, 'PENDING'],
    ['none ready yet', 'PENDING', [starting, starting], true, 'CONNECTING'],
    ['some ready, the first time', 'CONNECTING', [ready, starting], true, 'CONNECTING'],
    ['some ready while it is scaled up', 'RUNNING', [ready, starting], true, 'RUNNING'],
    ['one lost', 'RUNNING', [ready, starting], false, 'DEGRADED'],
    ['one crashing, the other serving', 'RUNNING', [ready, crashing], false, 'DEGRADED'],
    ['all crashing', 'CONNECTING', [crashing, crashing], true, 'FAILED'],
    ['all lost for the first time', 'RUNNING', [starting, starting], false, 'CONNECTING'],
    ['an update whose new replica crashes', 'RUNNING', [old('READY'), old('READY'), crashing], true, 'RUNNING'],
  ])('%s: from %s', (_, state, replicas, rolling, expected) => {
    expect(endpointState({ ...wanted(2), state }, replicas, rolling)).toBe(expected)
  })

  test('is what was asked for when it is stopped or deleted, whatever still runs', () => {
    expect(endpointState(wanted(1, 'STOPPED'), [ready], true)).toBe('STOPPED')
    expect(endpointState(wanted(1, 'DELETED'), [ready], true)).toBe('DELETING')
  })
})
