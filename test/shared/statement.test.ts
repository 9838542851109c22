// Offline verification believes a whole bundle and nothing less: each part changed, alone or with every signature redone, is refused.

import { describe, expect, test } from 'vitest'
import { canonical, digestOf, EVIDENCE, parseJson } from '../../shared/bytes/json.ts'
import { Bundle, verifyBundle } from '../../shared/evidence/bundle.ts'
import { countersign, seal } from '../../shared/evidence/dsse.ts'
import { EDGE_EXECUTOR, STATEMENT_TYPE } from '../../shared/evidence/statement.ts'
import {
  collude,
  deniedBundle,
  EDGE,
  executedBundle,
  KEYS,
  NOW,
  reexecuted,
  regrant,
  STRANGER,
  statementIn,
  WORKER,
} from './evidence.ts'
import type { Changes } from './tamper.ts'
import { changed, GONE, others, paths, reached } from './tamper.ts'

const failed = (bundle: Bundle): string[] =>
  verifyBundle(bundle, KEYS).checks.flatMap(({ name, ok }) => (ok ? [] : [name]))

/** Whether this text, from whoever, would be believed. */
function believed(text: string | Uint8Array): boolean {
  const read = parseJson(typeof text === 'string' ? new TextEncoder().encode(text) : text, EVIDENCE)
  const bundle = Bundle.safeParse(read.ok ? read.value : undefined)
  return bundle.success && verifyBundle(bundle.data, KEYS).ok
}

const executed = executedBundle()
const denied = deniedBundle()

describe.each([
  ['executed', executed],
  ['denied', denied],
] as const)('the bundle of an %s call', (kind, bundle) => {
  test('is verified, with every check asked', () => {
    const verdict = verifyBundle(bundle, KEYS)
    expect(verdict).toMatchObject({
      ok: true,
      statement: { predicate: { state: kind === 'executed' ? 'succeeded' : 'denied' } },
    })
    expect(verdict.checks.length).toBeGreaterThanOrEqual(15)
    expect(believed(JSON.stringify(bundle))).toBe(true)
    expect(believed(JSON.stringify(bundle, null, 2))).toBe(true)
  })

  test('J01 is refused with any member of its file changed or removed', () => {
    let tried = 0
    for (const path of paths(bundle)) {
      for (const to of others(reached(bundle, path))) {
        const text = canonical(changed(bundle, path, to))
        if (text === canonical(bundle)) continue
        tried++
        if (believed(text)) throw new Error(`believed with ${path.join('.')} = ${String(to)}`)
      }
    }
    expect(tried).toBeGreaterThan(100)
  })

  test('T01 is refused with any member of its statement changed or removed under the old signatures', () => {
    const statement = statementIn(bundle)
    for (const path of paths(statement)) {
      for (const to of others(reached(statement, path))) {
        const payload = Buffer.from(canonical(changed(statement, path, to))).toString('base64')
        if (payload === bundle.envelope.payload) continue
        const text = canonical({ ...bundle, envelope: { ...bundle.envelope, payload } })
        if (believed(text)) throw new Error(`believed with ${path.join('.')} = ${String(to)}`)
      }
    }
  })

  test('J01 is refused with a bit of any byte of its file flipped', () => {
    const bytes = new TextEncoder().encode(JSON.stringify(bundle, null, 1))
    expect(believed(bytes)).toBe(true)
    for (let at = 0; at < bytes.length; at++) {
      const bit = 1 << (at % 8) // all eight in turn; all eight of every byte would take long
      bytes[at] = (bytes[at] ?? 0) ^ bit
      if (believed(bytes)) throw new Error(`believed with bit ${bit} of byte ${at} flipped`)
      bytes[at] = (bytes[at] ?? 0) ^ bit
    }
  })

  test('is refused cut short or drawn out', () => {
    const text = JSON.stringify(bundle)
    for (let end = 0; end < text.length; end += 7) expect(believed(text.slice(0, end))).toBe(false)
    expect(believed(`${text}x`)).toBe(false)
    expect(believed(`${text}${text}`)).toBe(false)
  })

  test('is refused with no keys, with somebody else’s, and with the roles of the right ones swapped', () => {
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
  const as = (signer: { kid: string }) => ({ ...STRANGER, kid: signer.kid })

  test.each([
    ['the worker’s alone', byWorker, 'an edge key from the key file signed it'],
    ['the edge’s alone', byEdge, BOTH],
    ['the edge’s twice', countersign(byEdge, EDGE), BOTH],
    ['the edge’s twice and the worker’s', countersign(countersign(byEdge, EDGE), WORKER), BOTH],
    ['a stranger’s besides', countersign(executed.envelope, STRANGER), BOTH],
    ['a stranger’s for the worker’s', countersign(seal(STATEMENT_TYPE, statement, STRANGER), EDGE), BOTH],
    [
      'a stranger’s under the worker’s name',
      countersign(seal(STATEMENT_TYPE, statement, as(WORKER)), EDGE),
      BOTH,
    ],
    ['a stranger’s under the edge’s name', countersign(byWorker, as(EDGE)), BOTH],
    ['right ones, over another type', countersign(seal('application/json', statement, WORKER), EDGE), BOTH],
    [
      'right ones, and the type changed afterwards',
      { ...executed.envelope, payloadType: 'application/json' },
      BOTH,
    ],
  ])('%s: refused', (_name, envelope, check) => {
    expect(failed({ ...executed, envelope })).toContain(check)
  })

  test('where nothing ran, a worker’s besides the edge’s is refused, and a stranger’s under the edge’s name', () => {
    expect(failed({ ...denied, envelope: countersign(denied.envelope, WORKER) })).toContain(ALONE)
    expect(failed({ ...denied, envelope: seal(STATEMENT_TYPE, statementIn(denied), as(EDGE)) })).toContain(
      ALONE,
    )
  })

  test('a second spelling of the payload is refused, though both signed it', () => {
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
    ['a statement with a member more', { ...statement, extra: 1 }],
    ['a statement of another predicate', { ...statement, predicateType: 'https://slsa.dev/provenance/v1' }],
  ])('%s is no statement, though both signed it', (_name, payload) => {
    const envelope = countersign(seal(STATEMENT_TYPE, payload, WORKER), EDGE)
    expect(failed({ ...executed, envelope })).toEqual([
      'the payload is an in-toto statement of our predicate',
    ])
  })
})

describe('T01 what edge and worker may not say, even together', () => {
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
    ['another digest of the arguments', 'the arguments digest fits', { [`${P}.facts.args_sha256`]: other }],
    ['another digest of the plan', 'the plan digest fits', { [`${P}.facts.plan_sha256`]: other }],
    ['no digest of the plan', 'the plan digest fits', { [`${P}.facts.plan_sha256`]: null }],
    ['no limits', 'limits and egress are the plan’s', { [`${P}.facts.limits`]: null }],
    [
      'more hosts than the plan has',
      'limits and egress are the plan’s',
      { [`${P}.facts.egress.hosts`]: ['api.example.com:443', 'evil.example'] },
    ],
    [
      'no cgroup, where the plan wants one',
      'it had a cgroup if the plan requires one, and only if the worker had proven cgroups',
      { [`${P}.execution.cgroup`]: false },
    ],
    ['no output', 'the execution digest fits', { [`${P}.execution.stdout`]: null }],
    [
      'a stronger sandbox',
      'the execution digest fits',
      { [`${P}.execution.sandbox_enforcement`]: 'microvm' },
    ],
    [
      'success, where the exit code is 1',
      'the ending fits the outcome',
      reexecuted(executed, { outcome: { kind: 'exit', code: 1 } }),
    ],
    [
      'success, after a timeout',
      'the ending fits the outcome',
      reexecuted(executed, { outcome: { kind: 'timeout' } }),
    ],
    [
      'success, where nobody saw the end',
      'the ending fits the outcome',
      reexecuted(executed, { outcome: null }),
    ],
    ['a timeout by name only', 'the ending fits the outcome', { [`${P}.timed_out`]: true }],
    ['an error beside success', 'the ending fits the outcome', { [`${P}.error`]: 'runtime_failure' }],
    ['a state that is no ending', 'the ending fits the outcome', { [`${P}.state`]: 'running' }],
    [
      'no approval, where policy asked',
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
  test.each(lies)('%s', (_name, check, changes) => {
    expect(failed(collude(executed, changes))).toContain(check)
  })

  test('with nothing changed, redoing the signatures is no offence', () => {
    expect(failed(collude(executed, {}))).toEqual([])
    expect(failed(regrant(executed, {}))).toEqual([])
    expect(failed(collude(denied, {}, [EDGE]))).toEqual([])
  })

  test('success by the edge’s word alone', () => {
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
    ['indeterminate', true],
    ['proposed', false],
    ['awaiting_approval', false],
    ['granted', false],
    ['running', false],
    ['succeeded', false],
    ['failed', false],
    ['timed_out', false],
  ])('that a call on which nothing ran ended as %s: %s', (state, fine) => {
    const ended = collude(
      denied,
      { 'statement.predicate.state': state, 'statement.predicate.timed_out': state === 'timed_out' },
      [EDGE],
    )
    expect(failed(ended)).toEqual(fine ? [] : ['the ending fits the outcome'])
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
    ['by a stranger under the edge’s name', regrant(executed, {}, { ...STRANGER, kid: EDGE.kid })],
    [
      'issued at another time than the named one',
      { ...executed, grant: regrant(executed, { issued_at_ms: 1 }).grant },
    ],
    ['that is missing', { ...executed, grant: null }],
    ['that is the statement', { ...executed, grant: executed.envelope }],
  ])('%s is refused', (_name, bundle) => {
    expect(failed(bundle)).toEqual(
      expect.arrayContaining([
        expect.stringMatching(/^the (?:grant is the edge’s|facts are those of the grant)/),
      ]),
    )
  })

  test('where nothing was granted is refused', () => {
    expect(failed({ ...denied, grant: executed.grant })).toEqual([
      'no grant is included where none was issued',
    ])
  })
})
