// Promise: both client packages judge signatures, digests and bundles as the edge does, without
// Node and without a library of the reader's machine (T02, J01).

import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { build } from 'esbuild'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { PORTABLE } from '../../infra/clients/package.ts'
import { ROOT } from '../../infra/state.ts'
import { digestOf, parseJson, sha256 } from '../../shared/bytes/json.ts'
import { Bundle, verifyBundle } from '../../shared/evidence/bundle.ts'
import { CHECK_NAMES } from '../../shared/evidence/checks.ts'
import { contradictions } from '../../shared/evidence/contradictions.ts'
import { seal } from '../../shared/evidence/dsse.ts'
import { edgeKeysOf, type Keys, sealLink } from '../../shared/evidence/keys.ts'
import { Grant, Statement } from '../../shared/evidence/statement.ts'
import { type Outcome, Plan } from '../../shared/plan/plan.ts'
import { FORGED } from '../shared/bundles/forged.ts'
import { vectors } from '../shared/curve.ts'
import {
  collude,
  deniedBundle,
  EDGE,
  EXCHANGE,
  executedBundle,
  grantIn,
  KEYS,
  logFor,
  NOW,
  reexecuted,
  regrant,
  STRANGER,
  skillBundle,
  statementIn,
  upstreamBundle,
  WORKER,
  withoutArguments,
} from '../shared/evidence.ts'
import { JSON_CASES, jsonBytes } from '../shared/json-cases.ts'
import { changed, others, type Path, paths, reached, withChanges } from '../shared/tamper.ts'
import type { portable as Portable } from './portable.ts'

const [NOTHING, OTHER] = [sha256(''), sha256('other')]
let portable: typeof Portable
const folder = mkdtempSync(join(tmpdir(), 'countersign-portable-'))
beforeAll(async () => {
  const outfile = join(folder, 'portable.mjs')
  const entry = join(ROOT, 'test/clients/portable.ts')
  await build({ ...PORTABLE, entryPoints: [entry], outfile, bundle: true })
  ;({ portable } = (await import(outfile)) as { portable: typeof Portable }) // the entry exports it
})
afterAll(() => rmSync(folder, { recursive: true }))

/** The answers of the Python package to questions, one for each. */
function python(questions: readonly unknown[]): unknown[] {
  const ran = spawnSync('python3', ['-I', '-c', IN_PACKAGE, join(ROOT, 'clients/python')], {
    input: questions.map((question) => `${JSON.stringify(question)}\n`).join(''),
    encoding: 'utf8',
    maxBuffer: 64 * 1024 * 1024,
    env: { PATH: '/usr/bin:/bin', PYTHONDONTWRITEBYTECODE: '1' },
  })
  if (ran.status !== 0) throw new Error(`python3: ${ran.error?.message ?? ran.stderr}`)
  return ran.stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as unknown)
}
const IN_PACKAGE =
  'import sys, runpy; sys.path.insert(0, sys.argv[1] + "/src"); runpy.run_path(sys.argv[1] + "/tests/judge.py")'

const hex = (text: string): Buffer => Buffer.from(text, 'hex')

describe('signatures', () => {
  const all = vectors()
  test('T02 the bundled verifier judges each vector as it is labelled', () => {
    const answers = all.map(({ x, message, signature }) =>
      portable.isSignedBy(x, hex(message), hex(signature)),
    )
    expect(answers).toEqual(all.map(({ holds }) => holds))
  })

  test('T02 the verifier of the Python package judges each vector as it is labelled', () => {
    const questions = all.map(({ x, message, signature }) => ({
      key: Buffer.from(x, 'base64url').toString('hex'),
      message,
      signature,
    }))
    expect(python(questions)).toEqual(all.map(({ holds }) => holds))
  })
})

describe('digests', () => {
  test('the bundled parser and digest give the same results as the edge’s', () => {
    for (const item of JSON_CASES) {
      const [ours, theirs] = [portable.parseJson(jsonBytes(item)), parseJson(jsonBytes(item))]
      expect([item.name, ours.ok && portable.digestOf(ours.value)]).toEqual([
        item.name,
        theirs.ok && digestOf(theirs.value),
      ])
    }
  })

  test('the Python package gives the digest that the edge gives, for values that it accepts', () => {
    const texts = JSON_CASES.flatMap((item) => {
      const read = parseJson(jsonBytes(item))
      return read.ok ? [{ text: jsonBytes(item), digest: digestOf(read.value) }] : []
    })
    const numbers = [0, 1.5, 1.5e21, 123e-8, 1e-6, 5e-324, -0.1, 4.35, 2 ** 53 - 1, 1.7976931348623157e308]
    const asked = [
      ...texts.map(({ text, digest }) => ({ json: Buffer.from(text).toString('utf8'), digest })),
      ...numbers.map((value) => ({ json: JSON.stringify(value), digest: digestOf(value) })),
    ]
    expect(python(asked.map(({ json }) => ({ json })))).toEqual(asked.map(({ digest }) => digest))
  })
})

describe('bundles', () => {
  const executed = executedBundle()
  const removed = withoutArguments(executed)
  const whole = { executed, denied: deniedBundle(), removed }
  /** Of snapshot, journal and log a sample: all would take a minute, and one comparison finds any change. */
  const isTried = ([part]: Path, i: number): boolean =>
    !['snapshot', 'journal', 'log'].includes(`${part}`) || i % 7 === 0
  const tampered = Object.values(whole).flatMap((bundle) =>
    paths(bundle)
      .filter(isTried)
      .flatMap((path) => others(reached(bundle, path)).map((to) => changed(bundle, path, to))),
  )

  test('genuine bundles verify in both packages, and those of another call do not', () => {
    for (const bundle of Object.values(whole)) {
      expect(portable.verify(bundle, KEYS)).toMatchObject({ ok: true })
      expect(
        portable.verify(JSON.stringify(bundle), JSON.stringify(KEYS), { call: bundle.call.call }).ok,
      ).toBe(true)
      expect(portable.verify(bundle, KEYS, { call: 'call_of_another' }).ok).toBe(false)
    }
    expect(python(Object.values(whole).map((bundle) => ({ bundle, keys: KEYS })))).toEqual([true, true, true])
  })

  test('J01 the bundled verifier gives each tampered bundle the verdict of the edge’s code', () => {
    expect(tampered.length).toBeGreaterThan(300)
    for (const bundle of tampered) {
      const parsed = Bundle.safeParse(bundle)
      const expected = parsed.success && verifyBundle(parsed.data, KEYS).ok
      expect(portable.verify(bundle, KEYS).ok, JSON.stringify(bundle).slice(0, 300)).toBe(expected)
    }
  })

  test('J01 the Python package accepts no tampered bundle that the edge’s code refuses', () => {
    const refused = tampered.filter((bundle) => {
      const parsed = Bundle.safeParse(bundle)
      return !parsed.success || !verifyBundle(parsed.data, KEYS).ok
    })
    const answers = python(refused.map((bundle) => ({ bundle, keys: KEYS })))
    const accepted = refused.filter((_, i) => answers[i] === true)
    expect(accepted.map((bundle) => JSON.stringify(bundle))).toEqual([])
  })

  test('J01 a journal that does not fit its statement is refused by both clients, though all hashes fit', () => {
    for (const [name, checks, bundle] of FORGED) {
      const verdict = portable.verify(bundle, KEYS)
      expect([name, verdict.checks.flatMap((check) => (check.ok ? [] : [check.name]))]).toEqual([
        name,
        checks,
      ])
    }
    const answers = python(FORGED.map(([, , bundle]) => ({ bundle, keys: KEYS })))
    expect(FORGED.filter((_, i) => answers[i] !== false).map(([name]) => name)).toEqual([])
  })

  test('T01 a false report signed by edge and worker fails in both packages, which name the place', () => {
    const bundle = executedBundle()
    const lie = collude(bundle, reexecuted(bundle, { cgroup: false }))
    const { ok, checks } = portable.verify(lie, KEYS)
    expect(ok).toBe(false)
    const failed = checks.filter((check) => !check.ok)
    expect(failed).toEqual([{ ok: false, name: CHECK_NAMES.counted, at: '/predicate/execution/cgroup' }])
    expect(python([{ bundle: lie, keys: KEYS }])).toEqual([false])
  })

  test('a statement without the approval that policy asked for, and a changed grant, are refused by both clients', () => {
    const bundle = executedBundle()
    const lies = [
      collude(bundle, { 'statement.predicate.facts.approval': null }),
      regrant(bundle, { worker: 'edge' }),
      regrant(bundle, { deadline_ms: 1 }),
      { ...bundle, grant: null },
    ]
    for (const lie of lies) expect(portable.verify(lie, KEYS).ok).toBe(false)
    expect(python(lies.map((lie) => ({ bundle: lie, keys: KEYS })))).toEqual(lies.map(() => false))
  })

  test('a call of an upstream, which the edge alone signs, verifies in both packages', () => {
    const bundle = upstreamBundle()
    expect(portable.verify(bundle, KEYS).checks.filter((check) => !check.ok)).toEqual([])
    expect(python([{ bundle, keys: KEYS }])).toEqual([true])
  })

  test('T03 both packages judge a bundle by the chain of edge keys and by the time in which each one signs', () => {
    const bundle = executedBundle()
    const HOUR = 3_600_000
    const documentWith = (from_ms: number, distrusted?: number): Keys => {
      const distrusts = distrusted === undefined ? null : { kid: EDGE.kid, from_ms: distrusted }
      const chain = [sealLink({ from_ms, until_ms: from_ms + HOUR, distrusts }, EDGE, STRANGER)]
      const keys = edgeKeysOf(EDGE.x, chain)
      return { ...KEYS, keys: [...(keys.ok ? keys.value : []), ...KEYS.keys.slice(1)], chain }
    }
    const rotated = documentWith(NOW + 15)
    const [old, now, worker] = rotated.keys
    const later = collude(bundle, {}, [WORKER, STRANGER])
    const cases: readonly (readonly [Bundle, unknown, boolean])[] = [
      [bundle, rotated, true],
      [later, rotated, true],
      [later, KEYS, false],
      [later, { ...rotated, chain: [] }, false],
      [later, { ...rotated, keys: [old, { ...now, from_ms: 0 }, worker] }, false],
      [later, { ...rotated, chain: [seal(LINK, { ...linkIn(rotated), key: STRANGER.x }, STRANGER)] }, false],
      [bundle, documentWith(NOW - 2 * HOUR), false],
      [regrant(bundle, {}, STRANGER), documentWith(NOW + HOUR), false],
      [{ ...bundle, log: logFor(bundle.journal, STRANGER) }, documentWith(NOW + HOUR, NOW + 21), true],
      [bundle, documentWith(NOW + HOUR, NOW + 21), false],
      [{ ...bundle, log: logFor(bundle.journal, STRANGER) }, documentWith(NOW + HOUR, NOW + 20), false],
    ]
    expect(cases.map(([one, keys]) => portable.verify(one, keys).ok)).toEqual(cases.map(([, , ok]) => ok))
    expect(python(cases.map(([one, keys]) => ({ bundle: one, keys })))).toEqual(cases.map(([, , ok]) => ok))
  })

  test('a text with a duplicate member is refused, whichever value is right', () => {
    const text = JSON.stringify(whole.executed).replace('{"format"', '{"format":"other","format"')
    expect(portable.verify(text, KEYS).ok).toBe(false)
    expect(python([{ bundle: text, keys: KEYS }])).toEqual([false])
  })
})

const LINK = 'application/vnd.countersign.key-link+json'
const linkIn = ({ chain: [link] }: Keys): object =>
  JSON.parse(Buffer.from(link?.payload ?? '', 'base64').toString()) as object // we made it

/** Every kind of outcome. */
const OUTCOMES: readonly Outcome[] = [
  ...[0, 3, 126].map((code) => ({ kind: 'exit', code }) as const),
  ...['SIGKILL', 'SIGXCPU'].map((signal) => ({ kind: 'signal', signal }) as const),
  ...(['timeout', 'output_cap', 'memory_cap', 'cpu_cap', 'workspace_cap', 'cancelled'] as const).map(
    (kind) => ({ kind }),
  ),
  ...(['returned', 'fuel_exhausted'] as const).map((kind) => ({ kind })),
  ...(['invalid_output', 'skill_error', 'trap', 'capability_denied', 'infra'] as const).map((kind) => ({
    kind,
    detail: '',
  })),
  ...(['upstream_error', 'upstream_wants_input', 'no_answer'] as const).map((kind) => ({ kind, detail: '' })),
  { kind: 'refused', code: 'upstream_unavailable', detail: '' },
]
const EXECUTORS = ['edge', 'wasm_isolate', 'mcp_client', 'worker', 'sandbox_tier_b_linux_rlimits']
/** Values that fit many fields of a statement. */
const NEAR: readonly unknown[] = [
  NOTHING,
  OTHER,
  'failed',
  'host_not_listed',
  'B',
  'evil.example',
  80,
  10_000_000,
  500_000,
]

describe('T01 contradictions', () => {
  type Question = { readonly statement: Statement; readonly grant: Grant | null; readonly plan: Plan | null }
  const Questions = z.strictObject({ statement: Statement, grant: Grant.nullable(), plan: Plan.nullable() })

  /** With connections, credentials and files, of a denial, an upstream and a skill; and two false ones. */
  function trueOnes(): Question[] {
    const questionOf = (bundle: Bundle): Question => ({
      statement: statementIn(bundle),
      grant: grantIn(bundle),
      plan: bundle.call.plan,
    })
    const [ran, denied] = [questionOf(executedBundle()), questionOf(deniedBundle())]
    const [called, skill] = [questionOf(upstreamBundle()), questionOf(skillBundle())]
    const EX = 'statement.predicate.execution'
    const connection = { ...ran.statement.predicate.execution.connections[0], bytes_in: 0, bytes_out: 0 }
    const full = withChanges(ran, {
      'plan.credentials': [{ secret: 'token', host: 'api.example.com:443', header: 'authorization' }],
      'plan.outputs': true,
      [`${EX}.files`]: { files: [], left: [], more: 0 },
      [`${EX}.connections`]: [
        { ...connection, credentials: ['token'] },
        { ...connection, host: 'evil.example', address: '', verdict: 'host_not_listed' },
        { ...connection, host: '«secret»', address: '', verdict: 'unresolvable' },
      ],
    })
    const stdio = withChanges(ran, {
      'plan.executor.mcp': { method: 'tools/call', upstream: 'docs', tool: 'search', definition: OTHER },
      [`${EX}.outcome`]: { kind: 'returned' },
      [`${EX}.upstream`]: { ...EXCHANGE, origin: 'stdio', definition_sha256: OTHER },
    })
    const refused = withChanges(ran, {
      [`${EX}.outcome`]: { kind: 'refused', code: 'sandbox_unavailable', detail: '' },
      [`${EX}.files`]: { files: [], left: [], more: 0 },
    })
    const json = withChanges(ran, { 'plan.executor.output': {}, [`${EX}.stdout.bytes`]: 100_000 })
    return [full, denied, called, skill, stdio, refused, json]
  }

  /** The statement with every executor and every outcome; most of them contradict it. */
  const withOtherEnds = (question: Question): Question[] => [
    ...EXECUTORS.map((executor) =>
      withChanges(question, { 'statement.predicate.execution.executor': executor }),
    ),
    ...OUTCOMES.map((outcome) => withChanges(question, { 'statement.predicate.execution.outcome': outcome })),
  ]
  const changedOnce = (question: Question): Question[] =>
    paths(question).flatMap((path) =>
      [...others(reached(question, path)), ...NEAR].map((to) => changed(question, path, to)),
    )

  test('the Python package finds the contradictions that the edge finds, in thousands of changed statements', () => {
    const whole = trueOnes()
    expect(whole.map((one) => Questions.safeParse(one).success)).toEqual(whole.map(() => true))
    const once = whole.flatMap(changedOnce)
    // A sample of all pairs of changes: all would take minutes.
    const twice = whole
      .flatMap(withOtherEnds)
      .flatMap((question) => [question, ...changedOnce(question).filter((_, i) => i % 41 === 0)])
    const questions = [...whole, ...once, ...twice].filter((one) => Questions.safeParse(one).success)
    expect(questions.length).toBeGreaterThan(2_000)
    const found = new Set<string>()
    const differences: unknown[] = []
    for (const [i, answer] of python(questions).entries()) {
      const { statement, grant, plan } = questions[i] as Question // one answer for each
      const expected = new Set(
        contradictions(statement, { grant, plan }).map(({ at, what }) => `${at} ${what}`),
      )
      for (const one of expected) found.add(one)
      const answered = new Set((answer as [string, string][]).map(([at, what]) => `${at} ${what}`)) // as judge.py writes
      if (expected.symmetricDifference(answered).size > 0)
        differences.push([questions[i], expected, answered])
    }
    expect(differences).toEqual([])
    expect([...found]).toEqual(
      expect.arrayContaining([
        '/predicate/execution/skill/digest tier',
        '/predicate/execution/connections/0/credentials connections',
        '/predicate/execution/upstream/origin exchange',
        '/predicate/execution/skill/fuel_used limits',
        '/predicate/execution/skill/memory_bytes limits',
        '/predicate/execution/outcome outcome',
        '/predicate/execution/connections limits',
      ]),
    )
    expect(found.size).toBeGreaterThan(90)
  })
})
