// The evidence bundle of one call for an auditor, and its verification with only public keys,
// written as a checklist.

import { z } from 'zod'
import { canonical, digestOf, parseJson } from '../bytes/json.ts'
import { Sha256 } from '../fields.ts'
import { LIMITS } from '../limits.ts'
import { Plan } from '../plan/plan.ts'
import { err, ok, type Result } from '../result.ts'
import { verifyCheckpoint } from './checkpoint.ts'
import { CHECK_NAMES, type Check, type CheckKey } from './checks.ts'
import { contradictions, type Evidence } from './contradictions.ts'
import { Envelope, payloadBytes, signedByExactly } from './dsse.ts'
import { JournalEntry } from './journal.ts'
import { journalChecks, linkCheck } from './journal-checks.ts'
import { type Keys, keyAt, undatedEdgeKeys } from './keys.ts'
import { leafHash, PROOF_HASHES, verifyInclusion } from './merkle.ts'
import { NOTE_CHARS } from './note.ts'
import { PolicySnapshot, snapshotChecks } from './policy-snapshot.ts'
import { type PartsRemoval, partsRemoved } from './removal.ts'
import type { DigestInput, Facts } from './statement.ts'
import {
  BY_EDGE,
  callDigest,
  EDGE_EXECUTOR,
  GRANT_TYPE,
  Grant,
  STATEMENT_TYPE,
  Statement,
  ToolRef,
} from './statement.ts'

export const BUNDLE_FORMAT = 'countersign-bundle/v2'

/** The envelope, and everything that an auditor needs to recompute the digests in it. */
const EVIDENCE = {
  envelope: Envelope,
  grant: Envelope.nullable(),
  call: z.strictObject({
    tenant: z.string(),
    run: z.string(),
    call: z.string(),
    tool: ToolRef,
    arguments: z.json(),
    plan: Plan.nullable(),
  }),
  /**
   * The tombstone of what the tenant's retention rule has removed. If that is the arguments, they and
   * the plan are null; their digests are signed.
   */
  removed: Envelope.optional(),
}
export const CallEvidence = z.strictObject(EVIDENCE)
export type CallEvidence = z.infer<typeof CallEvidence>

/** Everything that shows one call to an auditor who has the public keys and nothing else. */
export const Bundle = z.strictObject({
  format: z.literal(BUNDLE_FORMAT),
  ...EVIDENCE,
  snapshot: PolicySnapshot,
  /**
   * The journal of the run from the call's first entry to its last one, whose hash was then the head of
   * the run. Only entries of this call, if there is no room for the others.
   */
  journal: z
    .array(JournalEntry.omit({ shadow: true }))
    .min(1)
    .max(LIMITS.bundle_entries),
  /** The place of the last entry in the tenant's log, and the proof that a signed head covers it. */
  log: z.strictObject({
    index: z.int().min(0),
    proof: z.array(Sha256).max(PROOF_HASHES),
    checkpoint: z.string().max(NOTE_CHARS),
  }),
})
export type Bundle = z.infer<typeof Bundle>

export type Verdict = {
  readonly ok: boolean
  readonly checks: readonly Check[]
  readonly statement?: Statement
  /** The parts whose removal the edge has signed. */
  readonly removed?: PartsRemoval | undefined
}

/** Verifies a bundle with only public keys, check by check; a failed check may end the list. */
export function verifyBundle(bundle: Bundle, keys: Keys): Verdict {
  const { snapshot, journal, log } = bundle
  const verdict = verifyCall(bundle, keys, () => snapshot, journal, linkCheck(journal))
  const { statement } = verdict
  if (statement === undefined) return verdict
  const { tenant } = statement.predicate.facts
  const checks = [...verdict.checks, ...logChecks(log, journal.at(-1)?.hash ?? '', tenant, keys)]
  return { ok: checks.every((check) => check.ok), checks, statement }
}

/**
 * Verifies a call by all that is known of it alone. `entries`: at least all of the call, of a journal of
 * which `linked` says whether it is whole.
 */
export function verifyCall(
  evidence: CallEvidence,
  keys: Keys,
  snapshotOf: (digest: string) => PolicySnapshot | undefined,
  entries: readonly JournalEntry[],
  linked: Check,
): Verdict {
  const { checks, statement, removed } = verifyAttestation(evidence, keys, entries.at(-1)?.at_ms)
  if (statement === undefined) return { ok: false, checks }
  const { facts } = statement.predicate
  const all = [
    ...checks,
    ...snapshotChecks(snapshotOf(facts.decision.snapshot), facts, evidence.call.plan),
    linked,
    ...journalChecks(statement, entries),
  ]
  return { ok: all.every((check) => check.ok), checks: all, statement, removed }
}

function* logChecks(
  { index, proof, checkpoint }: Bundle['log'],
  hash: string,
  tenant: string,
  keys: Keys,
): Generator<Check> {
  const [origin = ''] = checkpoint.split('\n', 1)
  const [, ...path] = origin.split('/')
  const isOfTenant = path.length === 1 && path[0] === tenant
  const heads = undatedEdgeKeys(keys).map(({ x }) => verifyCheckpoint(checkpoint, origin, x))
  const head = heads.find((one) => one.ok) ?? heads[0]
  const signed = isOfTenant && head?.ok === true
  const why = isOfTenant ? (head?.ok === false ? head.error : undefined) : 'it is of another tenant’s log'
  yield {
    name: 'the edge signed the checkpoint of the tenant’s log',
    ok: signed,
    ...(why === undefined ? {} : { detail: why }),
  }
  const leaf = leafHash(Buffer.from(hash, 'hex'))
  yield {
    name: 'the end of the call is in the log under this checkpoint',
    ok: head?.ok === true && verifyInclusion({ leaf, index, proof, ...head.value }),
  }
}

/**
 * Verifies the attestation of a call without the journal and the log. `journalled_ms`: when the edge
 * journalled the end.
 */
function verifyAttestation(bundle: CallEvidence, keys: Keys, journalled_ms?: number): Verdict {
  const checks: Check[] = []
  const holds = (name: string, condition: boolean, at?: string, detail?: string): boolean => {
    const fault = { ...(at === undefined ? {} : { at }), ...(detail === undefined ? {} : { detail }) }
    checks.push({ name, ok: condition, ...(condition ? {} : fault) })
    return condition
  }
  const payload = payloadBytes(bundle.envelope)
  const read = readAs(Statement, payload)
  if (
    !holds(
      'the payload is an in-toto statement of our predicate',
      read.ok,
      read.ok ? undefined : read.error,
    ) ||
    !read.ok
  )
    return { ok: false, checks }
  const statement = read.value
  const { facts, execution, grant } = statement.predicate
  // First, because with another tenant's keys the checks that follow fail without saying why.
  const advice = `the key file belongs to the tenant \`${keys.tenant}\`, the attestation to \`${facts.tenant}\`: fetch the keys with \`countersign keys list --tenant ${facts.tenant}\``
  holds(
    'the key file belongs to the tenant of the attestation',
    keys.tenant === facts.tenant,
    '/predicate/facts/tenant',
    advice,
  )

  if (!holds('the payload is in canonical form', utf8.decode(payload) === canonical(statement)))
    return { ok: false, checks }
  // A countersignature may come late, so only its earliest time is known.
  const inTime = (name: string, key: Parameters<typeof keyAt>[1]): string | undefined => {
    const found = keyAt(keys, key, { after_ms: execution.ended_at_ms })
    const detail = found.ok ? undefined : found.error
    holds(name, found.ok, '/predicate/execution/ended_at_ms', detail)
    return found.ok ? found.value : undefined
  }
  const required = new Map<string, string>()
  const kids = bundle.envelope.signatures.map(({ keyid }) => keyid)
  const edge = kids.find((kid) => keys.keys.some((key) => key.role === 'edge' && key.kid === kid))
  if (!holds('an edge key from the key file signed it', edge !== undefined) || edge === undefined)
    return { ok: false, checks }
  const edgeKey = inTime(KEY_TIMES.edge, { kid: edge, role: 'edge' })
  if (edgeKey === undefined) return { ok: false, checks }
  required.set(edge, edgeKey)
  const byWorker = !BY_EDGE.includes(execution.executor)
  if (byWorker) {
    const own = keys.keys.filter((key) => key.role === 'worker' && key.worker === grant?.worker)
    const used = own.find(({ kid }) => kids.includes(kid)) ?? own[0]
    if (
      !holds(
        'the worker that the grant names has a key in the key file',
        used !== undefined,
        '/predicate/grant/worker',
      ) ||
      !used
    )
      return { ok: false, checks }
    const workerKey = inTime(KEY_TIMES.worker, used)
    if (workerKey === undefined) return { ok: false, checks }
    required.set(used.kid, workerKey)
  }
  const signers = byWorker ? 'exactly the worker and the edge signed it' : 'exactly the edge signed it'
  if (
    !holds(
      signers,
      signedByExactly(bundle.envelope, STATEMENT_TYPE, required),
      '/predicate/execution/executor',
    )
  )
    return { ok: false, checks }

  const at = (name: keyof Facts): string => `/predicate/facts/${name}`
  const { call } = bundle
  const differs = (['tenant', 'run', 'call', 'tool'] as const).find(
    (name) => canonical(facts[name]) !== canonical(call[name]),
  )
  holds('the facts name the same call', differs === undefined, differs && at(differs))
  const approved = facts.decision.effect !== 'ask' || grant === null || approvedBySomeone(facts)
  holds('an approval exists where policy asks for one', approved, at('approval'))
  holds(
    'nothing ran without a grant',
    execution.executor === EDGE_EXECUTOR || (grant !== null && facts.decision.effect !== 'deny'),
    '/predicate/grant',
  )
  if (grant === null) holds('no grant is included where none was issued', bundle.grant === null)
  const granted = bundle.grant === null || grant === null ? null : grantIn(bundle.grant, keys)
  const removed = bundle.removed && partsRemoved(bundle.removed, facts, keys)
  if (bundle.removed !== undefined) holds(REMOVAL_SIGNED, removed !== undefined)
  if (removed?.arguments !== undefined) {
    // Only whoever has the arguments can check the rest. The edge did, before it signed.
    const same = grant === null || (granted !== null && digestOf(granted) === grant.sha256)
    holds(CHECK_NAMES.grant, same, '/predicate/grant')
    holds(ARGUMENTS_REMOVED, call.arguments === null && call.plan === null)
  } else checks.push(...checksOfPlan(statement, call, { grant: granted, now_ms: journalled_ms }))
  return { ok: checks.every((check) => check.ok), checks, statement, removed }
}

const KEY_TIMES = {
  edge: 'the edge’s key is trusted for that time',
  worker: 'the worker’s key is trusted for that time',
} as const

export const REMOVAL_SIGNED = 'the edge signed the removal of what is missing'

/** A bundle without arguments passes with this check in place of those that need them. */
export const ARGUMENTS_REMOVED =
  'the arguments were removed by the tenant’s retention rule: only their digest is signed, and nothing compares the plan'

/** The checks that need the arguments and the plan. */
function* checksOfPlan(
  statement: Statement,
  call: Bundle['call'],
  known: Omit<Evidence, 'plan'>,
): Generator<Check> {
  const { facts } = statement.predicate
  const { plan } = call
  const check = (name: string, ok: boolean, at?: string): Check =>
    ok || at === undefined ? { name, ok } : { name, ok, at }
  const at = (name: keyof Facts): string => `/predicate/facts/${name}`
  const bounded = (['limits', 'egress'] as const).find(
    (name) => canonical(facts[name]) !== canonical(plan?.[name] ?? null),
  )
  const covered = facts.digest === callDigest(call as DigestInput) // JSON, as it was read
  yield check('the digest covers these arguments and this plan', covered, at('digest'))
  yield check(
    'the arguments digest matches',
    facts.args_sha256 === digestOf(call.arguments),
    at('args_sha256'),
  )
  const isPlan = facts.plan_sha256 === (plan === null ? null : digestOf(plan))
  yield check('the plan digest matches', isPlan, at('plan_sha256'))
  yield check('limits and egress are the plan’s', bounded === undefined, bounded && at(bounded))
  const found = contradictions(statement, { ...known, plan })
  for (const [what, name] of Object.entries(CHECK_NAMES) as [CheckKey, string][]) {
    // `Object.entries` loses the key type
    const faults = found.filter((one) => one.what === what).slice(0, MAX_FAULTS)
    if (faults.length === 0) yield check(name, true)
    for (const fault of faults) yield check(name, false, fault.at)
  }
}

const utf8 = new TextDecoder()

/** Faults listed per check. */
const MAX_FAULTS = 16

/** The first field of a value that does not match its schema. */
export const faultIn = (error: z.ZodError | undefined): string =>
  `/${error?.issues[0]?.path.map(String).join('/') ?? ''}`

const approvedBySomeone = (facts: Facts): boolean =>
  facts.approval?.answers.some(({ decision }) => decision === 'approve') ?? false

/** The grant, if the edge signed it when it was issued, maybe with an earlier key than the attestation. */
function grantIn(envelope: Envelope, keys: Keys): Grant | null {
  const read = readAs(Grant, payloadBytes(envelope))
  const kid = envelope.signatures[0]?.keyid ?? ''
  if (!read.ok) return null
  const { issued_at_ms: at } = read.value
  const key = keyAt(keys, { kid, role: 'edge' }, { after_ms: at, before_ms: at })
  return key.ok && signedByExactly(envelope, GRANT_TYPE, new Map([[kid, key.value]])) ? read.value : null
}

/**
 * The signed document, as it was written: `safeParse` would put its members into another order, and the
 * digests of parts would need to sort them again. The error is the place of the first fault.
 */
function readAs<T extends z.ZodType>(schema: T, payload: Uint8Array): Result<z.infer<T>, string> {
  const parsed = parseJson(payload)
  const read = schema.safeParse(parsed.ok ? parsed.value : undefined)
  return read.success ? ok(parsed.ok ? (parsed.value as z.infer<T>) : read.data) : err(faultIn(read.error))
}
