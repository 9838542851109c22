// Evidence that no honest edge makes, and evidence of kinds that take long to provoke: what
// `make.ts` writes besides the bundles of a real run. The keys are those of test/shared/evidence.ts.

import { digestOf } from '../../shared/bytes/json.ts'
import { ARGUMENTS_REMOVED, type Bundle, REMOVAL_SIGNED } from '../../shared/evidence/bundle.ts'
import { CHECK_NAMES } from '../../shared/evidence/checks.ts'
import { countersign, type Envelope, kidOf, payloadBytes, type Signer } from '../../shared/evidence/dsse.ts'
import { type KeyEntry, type Keys, sealLink } from '../../shared/evidence/keys.ts'
import { STATEMENT_TYPE, sealGrant } from '../../shared/evidence/statement.ts'
import { BASE_NONCE, chosenSignature, malleable, WEAK_KEYS, WEAK_NONCES } from '../shared/curve.ts'
import {
  chained,
  collude,
  deniedBundle,
  EDGE,
  executedBundle,
  grantIn,
  KEYS,
  logFor,
  NOW,
  REMOVAL,
  reexecuted,
  regrant,
  STRANGER,
  skillBundle,
  statementIn,
  tombstoneOf,
  upstreamBundle,
  WORKER,
  withoutArguments,
} from '../shared/evidence.ts'
import { type Changes, GONE, withChanges } from '../shared/tamper.ts'

/** `fails`: the first check that fails, or null. Bundle and keys are texts, as files contain them. */
export type Vector = {
  readonly name: string
  readonly fails: string | null
  readonly bundle: string
  readonly keys: string
}

const executed = executedBundle()
const denied = deniedBundle()
const FACTS = 'statement.predicate.facts'

const text = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value))
const vector = (name: string, fails: string | null, bundle: unknown, keys: unknown = KEYS): Vector => ({
  name,
  fails,
  bundle: text(bundle),
  keys: text(keys),
})

// ── Lies ──

/** A changed statement, signed by everybody who signed the original. */
const lying = (changes: Changes): Bundle => collude(executed, changes)
const executing = (changes: Changes, bundle = executed, by: readonly Signer[] = [WORKER, EDGE]): Bundle =>
  collude(bundle, { ...reexecuted(bundle, changes) }, by)
/** The edge vouches for other facts, in grant and statement. */
function vouching(facts: Changes): Bundle {
  const prefixed = (prefix: string): Changes =>
    Object.fromEntries(Object.entries(facts).map(([path, to]) => [`${prefix}.${path}`, to]))
  const granted = regrant(executed, prefixed('facts'))
  return collude(granted, prefixed(FACTS))
}
/** The same statement with these signatures; `spelled`: with other bytes for its payload. */
const signedBy = (...signers: readonly Signer[]): Bundle => {
  const none: Envelope = { ...executed.envelope, signatures: [] }
  return { ...executed, envelope: signers.reduce(countersign, none) }
}
const spelled = (payload: string): Bundle => {
  const none: Envelope = {
    payloadType: STATEMENT_TYPE,
    payload: Buffer.from(payload).toString('base64'),
    signatures: [],
  }
  return { ...executed, envelope: [WORKER, EDGE].reduce(countersign, none) }
}
/** A bundle with these entries, and with hashes and a leaf that fit them. */
const journalled = (entries: Bundle['journal']): Bundle => {
  const journal = chained(entries, entries[0]?.seq)
  return { ...executed, journal, log: logFor(journal) }
}
const { journal } = executed
const entry = (at: number): Bundle['journal'][number] => {
  const found = journal.at(at)
  if (found === undefined) throw new Error(`there is no entry ${at}`)
  return found
}
const changedEntry = (at: number, changes: Changes): Bundle =>
  journalled(journal.with(at, withChanges(entry(at), changes)))

// ── Signatures that lenient libraries accept ──

const signedText = ({ payloadType, payload }: Envelope): Buffer => {
  const bytes = Buffer.from(payload, 'base64')
  return Buffer.concat([
    Buffer.from(`DSSEv1 ${payloadType.length} ${payloadType} ${bytes.byteLength} `),
    bytes,
  ])
}
const edgeSignature = (sig: Uint8Array): Bundle => {
  const signatures = executed.envelope.signatures.map((one) =>
    one.keyid === kidOf(EDGE.x) ? { ...one, sig: Buffer.from(sig).toString('base64') } : one,
  )
  return { ...executed, envelope: { ...executed.envelope, signatures } }
}
const honest = Buffer.from(executed.envelope.signatures[1]?.sig ?? '', 'base64')

// ── Keys ──

const OF_EDGE = KEYS.keys[0] as KeyEntry // the table of keys has these two
const OF_WORKER = KEYS.keys[1] as KeyEntry
const withKeys = (...keys: readonly KeyEntry[]): Keys => ({ ...KEYS, keys: [...keys] })
const LINK = { from_ms: NOW + 1_000, until_ms: NOW + 2_000, distrusts: null }
const later: KeyEntry = { ...OF_EDGE, kid: kidOf(STRANGER.x), x: STRANGER.x, from_ms: LINK.from_ms }
const earlier: KeyEntry = { ...OF_EDGE, status: 'retired', until_ms: LINK.until_ms }
const rotated: Keys = {
  ...KEYS,
  keys: [earlier, later, OF_WORKER],
  chain: [sealLink(LINK, EDGE, STRANGER)],
}
/** The edge has a new key when the call ends; the old key signed the grant. */
const afterRotation = { ...signedBy(WORKER, STRANGER), log: logFor(journal, STRANGER) }
const lost = { kid: OF_EDGE.kid, from_ms: NOW + 15 }
const distrusted: Keys = {
  ...rotated,
  keys: [{ ...earlier, status: 'distrusted', distrusted_from_ms: lost.from_ms }, later, OF_WORKER],
  chain: [sealLink({ ...LINK, distrusts: lost }, EDGE, STRANGER)],
}

// ── Endings that take long to provoke ──

const cancelled = (): Bundle => {
  const bundle = executing({ outcome: { kind: 'cancelled' } })
  return collude(bundle, {
    'statement.predicate.state': 'cancelled',
    'statement.predicate.error': 'cancelled',
  })
}
/** The worker fell silent, so the edge ended the call. */
const indeterminate = (): Bundle =>
  executing(
    {
      outcome: null,
      stdout: null,
      stderr: null,
      connections: [],
      executor: 'edge',
      sandbox_enforcement: 'policy',
      cgroup: GONE,
      profile_sha256: null,
      argv_sha256: null,
      limits: GONE,
      started_at_ms: null,
    },
    collude(
      executed,
      { 'statement.predicate.state': 'indeterminate', 'statement.predicate.error': 'worker_lost' },
      [EDGE],
    ),
    [EDGE],
  )
const without = withoutArguments(executed)
const ofOutputs = tombstoneOf(executed, { outputs: REMOVAL })
/** A tombstone of the arguments, signed by another key, or about something else. */
const removedBy = (by: Signer, changes: object = {}): Envelope =>
  tombstoneOf(executed, { arguments: REMOVAL }, by, changes)

export const GOOD: readonly Vector[] = [
  vector('an approved call in tier C', null, executed),
  vector('a denial', null, denied),
  vector('a skill', null, skillBundle()),
  vector('a tool of an upstream', null, upstreamBundle()),
  vector('a call that was cancelled while it ran', null, cancelled()),
  vector('a call whose worker fell silent', null, indeterminate()),
  vector('a call whose arguments were removed', null, without),
  vector('a call whose output was removed', null, { ...executed, removed: ofOutputs }),
  vector(
    'a call whose removal a later key of the edge signed',
    null,
    { ...without, removed: removedBy(STRANGER) },
    rotated,
  ),
  vector('a call before a rotation of the edge’s key', null, executed, rotated),
  vector('a call that ended after a rotation of the edge’s key', null, afterRotation, rotated),
  vector(
    'a call whose worker was revoked later',
    null,
    executed,
    withKeys(OF_EDGE, {
      ...OF_WORKER,
      status: 'revoked',
      until_ms: NOW + 60_000,
    }),
  ),
]

const KEY_FILE = 'the key file is well-formed'
const BY_BOTH = 'exactly the worker and the edge signed it'
const STATEMENT = 'the payload is an in-toto statement of our predicate'
const LOGGED = 'the end of the call is in the log under this checkpoint'
const ANSWERED = 'the journal has the answers that the facts name, each given in time'
const CLAIMED = 'the journal has the claim under this grant'
const SNAPSHOT_DIGEST = 'the policy snapshot is the one that the facts name'
const poor = { ...executed.snapshot, allowed_tools: ['other'] }

export const BAD: readonly Vector[] = [
  vector(
    'keys: two members of one name',
    'the key file can be read',
    executed,
    text(KEYS).replace('{', '{"tenant":"x",'),
  ),
  vector('keys: a member that nobody knows', KEY_FILE, executed, { ...KEYS, extra: 1 }),
  vector(
    'keys: an id of another key',
    KEY_FILE,
    executed,
    withKeys({ ...OF_EDGE, kid: OF_WORKER.kid }, OF_WORKER),
  ),
  vector('keys: a second edge key without a link', KEY_FILE, executed, { ...rotated, chain: [] }),
  vector('keys: a link that the earlier key has not signed', KEY_FILE, executed, {
    ...rotated,
    chain: [sealLink(LINK, { ...WORKER, x: EDGE.x, kid: EDGE.kid }, STRANGER)],
  }),
  vector('keys: a link that goes back in time', KEY_FILE, executed, {
    ...rotated,
    chain: [sealLink({ ...LINK, until_ms: NOW }, EDGE, STRANGER)],
  }),
  vector('keys: a distrusted key that is listed as active', KEY_FILE, executed, {
    ...distrusted,
    keys: [earlier, later, OF_WORKER],
  }),
  ...Object.entries(WEAK_KEYS).map(([name, x]) =>
    vector(
      `keys: a point of small order, ${name}`,
      KEY_FILE,
      executed,
      withKeys({ ...OF_EDGE, x, kid: kidOf(x) }, OF_WORKER),
    ),
  ),
  vector('two members of one name', 'the bundle can be read', text(executed).replace('{', '{"format":"x",')),
  vector(
    'a number that would be rounded',
    'the bundle can be read',
    text(executed).replace('"four"', '1.50000000000000000001'),
  ),
  vector('a lone surrogate', 'the bundle can be read', text(executed).replace('"four"', '"\\ud800"')),
  vector('a member that nobody knows', 'the bundle is well-formed', { ...executed, extra: 1 }),
  vector(
    'base64 with other unused bits',
    'the bundle is well-formed',
    withChanges(executed, {
      'envelope.signatures.0.sig': `${executed.envelope.signatures[0]?.sig.slice(0, -3)}B==`,
    }),
  ),
  vector(
    'a predicate of another type',
    STATEMENT,
    lying({ 'statement.predicateType': 'https://slsa.dev/provenance/v1' }),
  ),
  vector(
    'a payload with a duplicate member',
    STATEMENT,
    spelled(Buffer.from(payloadBytes(executed.envelope)).toString().replace('{', '{"_type":"x",')),
  ),
  vector('the keys of another tenant', 'the key file belongs to the tenant of the attestation', executed, {
    ...KEYS,
    tenant: 'other',
  }),
  vector(
    'a payload with spaces',
    'the payload is in canonical form',
    spelled(JSON.stringify(statementIn(executed), null, 1)),
  ),
  vector('no signature of the edge', 'an edge key from the key file signed it', signedBy(WORKER)),
  vector(
    'an edge’s key that is distrusted since before the end',
    'the edge’s key is trusted for that time',
    executed,
    distrusted,
  ),
  vector(
    'a worker without a key',
    'the worker that the grant names has a key in the key file',
    executed,
    withKeys(OF_EDGE),
  ),
  vector(
    'a worker’s key that was revoked before the end',
    'the worker’s key is trusted for that time',
    executed,
    withKeys(OF_EDGE, { ...OF_WORKER, status: 'revoked', until_ms: NOW - 10_000 }),
  ),
  vector('no signature of the worker', BY_BOTH, signedBy(EDGE)),
  vector('a third signature', BY_BOTH, signedBy(WORKER, EDGE, STRANGER)),
  vector('another payload type', BY_BOTH, {
    ...executed,
    envelope: [WORKER, EDGE].reduce(countersign, {
      ...executed.envelope,
      payloadType: 'application/json',
      signatures: [],
    }),
  }),
  ...Object.entries({ ...WEAK_NONCES, 'the base point, with the right signature': BASE_NONCE }).map(
    ([name, nonce]) =>
      vector(
        `a signature whose R is ${name}`,
        nonce === BASE_NONCE ? null : BY_BOTH,
        edgeSignature(chosenSignature(signedText(executed.envelope), nonce)),
      ),
  ),
  vector('a signature whose S is not reduced', BY_BOTH, edgeSignature(malleable(honest, 1n) ?? honest)),
  vector('a second signature of a denial', 'exactly the edge signed it', {
    ...denied,
    envelope: countersign(denied.envelope, STRANGER),
  }),
  vector(
    'another run',
    'the facts name the same call',
    withChanges(executed, { 'call.run': 'run_01KA5XJ3M0000000000000000B' }),
  ),
  vector(
    'no answer that approves',
    'an approval exists where policy asks for one',
    vouching({ 'approval.answers': [] }),
  ),
  vector('a grant despite a denial', 'nothing ran without a grant', vouching({ 'decision.effect': 'deny' })),
  vector('a grant for a denial', 'no grant is included where none was issued', {
    ...denied,
    grant: executed.grant,
  }),
  vector(
    'other arguments',
    'the digest covers these arguments and this plan',
    withChanges(executed, { 'call.arguments.text': 'fore' }),
  ),
  vector(
    'another digest of the arguments',
    'the arguments digest matches',
    lying({ [`${FACTS}.args_sha256`]: digestOf('other') }),
  ),
  vector(
    'another digest of the plan',
    'the plan digest matches',
    lying({ [`${FACTS}.plan_sha256`]: digestOf('other') }),
  ),
  vector(
    'facts with higher limits than the plan',
    'limits and egress are the plan’s',
    lying({ [`${FACTS}.limits.pids`]: 129 }),
  ),
  vector(
    'a subject that is another call',
    CHECK_NAMES.subject,
    lying({ 'statement.subject.0.name': denied.call.call }),
  ),
  vector(
    'the id of another attestation',
    CHECK_NAMES.id,
    lying({ 'statement.predicate.attestation_id': 'att_01KA5XJ3M0000000000000000A_8' }),
  ),
  vector('an agent that the grant does not name', CHECK_NAMES.facts, lying({ [`${FACTS}.agent`]: 'other' })),
  vector('a grant by the worker', CHECK_NAMES.grant, {
    ...executed,
    grant: sealGrant(grantIn(executed) as never, WORKER),
  }), // it has one
  vector(
    'a grant for longer than the statement says',
    CHECK_NAMES.grant,
    lying({ 'statement.predicate.grant.deadline_ms': NOW + 50_000 }),
  ),
  vector(
    'a failure although the program exited with 0',
    CHECK_NAMES.ending,
    lying({ 'statement.predicate.state': 'failed' }),
  ),
  vector(
    'the digest of another execution',
    CHECK_NAMES.digest,
    lying({ 'statement.predicate.execution_sha256': digestOf('other') }),
  ),
  vector(
    'a plan of tier C that ran in tier B',
    CHECK_NAMES.tier,
    executing({ executor: 'sandbox_tier_b_linux_rlimits' }),
  ),
  vector('a program without a command line', CHECK_NAMES.started, executing({ argv_sha256: null })),
  vector('no cgroup although the plan requires one', CHECK_NAMES.counted, executing({ cgroup: GONE })),
  vector('more processes than the plan allows', CHECK_NAMES.limits, executing({ 'limits.pids': 129 })),
  vector(
    'output of a call that was refused',
    CHECK_NAMES.outcome,
    collude(executing({ outcome: { kind: 'refused', code: 'invalid_input', detail: '' } }), {
      'statement.predicate.state': 'failed',
      'statement.predicate.error': 'invalid_input',
    }),
  ),
  vector('more output kept than there was', CHECK_NAMES.output, executing({ 'stdout.kept': 3 })),
  vector(
    'a connection to a host that the plan does not name',
    CHECK_NAMES.connections,
    executing({ 'connections.0.host': 'api.example.net' }),
  ),
  vector(
    'an exchange with an upstream that the plan does not name',
    CHECK_NAMES.exchange,
    executing({ upstream: statementIn(upstreamBundle()).predicate.execution.upstream }),
  ),
  vector(
    'another definition of an upstream’s tool',
    CHECK_NAMES.exchange,
    executing({ 'upstream.definition_sha256': digestOf('other') }, upstreamBundle(), [EDGE]),
  ),
  vector('an end an hour after the deadline', CHECK_NAMES.times, executing({ ended_at_ms: NOW + 3_600_000 })),
  vector(
    'a worker’s clock an hour slow',
    CHECK_NAMES.times,
    executing({ started_at_ms: NOW - 3_600_000, ended_at_ms: NOW - 3_599_990 }),
  ),
  vector(
    'more fuel than the plan gives a skill',
    CHECK_NAMES.limits,
    executing({ 'skill.fuel_used': 2_000_001 }, skillBundle(), [EDGE]),
  ),
  vector('a plan although the arguments were removed', ARGUMENTS_REMOVED, {
    ...executed,
    removed: without.removed,
  }),
  vector('a removal that nobody signed', 'the bundle is well-formed', { ...without, removed: REMOVAL }),
  vector('a removal that the worker signed', REMOVAL_SIGNED, { ...without, removed: removedBy(WORKER) }),
  vector('the removal of another call', REMOVAL_SIGNED, {
    ...without,
    removed: removedBy(EDGE, { call: denied.call.call }),
  }),
  vector(
    'a removal that a distrusted key of the edge signed',
    REMOVAL_SIGNED,
    { ...afterRotation, call: without.call, removed: without.removed },
    distrusted,
  ),
  vector(
    'no arguments although only the output was removed',
    'the digest covers these arguments and this plan',
    { ...without, removed: ofOutputs },
  ),
  vector(
    'another policy snapshot',
    SNAPSHOT_DIGEST,
    withChanges(executed, { 'snapshot.allowed_tools': ['*'] }),
  ),
  vector('a snapshot that does not allow the tool', 'the snapshot allows this tool and plan', {
    ...vouching({ 'decision.snapshot': digestOf(poor) }),
    snapshot: poor,
  }),
  vector('a journal with an entry left out', 'the journal entries are linked up to the end of the call', {
    ...executed,
    journal: journal.toSpliced(1, 1),
  }),
  vector(
    'a journal that begins after the proposal',
    'the journal begins with the proposal of this call',
    journalled(journal.slice(1)),
  ),
  vector('an answer of somebody else', ANSWERED, changedEntry(2, { 'body.by': 'eve' })),
  vector('an answer that came too late', ANSWERED, changedEntry(2, { at_ms: NOW + 1_000 })),
  vector('a claim with another fence', CLAIMED, changedEntry(3, { 'body.fence': 2 })),
  vector(
    'a worker that was lost before the end',
    CLAIMED,
    journalled(journal.toSpliced(4, 0, { ...entry(3), kind: 'worker_lost' })),
  ),
  vector(
    'an end that names another attestation',
    'the last entry ends the call and names this attestation',
    changedEntry(4, { 'body.attestation': 'att_01KA5XJ3M0000000000000000A_8' }),
  ),
  vector(
    'a cancellation that nobody asked for',
    'a call that its executor cancelled was to be cancelled',
    (() => {
      const bundle = cancelled()
      const kept = chained(
        bundle.journal.filter(({ kind }) => kind !== 'cancel_requested'),
        4,
      )
      return { ...bundle, journal: kept, log: logFor(kept) }
    })(),
  ),
  vector('a checkpoint by a stranger', 'the edge signed the checkpoint of the tenant’s log', {
    ...executed,
    log: logFor(journal, STRANGER),
  }),
  vector('a checkpoint of another tenant’s log', 'the edge signed the checkpoint of the tenant’s log', {
    ...executed,
    log: logFor(journal, EDGE, 'edge.example/other'),
  }),
  vector('another leaf', LOGGED, withChanges(executed, { 'log.index': 3 })),
  vector(
    'a proof that is too long',
    LOGGED,
    withChanges(executed, { 'log.proof': [...executed.log.proof, digestOf('other')] }),
  ),
]
