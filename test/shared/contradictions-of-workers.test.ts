// D4 T01 The numbers of a worker's statement: bytes, time, output and connections within the limits
// of its plan, and an outcome that they allow. A worker that exceeded a limit can't say that it did
// not, and one that executed a call can't say that it refused.

import { expect, test } from 'vitest'
import { sha256 } from '../../shared/bytes/json.ts'
import { contradictions } from '../../shared/evidence/contradictions.ts'
import type { Grant, Statement } from '../../shared/evidence/statement.ts'
import { DEFAULT_LIMITS, LIMITS } from '../../shared/limits.ts'
import type { Plan } from '../../shared/plan/plan.ts'
import { EX, OTHER, resigned } from './alterations.ts'
import { executedBundle, grantIn, NOW, statementIn } from './evidence.ts'
import { type Changes, withChanges } from './tamper.ts'

const executed = executedBundle()
type Question = { readonly statement: Statement; readonly grant: Grant | null; readonly plan: Plan | null }

/** The places of the contradictions, with changes of the statement, the plan and the grant. */
function placesIn(to: Changes, plan: Changes = {}, grant: Changes = {}): string[] {
  const question: Question = {
    statement: withChanges(statementIn(executed), resigned(executed, to)),
    grant: withChanges(grantIn(executed), grant),
    plan: withChanges(executed.call.plan, plan),
  }
  return contradictions(question.statement, question).map(({ at }) => at)
}
const at = (...fields: readonly string[]): string[] => fields.map((field) => `/predicate/execution/${field}`)

const connection = statementIn(executed).predicate.execution.connections[0]
const reached = (...changed: readonly object[]): Changes => ({
  [`${EX}.connections`]: changed.map((one) => ({ ...connection, ...one })),
})
const times = <T>(count: number, one: T): T[] => Array.from({ length: count }, () => one)
const failed = (outcome: { readonly kind: string }, error: string): Changes => ({
  [`${EX}.outcome`]: outcome,
  'predicate.state': 'failed',
  'predicate.error': error,
})
const wrote = (name: 'stdout' | 'stderr', bytes: number): Changes => {
  const kept = Math.min(bytes, DEFAULT_LIMITS.output_bytes)
  return {
    [`${EX}.${name}`]: { bytes, sha256: bytes === 0 ? sha256('') : OTHER, kept, truncated: kept < bytes },
  }
}
const MiB = 1024 ** 2

test.each<[name: string, to: Changes, found: string[]]>([
  ['as many bytes as its limit', reached({ bytes_in: 255 * MiB, bytes_out: MiB }), []],
  ['a byte more than its limit', reached({ bytes_in: 255 * MiB, bytes_out: MiB + 1 }), at('connections')],
  [
    'a byte more than its limit in two connections',
    reached({ bytes_in: 255 * MiB, bytes_out: 0 }, { bytes_in: 0, bytes_out: MiB + 1 }),
    at('connections'),
  ],
  [
    'a byte more, and the connection that was ended for it',
    reached({ bytes_in: 255 * MiB, bytes_out: 0 }, { bytes_in: 0, bytes_out: MiB + 1, verdict: 'cap' }),
    [],
  ],
  [
    'a byte more, and a connection that was refused for it',
    reached(
      { bytes_in: 256 * MiB, bytes_out: 1 },
      { address: '', bytes_in: 0, bytes_out: 0, verdict: 'cap' },
    ),
    at('connections'),
  ],
  [
    'a byte more than the lower limit of its worker',
    { ...reached({ bytes_in: MiB, bytes_out: 1 }), [`${EX}.limits.net_bytes`]: MiB },
    at('connections'),
  ],
])('D4 T01 connections of %s are judged by the limit of bytes', (_name, to, found) => {
  expect(placesIn(to)).toEqual(found)
})

const BELOW = { 'egress.hosts': ['.example.com'] }
test.each<[name: string, to: Changes, plan: Changes, found: string[]]>([
  ['a masked name below a listed one', reached({ host: '«secret token».example.com' }), BELOW, []],
  [
    'a masked name below another one',
    reached({ host: '«secret token».example.org' }),
    BELOW,
    at('connections/0'),
  ],
  ['a mask and nothing else', reached({ host: '«secret token»' }), {}, at('connections/0')],
  [
    'a mask that hides the end of the name',
    reached({ host: 'api.«secret token»' }),
    BELOW,
    at('connections/0'),
  ],
  [
    'a masked name that was refused although it is listed',
    reached({ host: '«…».example.com', verdict: 'host_not_listed', address: '', bytes_in: 0, bytes_out: 0 }),
    BELOW,
    at('connections/0'),
  ],
  [
    'a masked name that was refused',
    reached({ host: '«secret token»', verdict: 'host_not_listed', address: '', bytes_in: 0, bytes_out: 0 }),
    {},
    [],
  ],
])('D4 T01 a connection to %s is compared with the plan', (_name, to, plan, found) => {
  expect(placesIn(to, plan)).toEqual(found)
})

const SUM = { host: '', port: 0, address: '', folded: 2 }
test.each<[name: string, to: Changes, found: string[]]>([
  ['after all that have one', reached(...times(128, {}), ...times(128, { folded: 2 }), SUM), []],
  [
    'before all that have one',
    reached(...times(128, {}), ...times(127, { folded: 2 }), SUM),
    at('connections/255'),
  ],
])('D4 T01 a sum of allowed connections without a host is accepted only %s', (_name, to, found) => {
  expect(placesIn(to)).toEqual(found)
})

const FLOOD = 8 * DEFAULT_LIMITS.output_bytes
const JSON_OUTPUT = { 'executor.output': { type: 'string' } }
test.each<[name: string, to: Changes, plan: Changes, found: string[]]>([
  ['much output that nobody stopped', wrote('stdout', FLOOD), {}, []],
  ['a flood, and an exit', wrote('stdout', FLOOD + 1), {}, at('outcome')],
  ['a flood of errors, and an exit', wrote('stderr', FLOOD + 1), {}, at('outcome')],
  [
    'a flood, and a signal',
    {
      ...wrote('stdout', FLOOD + 1),
      ...failed({ kind: 'signal', signal: 'SIGKILL' } as never, 'runtime_failure'),
    },
    {},
    at('outcome'),
  ],
  [
    'a flood that was stopped',
    { ...wrote('stdout', FLOOD + 1), ...failed({ kind: 'output_cap' }, 'quota_exceeded') },
    {},
    [],
  ],
  ['a value that is whole', wrote('stdout', DEFAULT_LIMITS.output_bytes), JSON_OUTPUT, []],
  [
    'a value that was cut, and success',
    wrote('stdout', DEFAULT_LIMITS.output_bytes + 1),
    JSON_OUTPUT,
    at('outcome'),
  ],
])('D4 T01 the outcome of a call with %s is compared with its output', (_name, to, plan, found) => {
  expect(placesIn(to, plan)).toEqual(found)
})

const refused = (code: string): Changes => ({
  ...failed({ kind: 'refused', code, detail: 'x' } as never, code),
  ...wrote('stdout', 0),
  [`${EX}.connections`]: [],
})
const KEPT = { files: [], left: [], more: 0 }
const SERVER = { 'executor.mcp': { method: 'tools/list', upstream: 'docs' } }
test.each<[name: string, to: Changes, plan: Changes, found: string[]]>([
  ['no output and no connections', refused('sandbox_unavailable'), {}, []],
  ['the complaint of the sandbox', { ...refused('workspace_scope_denied'), ...wrote('stderr', 9) }, {}, []],
  ['output', { ...refused('sandbox_unavailable'), ...wrote('stdout', 1) }, {}, at('stdout')],
  ['connections', { ...refused('sandbox_unavailable'), ...reached({}) }, {}, at('connections')],
  ['connections of an MCP server', { ...refused('tool_changed'), ...reached({}) }, SERVER, []],
  ['files', { ...refused('sandbox_unavailable'), [`${EX}.files`]: KEPT }, { outputs: true }, at('files')],
  ['a reason that comes before any start', refused('grant_invalid'), {}, at('outcome/code')],
])('D4 T01 a refused call with %s is judged by whether that shows an execution', (_name, to, plan, found) => {
  expect(placesIn(to, plan)).toEqual(found)
})

const LONGEST = DEFAULT_LIMITS.timeout_ms + LIMITS.settle_grace_ms + LIMITS.clock_slack_ms
/** A grant with time for files, which is longer than that for the execution. */
const LONG = { deadline_ms: NOW + 600_000 }
test.each<[name: string, ms: number, limits: Changes, found: string[]]>([
  ['within its time and that to set up and collect', LONGEST, {}, []],
  ['a millisecond longer', LONGEST + 1, {}, at('ended_at_ms')],
  [
    'longer than the lower limit of its worker',
    LONGEST,
    { [`${EX}.limits.timeout_ms`]: 1 },
    at('ended_at_ms'),
  ],
])('D4 T01 an execution %s is judged by its timeout', (_name, ms, limits, found) => {
  const places = placesIn({ ...limits, [`${EX}.ended_at_ms`]: NOW + 10 + ms }, {}, LONG)
  expect(places.filter((place) => place.startsWith('/predicate/execution/'))).toEqual(found)
})

test('D4 T01 a call of another run contradicts its run, although the grant names it too', () => {
  const call = 'call_01KA5XJ3M0000000000000000B_7'
  const to = { 'predicate.facts.call': call, 'subject.0.name': call }
  const places = placesIn(to, {}, { 'facts.call': call })
  expect(places.filter((place) => !place.startsWith('/predicate/grant/'))).toEqual(['/predicate/facts/call'])
})
