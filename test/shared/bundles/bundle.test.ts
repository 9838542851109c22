// Promise: a bundle alone shows that its call was journalled and logged as the statement says. Each part
// of journal, snapshot and log that does not fit is found and named, even if the edge has made all hashes
// and signatures again (J01, T01).

import { describe, expect, test } from 'vitest'
import { sha256 } from '../../../shared/bytes/json.ts'
import { type Bundle, verifyBundle } from '../../../shared/evidence/bundle.ts'
import type { JournalEntry } from '../../../shared/evidence/journal.ts'
import { journalChecks, linkCheck } from '../../../shared/evidence/journal-checks.ts'
import {
  decidedUnder,
  type PolicySnapshot,
  snapshotChecks,
} from '../../../shared/evidence/policy-snapshot.ts'
import type { Statement } from '../../../shared/evidence/statement.ts'
import { LIMITS } from '../../../shared/limits.ts'
import type { Plan } from '../../../shared/plan/plan.ts'
import {
  chained,
  collude,
  deniedBundle,
  EDGE,
  KEYS,
  logFor,
  NOW,
  ORIGIN_OF_LOG,
  reexecuted,
  STRANGER,
  skillBundle,
  statementIn,
  upstreamBundle,
} from '../evidence.ts'
import type { Changes } from '../tamper.ts'
import { withChanges } from '../tamper.ts'
import { ANSWERED, CLAIMED, ENDED, entry, executed, FORGED, PROPOSED } from './forged.ts'

const LINKED = 'the journal entries are linked up to the end of the call'
const CANCELLED = 'a call that its executor cancelled was to be cancelled'
const SNAPSHOT = 'the policy snapshot is the one that the facts name'
const ALLOWED = 'the snapshot allows this tool and plan'
const SIGNED = 'the edge signed the checkpoint of the tenant’s log'
const LOGGED = 'the end of the call is in the log under this checkpoint'

const failed = (bundle: Bundle): string[] =>
  verifyBundle(bundle, KEYS).checks.flatMap(({ name, ok }) => (ok ? [] : [name]))

const { journal } = executed

test('the bundles of an executed call, a denial, a skill and an upstream verify, and each check has its own name', () => {
  for (const bundle of [executed, deniedBundle(), skillBundle(), upstreamBundle()]) {
    const { ok, checks } = verifyBundle(bundle, KEYS)
    expect([ok, checks.filter((check) => !check.ok)]).toEqual([true, []])
    const names = checks.map(({ name }) => name)
    expect(names.slice(-10)).toEqual([
      SNAPSHOT,
      ALLOWED,
      LINKED,
      PROPOSED,
      ANSWERED,
      CLAIMED,
      ENDED,
      CANCELLED,
      SIGNED,
      LOGGED,
    ])
    expect(new Set(names).size).toBe(names.length)
  }
})

describe('J01 the journal', () => {
  test.each<[string, JournalEntry[]]>([
    ['without an entry of another call', journal.toSpliced(1, 1)],
    ['with two entries swapped', [entry(0), entry(2), entry(1), entry(3), entry(4)]],
    ['with an entry twice', [...journal.slice(0, 2), ...journal.slice(1)]],
    ['with another body', journal.with(1, { ...entry(1), body: { tool: 'none' } })],
    ['with another time', journal.with(1, { ...entry(1), at_ms: 0 })],
    ['with an entry of another chain', journal.with(2, { ...entry(2), prev: sha256('other') })],
  ])('J01 a journal %s is refused', (_name, entries) => {
    expect(failed({ ...executed, journal: entries })).toContain(LINKED)
  })

  test.each(FORGED)('J01 a journal that %s is refused, though all hashes fit', (_name, checks, bundle) => {
    expect(failed(bundle)).toEqual(checks)
  })

  /** The checks that fail for this statement and these entries, with hashes that fit the entries. */
  const failing = (statement: Statement, entries: readonly JournalEntry[], from = 4): string[] =>
    [...journalChecks(statement, chained(entries, from))].flatMap(({ name, ok }) => (ok ? [] : [name]))
  const statement = statementIn(executed)

  test('a call that ran again after its worker was lost is checked with the claim under its last grant', () => {
    const again = withChanges(statement, { 'predicate.grant.fence': 2 })
    const entries = [
      ...journal.slice(0, 4),
      { ...entry(3), kind: 'worker_lost' },
      withChanges(entry(3), { 'body.fence': 2 }),
      entry(4),
    ]
    expect(failing(again, entries)).toEqual([])
    expect(failing(statement, entries)).toEqual([CLAIMED])
  })

  test('L3 a call whose arguments were changed has the digest and the answer of the change', () => {
    const changed = withChanges(entry(2), {
      kind: 'edited',
      'body.digest': statement.predicate.facts.digest,
      'body.args_sha256': statement.predicate.facts.args_sha256,
    })
    const proposal = withChanges(entry(0), { 'body.digest': 'x', 'body.args_sha256': 'y' })
    const early = withChanges(entry(2), { 'body.by': 'eve' })
    expect(failing(statement, [proposal, early, changed, entry(3), entry(4)])).toEqual([])
    expect(failing(statement, [entry(0), early, entry(2), entry(3), entry(4)])).toEqual([ANSWERED])
  })

  test('an answer replaces the standing answer of the same person', () => {
    const { by, decision, channel } = entry(2).body
    const standing = { by, decision, channel, at_ms: NOW - 5, standing: 'x', scope: 'session' }
    const proposal = withChanges(entry(0), { 'body.answers': [standing] })
    expect(failing(statement, journal.with(0, proposal))).toEqual([])
    expect(failing(statement, [proposal, entry(1), entry(3), entry(4)])).toEqual([ANSWERED])
    const answers = [{ by, decision, channel, at_ms: NOW - 5, standing: 'x' }]
    const answered = withChanges(statement, {
      'predicate.facts.approval.answers': answers,
      'predicate.facts.approval.scope': 'session',
    })
    expect(failing(answered, [proposal, entry(1), entry(3), entry(4)])).toEqual([])
  })

  test('L4 an executor may report a call as cancelled only if somebody cancelled it after the claim', () => {
    const lie = collude(executed, {
      ...reexecuted(executed, { outcome: { kind: 'cancelled' } }),
      'statement.predicate.state': 'cancelled',
      'statement.predicate.error': 'cancelled',
    })
    expect(failed(lie)).toEqual([])
    const asked = lie.journal.findIndex(({ kind }) => kind === 'cancel_requested')
    const wish = lie.journal.at(asked) ?? entry(0)
    const others = lie.journal.toSpliced(asked, 1)
    expect(failing(statementIn(lie), others)).toEqual([CANCELLED])
    expect(failing(statementIn(lie), others.toSpliced(1, 0, wish))).toEqual([CANCELLED])
  })

  test('a claim that was withdrawn ends the call as cancelled, and a release names the policies in force', () => {
    const { facts } = statement.predicate
    const nothing: Changes = { 'predicate.grant': null, 'predicate.execution.outcome': null }
    const withdrawn = withChanges(statement, { ...nothing, 'predicate.state': 'cancelled' })
    const until = journal.slice(0, 3)
    expect(failing(withdrawn, [...until, { ...entry(4), kind: 'withdrawn' }])).toEqual([])
    const released = withChanges(statement, { ...nothing, 'predicate.state': 'released' })
    const { policy_set, snapshot } = facts.decision
    const release = (body: object) => ({
      ...entry(4),
      kind: 'released',
      body: { ...entry(4).body, ...body },
    })
    expect(failing(released, [...until, release({ policy_set, snapshot })])).toEqual([])
    expect(failing(released, [...until, release({ policy_set, snapshot: '' })])).toEqual([CLAIMED])
  })

  test('T01 the worker’s times may not be later than the edge’s clock when it journalled the end', () => {
    const forged = chained(journal.with(4, { ...entry(4), at_ms: NOW - 4_981 }), 4)
    expect(failed({ ...executed, journal: forged, log: logFor(forged) })).toEqual([
      'it ran within the time of its grant',
    ])
    const just = chained(journal.with(4, { ...entry(4), at_ms: NOW - 4_980 }), 4)
    expect(failed({ ...executed, journal: just, log: logFor(just) })).toEqual([])
  })

  test('entries of other calls may be missing only if a bundle has no room for them, and the check says so', () => {
    const apart = (span: number): JournalEntry[] => {
      const [begin, end] = [chained(journal.slice(0, 1), 4), chained(journal.slice(2), 4 + span - 3)]
      return [...begin, ...end]
    }
    expect(LIMITS.bundle_entries).toBe(200)
    expect(linkCheck(apart(200))).toEqual({
      name: LINKED,
      ok: false,
      detail: expect.stringContaining('entry 5'),
    })
    expect(linkCheck(apart(201))).toEqual({
      name: 'each entry shown fits its hash; others are left out, and only those after the last gap are linked to the log',
      ok: true,
      detail: '197 entries are left out; those from entry 202 on are linked',
    })
    const bent = apart(201)
    const last = bent.at(-1) ?? entry(4)
    expect(linkCheck(bent.with(-1, { ...last, prev: sha256('other') })).ok).toBe(false)
    expect(linkCheck([...bent.slice(1), ...bent.slice(0, 1)]).ok).toBe(false)
  })
})

describe('the policy snapshot', () => {
  const { facts } = statementIn(executed).predicate
  const { plan } = executed.call
  const failing = (changes: Changes, other: Plan | null = plan, of = facts): string[] => {
    const snapshot = withChanges(executed.snapshot, changes)
    return [...snapshotChecks(snapshot, of, other)].flatMap(({ name, ok }) => (ok ? [] : [name]))
  }

  test('T01 a snapshot other than that of the decision is refused', () => {
    expect(failed({ ...executed, snapshot: deniedBundle().snapshot })).toEqual([SNAPSHOT, ALLOWED])
    expect(failing({ groups: ['admins'] })).toEqual([SNAPSHOT])
  })

  test.each<[string, Changes]>([
    ['not the tool', { allowed_tools: ['text_counts'] }],
    ['another version of the tool', { 'tool.version': 2 }],
    ['no program', { process_runner: null }],
    ['another tier', { 'process_runner.tiers': ['B'] }],
    ['another folder', { 'process_runner.workspace': 'run' }],
    ['another program', { 'process_runner.allowed_executables': ['cat'] }],
    ['other hosts', { 'process_runner.allowed_hosts': ['example.com', '.api.example.com'] }],
    ['another port', { 'process_runner.allowed_hosts': ['.example.com:80'] }],
    ['no secret', { 'process_runner.secrets': [] }],
    ['less time', { 'process_runner.limits.timeout_ms': 1 }],
  ])('T01 a snapshot that allows %s does not fit the plan', (_name, changes) => {
    expect(failing(changes)).toContain(ALLOWED)
  })

  test('a plan within the snapshot fits it: every tool, any program, the host itself', () => {
    for (const changes of [
      { allowed_tools: ['*'] },
      { 'process_runner.allowed_executables': null },
      { 'process_runner.allowed_hosts': ['api.example.com:443'] },
      { 'process_runner.allowed_hosts': ['api.example.com'] },
    ])
      expect(failing(changes)).toEqual([SNAPSHOT])
  })

  test.each<[string, Changes]>([
    ['no skill', { wasm_runtime: null }],
    ['less fuel', { 'wasm_runtime.fuel': 1 }],
    ['less memory', { 'wasm_runtime.memory_bytes': 1 }],
    ['no hosts', { 'wasm_runtime.allowed_hosts': [] }],
  ])('T01 a snapshot that allows %s does not fit the plan of a skill', (_name, changes) => {
    const bundle = skillBundle()
    const snapshot = withChanges(bundle.snapshot, changes)
    expect(failed({ ...bundle, snapshot })).toEqual([SNAPSHOT, ALLOWED])
  })

  test('secrets and stored keys of a skill are those that the snapshot allows', () => {
    const { snapshot, call, ...bundle } = skillBundle()
    const of = statementIn(bundle).predicate.facts
    const allows = (changes: Changes, more: Changes) =>
      [...snapshotChecks(withChanges(snapshot, changes), of, withChanges(call.plan, more))].at(1)?.ok
    for (const [list, member, value] of [
      ['allowed_secrets', 'secrets', 'token'],
      ['allowed_prefixes', 'executor.kv', 'notes/'],
    ])
      expect([
        allows({ [`wasm_runtime.${list}`]: [value] }, { [`${member}`]: [value] }),
        allows({}, { [`${member}`]: [value] }),
      ]).toEqual([true, false])
  })

  test('a denied call, and one whose plan was removed, fit without a plan that the snapshot allows', () => {
    expect(failing({}, null)).toEqual([])
    const checks = [...snapshotChecks({ ...executed.snapshot, process_runner: null }, facts, null)]
    expect(checks.map(({ ok }) => ok)).toEqual([false, true])
    const denied = withChanges(facts, { 'decision.effect': 'deny' })
    expect(failing({ allowed_tools: [] }, plan, denied)).toEqual([SNAPSHOT])
  })

  test('a call whose agent was revoked before its claim is denied under the snapshot of its proposal', () => {
    const decided = (effect: 'ask' | 'deny', policies: string[]) => ({
      ...facts,
      decision: { ...facts.decision, effect, policies, policy_set: sha256('later policies') },
    })
    const snapshot: PolicySnapshot = executed.snapshot
    expect(decidedUnder(snapshot, decided('deny', []))).toBe(true)
    expect(decidedUnder(snapshot, decided('deny', ['no-night-work']))).toBe(false)
    expect(decidedUnder(snapshot, decided('ask', []))).toBe(false)
  })
})

describe('J01 the log', () => {
  const withLog = (log: Partial<Bundle['log']>): Bundle => ({ ...executed, log: { ...executed.log, ...log } })
  const other = (head: { origin?: string; size?: number }) =>
    executed.log.checkpoint
      .replace(ORIGIN_OF_LOG, head.origin ?? ORIGIN_OF_LOG)
      .replace('\n7\n', `\n${head.size ?? 7}\n`)

  test.each<[string, Bundle, string[]]>([
    ['signed by a stranger', { ...executed, log: logFor(journal, STRANGER) }, [SIGNED, LOGGED]],
    [
      'signed by a stranger under the edge’s key id',
      withLog({ checkpoint: other({ size: 8 }) }),
      [SIGNED, LOGGED],
    ],
    ['of another tenant', { ...executed, log: logFor(journal, EDGE, 'edge.example/other') }, [SIGNED]],
    ['of no tenant', { ...executed, log: logFor(journal, EDGE, 'default') }, [SIGNED]],
    [
      'of a tenant below another one',
      { ...executed, log: logFor(journal, EDGE, 'edge.example/a/default') },
      [SIGNED],
    ],
    ['that is empty', withLog({ checkpoint: '' }), [SIGNED, LOGGED]],
  ])('J01 a checkpoint %s is judged', (_name, bundle, checks) => {
    expect(failed(bundle)).toEqual(checks)
  })

  test.each<[string, Partial<Bundle['log']>]>([
    ['at another index', { index: 3 }],
    ['beyond the log', { index: 7 }],
    ['without a proof', { proof: [] }],
    ['with a changed proof', { proof: executed.log.proof.with(0, sha256('other')) }],
    ['with a longer proof', { proof: [...executed.log.proof, sha256('other')] }],
  ])('J01 a leaf %s is refused', (_name, log) => {
    expect(failed(withLog(log))).toEqual([LOGGED])
  })

  test('J01 an end that the log does not have is refused', () => {
    const [last] = chained([entry(4)], entry(4).seq, entry(3).hash)
    if (last === undefined) throw new Error('there is no entry')
    const elsewhere = logFor([{ ...last, hash: sha256('another end') }])
    expect(failed({ ...executed, log: elsewhere })).toEqual([LOGGED])
  })
})
