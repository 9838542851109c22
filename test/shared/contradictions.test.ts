// D4 T01 Compares a statement with its grant and plan, field by field: each field is changed alone
// and all signers sign again. The edge must refuse it before it countersigns, and so must offline
// verification, both naming the field. The fields come from the schema, so a new field that is not
// compared fails here; fields that only the executor can know are listed as such, and are accepted.

import { describe, expect, test } from 'vitest'
import { checkSettlement } from '../../edge/call/settlement.ts'
import { digestOf, sha256 } from '../../shared/bytes/json.ts'
import type { Bundle } from '../../shared/evidence/bundle.ts'
import { kidOf, seal } from '../../shared/evidence/dsse.ts'
import { decidedUnder, type PolicySnapshot } from '../../shared/evidence/policy-snapshot.ts'
import { STATEMENT_TYPE } from '../../shared/evidence/statement.ts'
import {
  type Alteration,
  all,
  DETAIL_UNKNOWN,
  EX,
  expectRefusedAt as expectAllRefuseAt,
  F,
  FIELDS,
  LEFT,
  moreThanDefault,
  OTHER,
  OUTSIDE,
  resigned,
  set,
  type Unverifiable,
  under,
  type Verdict,
  byAuditor as verdictOfAuditor,
} from './alterations.ts'
import { EDGE, executedBundle, NOW, regrant, statementIn, WORKER, WORKER_ID } from './evidence.ts'
import { type Changes, GONE, withChanges } from './tamper.ts'

const executed = executedBundle()
const original = statementIn(executed)
const SKILL = {
  digest: OTHER,
  component_sha256: OTHER,
  modules: [{ name: 'a', sha256: OTHER }],
  fuel_used: 1,
  memory_bytes: 1,
  host_calls: { a: 1 },
}
const UPSTREAM = {
  name: 'docs',
  origin: 'https://mcp.example.com',
  era: 'modern',
  definition_sha256: OTHER,
  request_sha256: OTHER,
  response_sha256: OTHER,
}
const CONNECTION = `${EX}.connections.0`

const ALTERED: ReadonlyMap<string, Alteration> = new Map([
  ...OUTSIDE,
  set(`${EX}.outcome.kind`, 'timeout'),
  ...under(`${EX}.stdout`)
    .concat(under(`${EX}.stderr`))
    .flatMap((path) => (path.endsWith('sha256') ? [] : [set(path, path.endsWith('truncated') ? true : 5)])),
  [`${EX}.stderr.sha256`, { to: { [`${EX}.stderr.sha256`]: OTHER } }],
  set(`${CONNECTION.replace('.0', '.*')}.host`, 'evil.example'),
  set(`${CONNECTION.replace('.0', '.*')}.port`, 80),
  set(`${CONNECTION.replace('.0', '.*')}.verdict`, 'host_not_listed'),
  set(`${CONNECTION.replace('.0', '.*')}.folded`, 2),
  [`${EX}.connections.*.credentials.*`, { to: { [`${CONNECTION}.credentials`]: ['token'] } }],
  set(`${EX}.executor`, 'sandbox_tier_b_linux_rlimits'),
  set(`${EX}.sandbox_enforcement`, 'none'),
  set(`${EX}.cgroup`, false),
  set(`${EX}.profile_sha256`, OTHER),
  ...under(`${EX}.limits`).map((path) => set(path, moreThanDefault(path))),
  ...all(under(`${EX}.skill`), { to: { [`${EX}.skill`]: SKILL } }),
  ...all(under(`${EX}.upstream`), { to: { [`${EX}.upstream`]: UPSTREAM }, at: `${EX}.upstream` }),
  ...all(under(`${EX}.files`), { to: { [`${EX}.files`]: LEFT } }),
  set(`${EX}.started_at_ms`, NOW + 21),
  set(`${EX}.ended_at_ms`, NOW + 3_600_000),
] as const)

const UNVERIFIABLE: ReadonlyMap<string, Unverifiable> = new Map<string, Unverifiable>([
  [
    `${EX}.outcome.code`,
    {
      to: { [`${EX}.outcome.code`]: 3, 'predicate.state': 'failed', 'predicate.error': 'runtime_failure' },
      why: 'how a program ended',
    },
  ],
  [
    `${EX}.outcome.signal`,
    {
      to: {
        [`${EX}.outcome`]: { kind: 'signal', signal: 'SIGKILL' },
        'predicate.state': 'failed',
        'predicate.error': 'runtime_failure',
      },
      why: 'how a program ended',
    },
  ],
  DETAIL_UNKNOWN,
  [
    `${EX}.stdout.sha256`,
    {
      to: { [`${EX}.stdout.sha256`]: OTHER },
      why: 'a bundle does not contain the output',
      edgeRefuses: true,
    },
  ],
  [
    `${EX}.connections.*.address`,
    { to: { [`${CONNECTION}.address`]: '192.0.2.7' }, why: 'what a name resolved to' },
  ],
  [`${EX}.connections.*.bytes_out`, { to: { [`${CONNECTION}.bytes_out`]: 7 }, why: 'how much was sent' }],
  [`${EX}.connections.*.bytes_in`, { to: { [`${CONNECTION}.bytes_in`]: 7 }, why: 'how much came' }],
  [
    `${EX}.argv_sha256`,
    { to: { [`${EX}.argv_sha256`]: OTHER }, why: 'it contains paths of the worker’s host' },
  ],
])

function byEdge(bundle: Bundle, to: Changes, until_ms?: number): Verdict {
  const envelope = seal(STATEMENT_TYPE, withChanges(original, resigned(executed, to)), WORKER)
  const { grant, call } = bundle
  if (grant === null) throw new Error('nothing was granted')
  const output = { stdout: Buffer.from('4\n').toString('base64'), stderr: '' }
  const replaced = until_ms === undefined ? {} : { until_ms }
  const worker = { id: WORKER_ID, kid: kidOf(WORKER.x), x: WORKER.x, ...replaced }
  const checked = checkSettlement(
    { fence: 1, envelope, output },
    { worker, grant, plan: call.plan, cancelRequested: true, now_ms: NOW + 1_000 },
  )
  return checked.ok
    ? { ok: true, at: [] }
    : { ok: false, at: (checked.error.errors ?? []).map(({ at }) => at) }
}

const byAuditor = (bundle: Bundle, to: Changes): Verdict => verdictOfAuditor(bundle, to, [WORKER, EDGE])

const expectRefusedAt = (at: string, to: Changes): void =>
  expectAllRefuseAt(at, { edge: byEdge(executed, to), auditor: byAuditor(executed, to) })

describe('D4 T01 a statement that contradicts its grant or plan', () => {
  test('every field of a statement’s schema is either changed by a test or listed as known only to the executor', () => {
    expect([...ALTERED.keys(), ...UNVERIFIABLE.keys()].sort()).toEqual(FIELDS)
    expect(FIELDS.length).toBeGreaterThan(80)
  })

  test('T03 a statement that ended after its worker had replaced the key is refused, 5 s later', () => {
    const { ended_at_ms } = statementIn(executed).predicate.execution
    expect(byEdge(executed, {}, ended_at_ms - 5_000)).toEqual({ ok: true, at: [] })
    expect(byEdge(executed, {}, ended_at_ms - 5_001)).toEqual({
      ok: false,
      at: [`/${EX.replaceAll('.', '/')}/ended_at_ms`],
    })
  })

  test('an unchanged statement is accepted by the edge and by offline verification', () => {
    expect([byEdge(executed, {}), byAuditor(executed, {})]).toEqual([
      { ok: true, at: [] },
      { ok: true, at: [] },
    ])
  })

  test.each([...ALTERED])(
    'a statement with a changed %s is refused by the edge and by offline verification, which name the field',
    (field, { to, at = field }) => {
      expectRefusedAt(at, to)
    },
  )

  test.each([...UNVERIFIABLE])(
    'a statement with another value of %s is accepted, because only the executor knows it',
    (_field, { to, edgeRefuses }) => {
      expect([byEdge(executed, to).ok, byAuditor(executed, to).ok]).toEqual([edgeRefuses !== true, true])
    },
  )
})

/** Further changes to the same fields. */
const FURTHER: readonly (readonly [name: string, to: Changes, at: string])[] = [
  [
    'no sandbox although a program ended',
    { [`${EX}.executor`]: 'worker', [`${EX}.sandbox_enforcement`]: 'none' },
    `${EX}.executor`,
  ],
  ['the isolate as executor', { [`${EX}.executor`]: 'wasm_isolate' }, `${EX}.executor`],
  ['an unknown sandbox', { [`${EX}.executor`]: 'sandbox_tier_c_microvm' }, `${EX}.executor`],
  [
    'an enforcement that the plan does not name',
    { [`${EX}.sandbox_enforcement`]: 'preflight' },
    `${EX}.sandbox_enforcement`,
  ],
  ['an ending that only skills have', { [`${EX}.outcome`]: { kind: 'returned' } }, `${EX}.outcome`],
  ['no outcome', { [`${EX}.outcome`]: null }, `${EX}.outcome`],
  ['the digest of nothing for its command line', { [`${EX}.argv_sha256`]: sha256('') }, `${EX}.outcome`],
  ['no command line', { [`${EX}.argv_sha256`]: null }, `${EX}.argv_sha256`],
  ['no profile', { [`${EX}.profile_sha256`]: null }, `${EX}.profile_sha256`],
  ['no cgroup although the plan requires one', { [`${EX}.cgroup`]: GONE }, `${EX}.cgroup`],
  ['no limits', { [`${EX}.limits`]: GONE }, `${EX}.limits`],
  ['a missing limit of the plan', { [`${EX}.limits.net_bytes`]: GONE }, `${EX}.limits.net_bytes`],
  ['no standard output', { [`${EX}.stdout`]: null }, `${EX}.stdout`],
  [
    'more kept than the plan keeps',
    { [`${EX}.stdout.kept`]: 65_537, [`${EX}.stdout.bytes`]: 65_537 },
    `${EX}.stdout.kept`,
  ],
  ['a start before the grant', { [`${EX}.started_at_ms`]: NOW - 60_000 }, `${EX}.started_at_ms`],
  ['no start', { [`${EX}.started_at_ms`]: null }, `${EX}.started_at_ms`],
  ['an end after the deadline', { [`${EX}.ended_at_ms`]: NOW + 60_000 }, `${EX}.ended_at_ms`],
  [
    'an end before the grant',
    { [`${EX}.started_at_ms`]: NOW - 60_000, [`${EX}.ended_at_ms`]: NOW - 50_000 },
    `${EX}.ended_at_ms`,
  ],
  ['a subdomain of a listed host', { [`${CONNECTION}.host`]: 'x.api.example.com' }, CONNECTION],
  ['a name that ends like a listed host', { [`${CONNECTION}.host`]: 'evilapi.example.com' }, CONNECTION],
  [
    'bytes to a host that was refused',
    { [`${CONNECTION}.host`]: 'evil.example', [`${CONNECTION}.verdict`]: 'host_not_listed' },
    CONNECTION,
  ],
  [
    'a sum of connections that hides their host',
    { [`${CONNECTION}.host`]: '', [`${CONNECTION}.port`]: 0, [`${CONNECTION}.folded`]: 3 },
    `${CONNECTION}.folded`,
  ],
  ['facts without the agent’s reason', { [`${F}.origin`]: GONE }, `${F}.origin`],
  ['facts without the approval', { [`${F}.approval`]: null }, `${F}.approval`],
  [
    'facts with another host listed',
    { [`${F}.egress.hosts`]: ['api.example.com:443', 'evil.example'] },
    `${F}.egress.hosts.1`,
  ],
]

test.each(FURTHER)(
  'D4 T01 a statement with %s is refused by edge and auditor, which name the field',
  (_name, to, at) => {
    expectRefusedAt(at, to)
  },
)

/** The same statement under a changed grant. */
function regranted(changes: Changes, to: Changes): readonly [Verdict, Verdict] {
  const bundle = regrant(executed, changes)
  const named = statementIn(bundle).predicate.grant?.sha256
  const renamed = { 'predicate.grant.sha256': named, ...to }
  return [byEdge(bundle, renamed), byAuditor(bundle, renamed)]
}

test.each([
  ['a cgroup of a worker that has proven none', { 'proven.cgroups': false }, `${EX}.cgroup`],
  ['another profile than the proven one', { 'proven.profile_sha256': OTHER }, `${EX}.profile_sha256`],
  ['more time than the grant leaves', { issued_at_ms: NOW + 20_000 }, `${EX}.limits.timeout_ms`],
])(
  'D4 T01 K04 a statement with %s is refused by edge and auditor, which name the field',
  (_name, granted, at) => {
    for (const verdict of regranted(granted, {})) expectAllRefuseAt(at, { verdict })
  },
)

test('D4 T01 a worker’s clock may differ from the edge’s by 5 s (`clock_slack_ms`), and by no more', () => {
  const field = (name: string, at: number): Changes => ({ [`${EX}.${name}`]: at })
  const early = (by: number) => field('started_at_ms', NOW - by)
  // The edge settles a second after the grant; an auditor knows only the deadline.
  const [settled, deadline] = [(by: number) => field('ended_at_ms', NOW + 1_000 + by), NOW + 40_000]
  const late = (by: number) => field('ended_at_ms', deadline + by)
  expect([5_000, 5_001].map((by) => byEdge(executed, early(by)).ok)).toEqual([true, false])
  expect([5_000, 5_001].map((by) => byAuditor(executed, early(by)).ok)).toEqual([true, false])
  expect([5_000, 5_001].map((by) => byEdge(executed, settled(by)).ok)).toEqual([true, false])
  expect([5_000, 5_001].map((by) => byAuditor(executed, late(by)).ok)).toEqual([true, false])
})

test('D4 a statement under an earlier grant without `proven` is accepted', () => {
  expect(regranted({ proven: GONE }, {}).map(({ ok }) => ok)).toEqual([true, true])
})

test('D4 T01 a statement that nothing was started is accepted without a sandbox', () => {
  const unstarted: Record<string, unknown> = {
    [`${EX}.outcome`]: { kind: 'refused', code: 'sandbox_unavailable', detail: 'x' },
    'predicate.state': 'failed',
    'predicate.error': 'sandbox_unavailable',
    [`${EX}.executor`]: 'worker',
    [`${EX}.sandbox_enforcement`]: 'none',
    [`${EX}.connections`]: [],
    [`${EX}.started_at_ms`]: null,
  }
  for (const name of ['stdout', 'stderr', 'profile_sha256', 'argv_sha256'] as const)
    unstarted[`${EX}.${name}`] = null
  for (const name of ['cgroup', 'limits'] as const) unstarted[`${EX}.${name}`] = GONE
  expect(byAuditor(executed, unstarted)).toEqual({ ok: true, at: [] })
  for (const [name, value] of Object.entries({
    cgroup: true,
    limits: original.predicate.execution.limits,
    argv_sha256: OTHER,
    started_at_ms: NOW,
  })) {
    const verdict = byAuditor(executed, { ...unstarted, [`${EX}.${name}`]: value })
    expectAllRefuseAt(`${EX}.${name}`, { [name]: verdict })
  }
})

test('D4 a policy snapshot belongs to a call only if its digest, policy set and tool all match', () => {
  const { tool } = original.predicate.facts
  const snapshot: PolicySnapshot = {
    format: 'countersign-snapshot/v1',
    policy_set: sha256('policies'),
    allowed_tools: ['*'],
    groups: [],
    channels: null,
    budget: { max_calls_per_run: 1, execution_timeout_ms: 1, max_denied_per_run: 1 },
    tool,
    process_runner: null,
    wasm_runtime: null,
  }
  const under = (changes: Changes, named = snapshot) =>
    decidedUnder(
      named,
      withChanges(original.predicate.facts, { 'decision.snapshot': digestOf(named), ...changes }),
    )
  expect(under({})).toBe(true)
  for (const changes of [
    { 'decision.snapshot': OTHER },
    { 'decision.policy_set': OTHER },
    { 'tool.name': 'other' },
  ])
    expect([changes, under(changes)]).toEqual([changes, false])
})
