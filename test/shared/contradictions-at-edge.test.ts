// D4 T01 Calls that the edge executes itself: of a skill (tier A) and of an upstream (tier M). Each
// field of their statements is changed alone and signed again. The comparison that the edge makes
// before it signs, and offline verification, must both refuse it and name the field.

import { describe, expect, test } from 'vitest'
import { executedAtEdge } from '../../edge/call/settlement.ts'
import { sha256 } from '../../shared/bytes/json.ts'
import type { Bundle } from '../../shared/evidence/bundle.ts'
import { contradictions } from '../../shared/evidence/contradictions.ts'
import { LIMITS } from '../../shared/limits.ts'
import {
  type Alteration,
  all,
  DETAIL_UNKNOWN,
  EX,
  expectRefusedAt,
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
import { EDGE, grantIn, NOW, SKILL_PLAN, skillBundle, statementIn, upstreamBundle } from './evidence.ts'
import { type Changes, GONE, withChanges } from './tamper.ts'

const CONNECTION = `${EX}.connections.0`

/** Changes of the execution's fields that are wrong for every call of the edge. */
const COMMON: readonly (readonly [string, Alteration])[] = [
  ...OUTSIDE,
  [`${EX}.outcome.kind`, { to: { [`${EX}.outcome.kind`]: 'timeout' }, at: 'predicate.state' }],
  [`${EX}.outcome.code`, { to: { [`${EX}.outcome`]: { kind: 'exit', code: 0 } } }],
  [`${EX}.outcome.signal`, { to: { [`${EX}.outcome`]: { kind: 'signal', signal: 'SIGKILL' } } }],
  ...under(`${EX}.stdout`)
    .concat(under(`${EX}.stderr`))
    .flatMap((path) => (path.endsWith('sha256') ? [] : [set(path, path.endsWith('truncated') ? true : 6)])),
  set(`${EX}.stderr.sha256`, OTHER),
  set(`${EX}.connections.*.host`, 'evil.example'),
  set(`${EX}.connections.*.port`, 80),
  set(`${EX}.connections.*.address`, '192.0.2.1'),
  set(`${EX}.connections.*.verdict`, 'host_not_listed'),
  set(`${EX}.connections.*.folded`, 2),
  ...['bytes_out', 'bytes_in'].map((name): readonly [string, Alteration] => [
    `${EX}.connections.*.${name}`,
    { to: { [`${CONNECTION}.${name}`]: 1_000 }, at: `${EX}.connections` },
  ]),
  [`${EX}.connections.*.credentials.*`, { to: { [`${CONNECTION}.credentials`]: ['token'] } }],
  set(`${EX}.sandbox_enforcement`, 'none'),
  set(`${EX}.cgroup`, true),
  set(`${EX}.profile_sha256`, OTHER),
  set(`${EX}.argv_sha256`, OTHER),
  ...under(`${EX}.limits`).map((path) => set(path, moreThanDefault(path))),
  ...all(under(`${EX}.files`), { to: { [`${EX}.files`]: LEFT } }),
  set(`${EX}.started_at_ms`, NOW + 1),
  set(`${EX}.ended_at_ms`, NOW - 60_000),
]

const KNOWN_TO_EDGE: readonly (readonly [string, Unverifiable])[] = [
  DETAIL_UNKNOWN,
  [
    `${EX}.stdout.sha256`,
    { to: { [`${EX}.stdout.sha256`]: OTHER }, why: 'a bundle does not contain the output' },
  ],
]

/** How a kind of call is altered. The first change of a field wins. */
type Kind = {
  readonly bundle: Bundle
  readonly altered: readonly (readonly [string, Alteration])[]
  readonly unverifiable: readonly (readonly [string, Unverifiable])[]
}

const skilled = skillBundle()
const [skill, exchange] = [skilled, upstreamBundle()].map((bundle) => statementIn(bundle).predicate.execution)
const KINDS: Readonly<Record<string, Kind>> = {
  'a skill': {
    bundle: skilled,
    altered: [
      set(`${EX}.executor`, 'mcp_client'),
      set(`${EX}.skill.digest`, OTHER),
      set(`${EX}.skill.fuel_used`, SKILL_PLAN.limits.fuel + 1),
      set(`${EX}.skill.memory_bytes`, SKILL_PLAN.limits.memory_bytes + 1),
      [
        `${EX}.skill.host_calls.*`,
        {
          to: { [`${EX}.skill.host_calls`]: { 'secrets.get': 1 } },
          at: '/predicate/execution/skill/host_calls/secrets.get',
        },
      ],
      ...all(under(`${EX}.upstream`), {
        to: { [`${EX}.upstream`]: exchange?.upstream },
        at: `${EX}.upstream`,
      }),
    ],
    unverifiable: [
      ...['component_sha256', 'modules.*.name', 'modules.*.sha256'].map(
        (name): readonly [string, Unverifiable] => [
          `${EX}.skill.${name}`,
          {
            to: { [`${EX}.skill.${name.replace('*', '0')}`]: OTHER },
            why: 'the version’s digest and the journal of skills say what it consists of',
          },
        ],
      ),
    ],
  },
  'an upstream': {
    bundle: upstreamBundle(),
    altered: [
      set(`${EX}.executor`, 'wasm_isolate'),
      ...all(under(`${EX}.skill`), { to: { [`${EX}.skill`]: skill?.skill } }),
      set(`${EX}.upstream.name`, 'other'),
      set(`${EX}.upstream.origin`, 'https://evil.example.com'),
      set(`${EX}.upstream.era`, null),
      set(`${EX}.upstream.definition_sha256`, OTHER),
      set(`${EX}.upstream.request_sha256`, null),
      set(`${EX}.upstream.response_sha256`, null),
    ],
    unverifiable: [],
  },
}

/** The edge’s own comparison, before it signs. It wrote the statement, so it parses none. */
function byEdge(bundle: Bundle, to: Changes): Verdict {
  const statement = withChanges(statementIn(bundle), resigned(bundle, to))
  const at = contradictions(statement, { grant: grantIn(bundle), plan: bundle.call.plan }).map(
    (one) => one.at,
  )
  return { ok: at.length === 0, at }
}
const byAuditor = (bundle: Bundle, to: Changes): Verdict => verdictOfAuditor(bundle, to, [EDGE])
const verdicts = (bundle: Bundle, to: Changes) => ({
  edge: byEdge(bundle, to),
  auditor: byAuditor(bundle, to),
})
const ACCEPTED = { ok: true, at: [] }
/** The schema fixes them, and so does the type of the edge's own statement. */
const LITERAL: readonly string[] = ['_type', 'predicateType']

describe.each(Object.entries(KINDS))(
  'D4 T01 a statement about a call of %s',
  (_kind, { bundle, ...kind }) => {
    const altered = new Map([...kind.altered, ...COMMON])
    const unverifiable = new Map([...kind.unverifiable, ...KNOWN_TO_EDGE])

    test('has no field that is neither changed by this test nor listed as known only to the edge', () => {
      expect([...altered.keys(), ...unverifiable.keys()].sort()).toEqual(FIELDS)
    })

    test('is accepted as it is', () => {
      expect(verdicts(bundle, {})).toEqual({ edge: ACCEPTED, auditor: ACCEPTED })
    })

    test.each([...altered])(
      'is refused with a changed %s by the edge’s check and offline verification, which name the field',
      (field, { to, at = field }) => {
        const { edge, auditor } = verdicts(bundle, to)
        expectRefusedAt(at, LITERAL.includes(field) ? { auditor } : { edge, auditor })
      },
    )

    test.each([...unverifiable])(
      'is accepted with another value of %s, because only the edge knows it',
      (_field, { to }) => {
        expect(verdicts(bundle, to)).toEqual({ edge: ACCEPTED, auditor: ACCEPTED })
      },
    )

    test('is accepted if it ended after its deadline: the edge’s clock may have gone on while it was suspended', () => {
      expect(verdicts(bundle, { [`${EX}.ended_at_ms`]: NOW + 3_600_000 })).toEqual({
        edge: ACCEPTED,
        auditor: ACCEPTED,
      })
    })

    test('is not made by the edge if it contradicts grant or plan', () => {
      const [grant, { predicate }] = [grantIn(bundle), statementIn(bundle)]
      if (grant === null || bundle.call.plan === null) throw new Error('nothing was granted')
      const made = (execution: typeof predicate.execution) =>
        executedAtEdge(predicate.attestation_id, grant, bundle.call.plan ?? SKILL_PLAN, execution)
      expect(made(predicate.execution)).toEqual({ ok: true, value: statementIn(bundle) })
      expect(made({ ...predicate.execution, cgroup: true })).toEqual({
        ok: false,
        error: '/predicate/execution/cgroup',
      })
    })
  },
)

const failed = (kind: object, error: string): Changes => ({
  [`${EX}.outcome`]: kind,
  'predicate.state': 'failed',
  'predicate.error': error,
})
const refusedWith = (code: string): Changes => failed({ kind: 'refused', code, detail: 'x' }, code)
const streamOf = (name: string, bytes: number, kept = bytes): Changes => ({
  [`${EX}.${name}`]: { bytes, sha256: OTHER, kept, truncated: kept < bytes },
})
const NO_OUTPUT: Changes = {
  [`${EX}.stdout`]: { bytes: 0, sha256: sha256(''), kept: 0, truncated: false },
}
const UNUSED: Changes = {
  [`${EX}.skill.fuel_used`]: 0,
  [`${EX}.skill.memory_bytes`]: 0,
  [`${EX}.skill.host_calls`]: {},
}
const UNSENT: Changes = {
  [`${EX}.upstream.era`]: null,
  [`${EX}.upstream.request_sha256`]: null,
  [`${EX}.upstream.response_sha256`]: null,
}
const disabled: Changes = {
  ...refusedWith('skill_disabled'),
  ...NO_OUTPUT,
  ...UNUSED,
  [`${EX}.connections`]: [],
}
const unavailable: Changes = { ...refusedWith('upstream_unavailable'), ...NO_OUTPUT, ...UNSENT }
const exhausted = failed({ kind: 'fuel_exhausted' }, 'quota_exceeded')
const twice = (verdict: string, bytes_in: number): Changes => ({
  [`${EX}.connections`]: [10, bytes_in].map((bytes, i) => ({
    ...skill?.connections[0],
    bytes_in: bytes,
    verdict: i === 0 ? 'allowed' : verdict,
  })),
})
const calls = (host_calls: Readonly<Record<string, number>>): Changes => ({
  [`${EX}.skill.host_calls`]: host_calls,
})
const usage = (name: string): string => `${EX}.skill.${name}`
/** One call more than its fuel pays for: 2,000 units each, and one that exhausts the rest. */
const MOST_CALLS = SKILL_PLAN.limits.fuel / 2_000 + 1

test.each<[name: string, to: Changes]>([
  [
    'all its fuel, memory and bytes',
    {
      [usage('fuel_used')]: SKILL_PLAN.limits.fuel,
      [usage('memory_bytes')]: SKILL_PLAN.limits.memory_bytes,
      ...twice('allowed', 970),
    },
  ],
  ['more bytes than its limit, and the connection that was ended for it', twice('cap', 971)],
  ['as many host calls as its fuel pays for', calls({ 'log.write': MOST_CALLS })],
  ['its whole output', streamOf('stdout', SKILL_PLAN.limits.output_bytes)],
  ['its whole log', streamOf('stderr', 3 * LIMITS.skill_log_chars)],
  ['all its fuel, which was too little', { ...exhausted, [usage('fuel_used')]: SKILL_PLAN.limits.fuel }],
  [
    'all the fuel that code has which can’t be suspended',
    { ...exhausted, [usage('fuel_used')]: LIMITS.skill_alone_fuel },
  ],
  ['output that is not JSON', failed({ kind: 'invalid_output', detail: 'x' }, 'invalid_output')],
  ['nothing, because its version was disabled', disabled],
])('D4 a statement about a skill’s call that used %s is accepted', (_name, to) => {
  expect(verdicts(skilled, to)).toEqual({ edge: ACCEPTED, auditor: ACCEPTED })
})

test.each<[name: string, to: Changes, at: string]>([
  ['more bytes than its limit', twice('allowed', 971), `${EX}.connections`],
  [
    'more bytes than its limit, and a request that was refused for it',
    {
      [`${EX}.connections`]: [
        { ...skill?.connections[0], bytes_in: 991 },
        { ...skill?.connections[0], bytes_in: 0, bytes_out: 0, verdict: 'cap' },
      ],
    },
    `${EX}.connections`,
  ],
  [
    'connections although its plan has none',
    { [`${EX}.connections`]: [skill?.connections[0], skill?.connections[0], skill?.connections[0]] },
    `${EX}.connections`,
  ],
  [
    'more host calls than its fuel pays for',
    calls({ 'log.write': MOST_CALLS + 1 }),
    '/predicate/execution/skill/host_calls/log.write',
  ],
  [
    'a host call whose name only begins like a granted capability',
    calls({ 'logs.read': 1 }),
    '/predicate/execution/skill/host_calls/logs.read',
  ],
  ['more output than its limit', streamOf('stdout', SKILL_PLAN.limits.output_bytes + 1), `${EX}.stdout`],
  ['a longer log than any has', streamOf('stderr', 3 * LIMITS.skill_log_chars + 1), `${EX}.stderr`],
  [
    'up its fuel, of which much is left',
    { ...exhausted, [usage('fuel_used')]: LIMITS.skill_alone_fuel - 1 },
    `${EX}.outcome`,
  ],
  ['a worker’s reason to refuse it', { ...disabled, ...refusedWith('grant_invalid') }, `${EX}.outcome.code`],
  ['fuel although it was refused', { ...disabled, [usage('fuel_used')]: 1 }, usage('fuel_used')],
  ['memory although it was refused', { ...disabled, [usage('memory_bytes')]: 65_536 }, usage('memory_bytes')],
  ['host calls although it was refused', { ...disabled, ...calls({ 'log.write': 1 }) }, usage('host_calls')],
  ['its output although it was refused', { ...disabled, ...streamOf('stdout', 1) }, `${EX}.stdout`],
  ['its log although it was refused', { ...disabled, ...streamOf('stderr', 1) }, `${EX}.stderr`],
  [
    'connections although it was refused',
    { ...disabled, [`${EX}.connections`]: skill?.connections },
    `${EX}.connections`,
  ],
])(
  'D4 T01 a statement about a skill’s call that used %s is refused, and the field is named',
  (_name, to, at) => {
    expectRefusedAt(at, verdicts(skilled, to))
  },
)

const remote = upstreamBundle()
test.each<[name: string, to: Changes]>([
  ['a request of the older protocol', { [`${EX}.upstream.era`]: 'legacy' }],
  ['other messages', { [`${EX}.upstream.request_sha256`]: OTHER, [`${EX}.upstream.response_sha256`]: OTHER }],
  ['output that was cut to its limit', streamOf('stdout', 5_000, 1_000)],
  ['nothing, because its server could not be reached', unavailable],
])('D4 a statement about an upstream’s call with %s is accepted', (_name, to) => {
  expect(verdicts(remote, to)).toEqual({ edge: ACCEPTED, auditor: ACCEPTED })
})

test.each<[name: string, to: Changes, at: string]>([
  ['a request without a connection', { [`${EX}.connections`]: [] }, `${EX}.upstream.request_sha256`],
  [
    'a request over a connection without bytes',
    { [`${CONNECTION}.bytes_out`]: 0 },
    `${EX}.upstream.request_sha256`,
  ],
  ['more output kept than its limit', streamOf('stdout', 1_001), `${EX}.stdout`],
  ['fewer limits than its plan', { [`${EX}.limits.net_bytes`]: GONE }, `${EX}.limits.net_bytes`],
  [
    'a request although it was refused',
    { ...unavailable, [`${EX}.upstream.era`]: 'modern', [`${EX}.upstream.request_sha256`]: OTHER },
    `${EX}.upstream.request_sha256`,
  ],
  [
    'a worker’s reason to refuse it',
    { ...unavailable, ...refusedWith('sandbox_unavailable') },
    `${EX}.outcome.code`,
  ],
])(
  'D4 T01 a statement about an upstream’s call with %s is refused, and the field is named',
  (_name, to, at) => {
    expectRefusedAt(at, verdicts(remote, to))
  },
)
