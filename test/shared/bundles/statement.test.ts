// Promise: offline verification refuses a bundle with any part changed, alone or with all
// signatures made again.

import { describe, expect, test } from 'vitest'
import { canonical, digestOf, EVIDENCE_BOUNDS, parseJson } from '../../../shared/bytes/json.ts'
import { ARGUMENTS_REMOVED, Bundle, REMOVAL_SIGNED, verifyBundle } from '../../../shared/evidence/bundle.ts'
import { contradictions } from '../../../shared/evidence/contradictions.ts'
import { countersign, seal } from '../../../shared/evidence/dsse.ts'
import { EDGE_EXECUTOR, STATEMENT_TYPE } from '../../../shared/evidence/statement.ts'
import type { Plan } from '../../../shared/plan/plan.ts'
import {
  collude,
  deniedBundle,
  EDGE,
  executedBundle,
  KEYS,
  NOW,
  REMOVAL,
  reexecuted,
  regrant,
  STRANGER,
  statementIn,
  tombstoneOf,
  WORKER,
  withoutArguments,
} from '../evidence.ts'
import type { Changes } from '../tamper.ts'
import { changed, GONE, others, paths, reached } from '../tamper.ts'

const failed = (bundle: Bundle): string[] =>
  verifyBundle(bundle, KEYS).checks.flatMap(({ name, ok }) => (ok ? [] : [name]))

/** Whether this text verifies as a bundle. */
function isAccepted(text: string): boolean {
  const read = parseJson(Buffer.from(text), EVIDENCE_BOUNDS)
  const bundle = Bundle.safeParse(read.ok ? read.value : undefined)
  return bundle.success && verifyBundle(bundle.data, KEYS).ok
}

const executed = executedBundle()
const denied = deniedBundle()
/** A stranger who signs under another key's id. */
const as = (signer: { kid: string }) => ({ ...STRANGER, kid: signer.kid })

describe.each([
  ['executed', executed],
  ['denied', denied],
] as const)('the bundle of a call that was %s', (kind, bundle) => {
  test(`the bundle of a call that was ${kind} verifies, and no check is skipped`, () => {
    const verdict = verifyBundle(bundle, KEYS)
    expect(verdict).toMatchObject({
      ok: true,
      statement: { predicate: { state: kind === 'executed' ? 'succeeded' : 'denied' } },
    })
    expect(verdict.checks.length).toBeGreaterThanOrEqual(15)
    expect(isAccepted(JSON.stringify(bundle))).toBe(true)
    expect(isAccepted(JSON.stringify(bundle, null, 2))).toBe(true)
  })

  test(`J01 the bundle of a call that was ${kind} is refused with any member of its file changed or removed`, () => {
    let tried = 0
    for (const path of paths(bundle)) {
      for (const to of others(reached(bundle, path))) {
        const text = canonical(changed(bundle, path, to))
        if (text === canonical(bundle)) continue
        tried++
        if (isAccepted(text)) throw new Error(`accepted with ${path.join('.')} = ${String(to)}`)
      }
    }
    expect(tried).toBeGreaterThan(100)
  })

  test(`T01 the bundle of a call that was ${kind} is refused with any member of its statement changed or removed under the old signatures`, () => {
    const statement = statementIn(bundle)
    for (const path of paths(statement)) {
      for (const to of others(reached(statement, path))) {
        const payload = Buffer.from(canonical(changed(statement, path, to))).toString('base64')
        if (payload === bundle.envelope.payload) continue
        const text = canonical({ ...bundle, envelope: { ...bundle.envelope, payload } })
        if (isAccepted(text)) throw new Error(`accepted with ${path.join('.')} = ${String(to)}`)
      }
    }
  })

  test(`the bundle of a call that was ${kind} is refused when truncated or extended`, () => {
    const text = JSON.stringify(bundle)
    for (let end = 0; end < text.length; end += 7) expect(isAccepted(text.slice(0, end))).toBe(false)
    expect(isAccepted(`${text}x`)).toBe(false)
    expect(isAccepted(`${text}${text}`)).toBe(false)
  })

  test(`the bundle of a call that was ${kind} is refused with no keys, unknown keys, or swapped roles of the right keys`, () => {
    const swapped = KEYS.keys.map((key) => ({
      ...key,
      role: key.role === 'edge' ? ('worker' as const) : ('edge' as const),
    }))
    const foreign = KEYS.keys.map((key) => ({ ...key, x: STRANGER.x }))
    for (const keys of [[], swapped, foreign]) expect(verifyBundle(bundle, { ...KEYS, keys }).ok).toBe(false)
    expect(verifyBundle(bundle, { ...KEYS, tenant: 'other' }).ok).toBe(false)
  })
})

describe('T01 signatures', () => {
  const BOTH = 'exactly the worker and the edge signed it'
  const ALONE = 'exactly the edge signed it'
  const statement = statementIn(executed)
  const byWorker = seal(STATEMENT_TYPE, statement, WORKER)
  const byEdge = seal(STATEMENT_TYPE, statement, EDGE)

  test.each([
    ['only the worker’s signature', byWorker, 'an edge key from the key file signed it'],
    ['only the edge’s signature', byEdge, BOTH],
    ['the edge’s signature twice', countersign(byEdge, EDGE), BOTH],
    ['the edge’s signature twice and the worker’s', countersign(countersign(byEdge, EDGE), WORKER), BOTH],
    ['an additional signature by a stranger', countersign(executed.envelope, STRANGER), BOTH],
    [
      'a stranger’s signature instead of the worker’s',
      countersign(seal(STATEMENT_TYPE, statement, STRANGER), EDGE),
      BOTH,
    ],
    [
      'a stranger’s signature under the worker’s key id',
      countersign(seal(STATEMENT_TYPE, statement, as(WORKER)), EDGE),
      BOTH,
    ],
    ['a stranger’s signature under the edge’s key id', countersign(byWorker, as(EDGE)), BOTH],
    [
      'the right signatures over another type',
      countersign(seal('application/json', statement, WORKER), EDGE),
      BOTH,
    ],
    [
      'a type that was changed after signing',
      { ...executed.envelope, payloadType: 'application/json' },
      BOTH,
    ],
  ])('T01 the bundle of an executed call with %s is refused', (_name, envelope, check) => {
    expect(failed({ ...executed, envelope })).toContain(check)
  })

  test('T01 the bundle of a denied call is refused with an additional worker’s signature or a stranger’s under the edge’s key id', () => {
    expect(failed({ ...denied, envelope: countersign(denied.envelope, WORKER) })).toContain(ALONE)
    expect(failed({ ...denied, envelope: seal(STATEMENT_TYPE, statementIn(denied), as(EDGE)) })).toContain(
      ALONE,
    )
  })

  test('T01 a statement in non-canonical form is refused even if worker and edge signed it', () => {
    const payload = Buffer.from(JSON.stringify(statement, null, 1)).toString('base64')
    const envelope = countersign(
      countersign({ payloadType: STATEMENT_TYPE, payload, signatures: [] }, WORKER),
      EDGE,
    )
    expect(failed({ ...executed, envelope })).toEqual(['the payload is in canonical form'])
  })

  test.each([
    ['an empty object', {}],
    ['null', null],
    ['a statement with an additional member', { ...statement, extra: 1 }],
    ['a statement of another predicate', { ...statement, predicateType: 'https://slsa.dev/provenance/v1' }],
  ])('T01 %s is refused as a statement even if worker and edge signed it', (_name, payload) => {
    const envelope = countersign(seal(STATEMENT_TYPE, payload, WORKER), EDGE)
    expect(failed({ ...executed, envelope })).toEqual([
      'the payload is an in-toto statement of our predicate',
    ])
  })
})

describe('T01 statements that a dishonest edge and worker sign together', () => {
  const P = 'statement.predicate'
  const other = digestOf('other')
  const lies: readonly (readonly [name: string, check: string, changes: Changes])[] = [
    [
      'another subject',
      'the subject is this call',
      { 'statement.subject.0.name': 'call_01KA5XJ3M0000000000000000A_9' },
    ],
    ['another subject digest', 'the subject is this call', { 'statement.subject.0.digest.sha256': other }],
    [
      'other arguments',
      'the digest covers these arguments and this plan',
      { 'call.arguments': { text: 'five' } },
    ],
    [
      'another command line',
      'the digest covers these arguments and this plan',
      { 'call.plan.executor.argv': ['wc', '-l'] },
    ],
    [
      'another version of the tool',
      'the digest covers these arguments and this plan',
      { 'call.tool.version': 4 },
    ],
    ['another tenant', 'the digest covers these arguments and this plan', { 'call.tenant': 'other' }],
    [
      'facts of another run',
      'the facts name the same call',
      { [`${P}.facts.run`]: 'run_01KA5XJ3M0000000000000000B' },
    ],
    ['facts of another tenant', 'the facts name the same call', { [`${P}.facts.tenant`]: 'other' }],
    [
      'another digest of the arguments',
      'the arguments digest matches',
      { [`${P}.facts.args_sha256`]: other },
    ],
    ['another digest of the plan', 'the plan digest matches', { [`${P}.facts.plan_sha256`]: other }],
    ['no digest of the plan', 'the plan digest matches', { [`${P}.facts.plan_sha256`]: null }],
    ['no limits', 'limits and egress are the plan’s', { [`${P}.facts.limits`]: null }],
    [
      'more hosts than the plan has',
      'limits and egress are the plan’s',
      { [`${P}.facts.egress.hosts`]: ['api.example.com:443', 'evil.example'] },
    ],
    [
      'no cgroup although the plan requires one',
      'it had a cgroup if the plan requires one, and only if the worker had proven cgroups',
      { [`${P}.execution.cgroup`]: false },
    ],
    ['no output', 'the execution digest matches', { [`${P}.execution.stdout`]: null }],
    [
      'a stronger sandbox',
      'the execution digest matches',
      { [`${P}.execution.sandbox_enforcement`]: 'microvm' },
    ],
    [
      'success despite exit code 1',
      'the ending fits the outcome',
      reexecuted(executed, { outcome: { kind: 'exit', code: 1 } }),
    ],
    [
      'success after a timeout',
      'the ending fits the outcome',
      reexecuted(executed, { outcome: { kind: 'timeout' } }),
    ],
    ['success without an outcome', 'the ending fits the outcome', reexecuted(executed, { outcome: null })],
    ['a timeout that did not happen', 'the ending fits the outcome', { [`${P}.timed_out`]: true }],
    ['an error together with success', 'the ending fits the outcome', { [`${P}.error`]: 'runtime_failure' }],
    ['a state that is no ending', 'the ending fits the outcome', { [`${P}.state`]: 'running' }],
    [
      'no approval although policy asked',
      'an approval exists where policy asks for one',
      { [`${P}.facts.approval`]: null },
    ],
    [
      'an approval that nobody answered',
      'an approval exists where policy asks for one',
      { [`${P}.facts.approval.answers`]: [] },
    ],
    [
      'an approval that was denied',
      'an approval exists where policy asks for one',
      { [`${P}.facts.approval.answers.0.decision`]: 'deny' },
    ],
    [
      'an execution after a denial',
      'nothing ran without a grant',
      { [`${P}.facts.decision.effect`]: 'deny' },
    ],
    [
      'an execution without a grant',
      'the worker that the grant names has a key in the key file',
      { [`${P}.grant`]: null },
    ],
    [
      'another deadline than the grant’s',
      'the grant is the edge’s, for this call and worker',
      { [`${P}.grant.deadline_ms`]: 1 },
    ],
    [
      'another fence than the grant’s',
      'the grant is the edge’s, for this call and worker',
      { [`${P}.grant.fence`]: 2 },
    ],
  ]
  test.each(lies)(
    'T01 a bundle with %s is refused even if worker and edge signed it',
    (_name, check, changes) => {
      expect(failed(collude(executed, changes))).toContain(check)
    },
  )

  test('T01 an unchanged bundle with new signatures of worker and edge verifies', () => {
    expect(failed(collude(executed, {}))).toEqual([])
    expect(failed(regrant(executed, {}))).toEqual([])
    expect(failed(collude(denied, {}, [EDGE]))).toEqual([])
  })

  test('T01 a statement of success that only the edge signed is refused', () => {
    expect(failed(collude(executed, reexecuted(executed, { executor: EDGE_EXECUTOR }), [EDGE]))).toContain(
      'the ending fits the outcome',
    )
  })

  test.each([
    ['denied', true],
    ['rejected', true],
    ['expired', true],
    ['cancelled', true],
    ['lapsed', true],
    ['released', true],
    ['indeterminate', true],
    ['proposed', false],
    ['awaiting_approval', false],
    ['granted', false],
    ['running', false],
    ['succeeded', false],
    ['failed', false],
    ['timed_out', false],
  ])('T01 a statement that a call without execution ended as %s verifies: %s', (state, fine) => {
    const ended = collude(
      denied,
      { 'statement.predicate.state': state, 'statement.predicate.timed_out': state === 'timed_out' },
      [EDGE],
    )
    expect(failed(ended)).toEqual(fine ? [] : ['the ending fits the outcome'])
  })
})

test('T01 a statement that a call with a plan was released contradicts the plan', () => {
  const statement = statementIn(denied)
  const released = { ...statement, predicate: { ...statement.predicate, state: 'released' as const } }
  const ofState = (plan: Plan | null) =>
    contradictions(released, { grant: null, plan }).filter(({ at }) => at === '/predicate/state')
  expect(ofState(null)).toEqual([])
  expect(ofState(executed.call.plan)).toEqual([{ at: '/predicate/state', what: 'ending' }])
})

describe('a bundle whose arguments a retention rule has removed', () => {
  test('verifies, and says that nothing compares the plan', () => {
    for (const bundle of [executed, denied]) {
      const { ok, checks } = verifyBundle(withoutArguments(bundle), KEYS)
      expect([ok, checks.map(({ name }) => name)]).toEqual([
        true,
        expect.arrayContaining([ARGUMENTS_REMOVED]),
      ])
    }
  })

  test('T01 is refused with other arguments, another grant, without its grant, or with another call', () => {
    const bundle = withoutArguments(executed)
    const grant = 'the grant is the edge’s, for this call and worker'
    expect(failed({ ...executed, removed: tombstoneOf(executed) })).toEqual([ARGUMENTS_REMOVED])
    expect(failed({ ...bundle, call: { ...bundle.call, arguments: {} } })).toEqual([ARGUMENTS_REMOVED])
    expect(failed({ ...bundle, grant: null })).toEqual([grant])
    expect(failed({ ...bundle, grant: regrant(executed, { fence: 2 }).grant })).toEqual([grant])
    expect(failed(regrant(bundle, {}, { ...STRANGER, kid: EDGE.kid }))).toEqual([grant])
    expect(failed({ ...bundle, call: { ...bundle.call, run: denied.call.call } })).toEqual([
      'the facts name the same call',
    ])
  })

  test('J01 is refused unless a trusted edge key signed the removal of this call’s arguments', () => {
    const bundle = withoutArguments(executed)
    const removals: [string, Bundle['removed']][] = [
      ['none', undefined],
      ['by the worker', tombstoneOf(executed, { arguments: REMOVAL }, WORKER)],
      ['by a stranger under the edge’s key id', tombstoneOf(executed, { arguments: REMOVAL }, as(EDGE))],
      ['with a second signature', countersign(tombstoneOf(executed), WORKER)],
      ['of another call', tombstoneOf(denied)],
      [
        'of another digest',
        tombstoneOf(executed, { arguments: REMOVAL }, EDGE, { digest: digestOf('other') }),
      ],
      ['of another tenant', tombstoneOf(executed, { arguments: REMOVAL }, EDGE, { tenant: 'acme' })],
      ['of another type', seal('application/json', { of: 'parts' }, EDGE)],
      ['of the output alone', tombstoneOf(executed, { outputs: REMOVAL })],
    ]
    const digest = 'the digest covers these arguments and this plan'
    for (const [name, removed] of removals) {
      const { removed: _signed, ...unsigned } = bundle
      const found = failed(removed === undefined ? unsigned : { ...unsigned, removed })
      const isSaid = name === 'none' || name === 'of the output alone'
      expect([name, found[0]]).toEqual([name, isSaid ? digest : REMOVAL_SIGNED])
    }
    expect(failed({ ...executed, removed: tombstoneOf(executed, { outputs: REMOVAL }) })).toEqual([])
  })
})

describe('T01 the grant', () => {
  test.each([
    ['of another call', regrant(executed, { 'facts.call': 'call_01KA5XJ3M0000000000000000A_9' })],
    ['with other facts', regrant(executed, { 'facts.agent': 'other' })],
    ['to another worker', regrant(executed, { worker: 'wrk_01KA5XJ3M0000000000000000B' })],
    ['with another fence', regrant(executed, { fence: 2 })],
    ['with another deadline', regrant(executed, { deadline_ms: NOW + 39_000 })],
    ['without a deadline', regrant(executed, { deadline_ms: GONE })],
    ['by the worker itself', regrant(executed, {}, WORKER)],
    ['by a stranger under the edge’s key id', regrant(executed, {}, { ...STRANGER, kid: EDGE.kid })],
    [
      'issued at another time than the named one',
      { ...executed, grant: regrant(executed, { issued_at_ms: 1 }).grant },
    ],
    ['that is missing', { ...executed, grant: null }],
    ['that is the statement', { ...executed, grant: executed.envelope }],
  ])('T01 a grant %s is refused', (_name, bundle) => {
    expect(failed(bundle)).toEqual(
      expect.arrayContaining([
        expect.stringMatching(/^the (?:grant is the edge’s|facts are those of the grant)/),
      ]),
    )
  })

  test('T01 a grant in the bundle of a call without a grant is refused', () => {
    expect(failed({ ...denied, grant: executed.grant })).toEqual([
      'no grant is included where none was issued',
    ])
  })
})
