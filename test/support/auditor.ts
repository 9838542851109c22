// Audits a stack: verifies attestations with public keys only, walks journals from their first
// entry, and rebuilds the log from its leaves. Throws if something is inconsistent.

import { verifyBundle } from '../../shared/evidence/bundle.ts'
import type { Head, JournalEntry } from '../../shared/evidence/journal.ts'
import { GENESIS, verifyChain } from '../../shared/evidence/journal.ts'
import { append, leafHash, root } from '../../shared/evidence/merkle.ts'
import type { Statement } from '../../shared/evidence/statement.ts'
import type { Client } from '../../shared/routes/client.ts'
import type { Call } from '../../shared/wire/calls.ts'
import { eventually } from './eventually.ts'
import { unwrap } from './fixtures.ts'
import { logHashes, logHead } from './log-reader.ts'
import { type HurtStack, insist } from './stack/hurt-stack.ts'

/** Verifies the call's attestation offline and checks that it is about this call and ending. */
export async function attested(
  { agent, operator }: HurtStack,
  { run, id, state, digest }: Call,
  tenant = 'default',
): Promise<Statement> {
  const bundle = unwrap(await insist(() => agent('readAttestation', { params: { run, call: id } })))
  const keys = unwrap(await insist(() => operator('keys', { query: { tenant } })))
  const verdict = verifyBundle(bundle, keys)
  if (!verdict.ok || verdict.statement === undefined)
    throw new Error(
      `the attestation of ${id} does not verify: ${JSON.stringify(verdict.checks.filter((check) => !check.ok))}`,
    )
  const { predicate } = verdict.statement
  if (predicate.state !== state || predicate.facts.digest !== digest || predicate.facts.call !== id)
    throw new Error(
      `the attestation of ${id} states another ending: ${predicate.state}, but the call is ${state}`,
    )
  return verdict.statement
}

/** The whole journal of a run after `from`, verified against the head that the run reports. */
export async function journalOf(
  { agent }: HurtStack,
  run: string,
  from: Head = GENESIS,
): Promise<JournalEntry[]> {
  const entries: JournalEntry[] = []
  const { journal } = unwrap(await insist(() => agent('readRun', { params: { run } })))
  for (let after = from.seq; after < journal.seq; after = from.seq + entries.length) {
    const page = unwrap(await insist(() => agent('readJournal', { params: { run }, query: { after } })))
    if (page.items.length === 0) throw new Error(`the journal of ${run} ends at ${after} of ${journal.seq}`)
    entries.push(...page.items)
  }
  const known = entries.slice(0, journal.seq - from.seq)
  const chain = verifyChain(known, from)
  if (!chain.ok) throw new Error(`the journal of ${run} breaks at ${chain.error.seq}: ${chain.error.reason}`)
  if (chain.value.hash !== journal.head) throw new Error(`the journal of ${run} does not end at its head`)
  return entries
}

/**
 * The entries that the retention rule has left of a run's journal. `calls`: all calls of the run as they
 * are now. Only the entries up to the newest head that one of their tombstones names may be gone.
 */
export async function journalLeft(
  hurt: HurtStack,
  run: string,
  calls: readonly Call[],
): Promise<JournalEntry[]> {
  const first = await insist(() => hurt.agent('readJournal', { params: { run }, query: {} }))
  if (first.ok) return journalOf(hurt, run)
  const heads = calls.flatMap(({ removed }) => removed?.evidence?.head ?? [])
  const last = heads.toSorted((a, b) => a.seq - b.seq).at(-1)
  if (first.error.code !== 'removed' || last === undefined)
    throw new Error(`the journal of ${run} can’t be read: ${JSON.stringify(first.error)}`)
  return journalOf(hurt, run, last)
}

/** The entries that end a call: only these name an attestation. */
export const endsIn = (entries: readonly JournalEntry[]): JournalEntry[] =>
  entries.filter(({ body }) => body['attestation'] !== undefined)

/**
 * Checks that the log has each of these endings exactly once and nothing else, and that its signed
 * head is the root over its leaves.
 */
export async function logHolds(
  { operator }: HurtStack,
  ends: ReadonlyArray<{ readonly hash: string }>,
): Promise<void> {
  const ask: Client = (name, input) => insist(() => operator(name, input))
  await eventually(`the log has ${ends.length} leaves`, async () => (await logHead(ask)).size >= ends.length)
  const { root: head, size: leavesSigned } = await logHead(ask)
  const leaves = await logHashes(ask)
  const [have, want] = [
    leaves.toSorted().join(),
    ends
      .map(({ hash }) => hash)
      .toSorted()
      .join(),
  ]
  if (have !== want)
    throw new Error(`the log has ${leaves.length} leaves, and ${ends.length} calls have ended`)
  const nodes = new Map<string, string>()
  const read = (level: number, index: number): string => nodes.get(`${level}/${index}`) ?? ''
  for (const [at, hash] of leaves.entries())
    for (const node of append(at, leafHash(Buffer.from(hash, 'hex')), read))
      nodes.set(`${node.level}/${node.index}`, node.hash)
  if (leavesSigned !== leaves.length || root(leaves.length, read) !== head)
    throw new Error('the log’s head is not the root over its leaves')
}
