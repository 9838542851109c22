// Verifies the evidence of a tenant, of a period or of a run: first each exported call, then that the
// log has exactly the ends of these calls and the entries of the tenant's own journals.

import { setTimeout as sleep } from 'node:timers/promises'
import type { Check } from '../../shared/evidence/checks.ts'
import { GENESIS, type Head, verifyChain } from '../../shared/evidence/journal.ts'
import type { Keys } from '../../shared/evidence/keys.ts'
import { ok, type Result } from '../../shared/result.ts'
import type { Quorum } from '../calls/cosignatures.ts'
import { listed, verifyParts } from '../calls/verify-export.ts'
import type { Trouble } from '../shell/command.ts'
import {
  aboutSeen,
  CONTINUES,
  contradiction,
  keepHead,
  SIGNED,
  type SignedHead,
  seenHeads,
  signedHead,
} from './checkpoints.ts'
import type { Evidence } from './evidence.ts'
import { RebuiltLog } from './rebuild.ts'
import { LIVE_PAUSE_MS, LIVE_WAIT_MS } from './sources.ts'
import { witnessed } from './witnesses.ts'

const REBUILT = 'the entries of the log have the root that the edge signed'
const TENANT_JOURNALS = 'the tenant’s own journals are intact'
const LOGGED = 'the log has each end of a call, and each entry of the tenant’s journals, once'
const WHOLE = 'the log has no other leaves'

type Verified = { readonly checks: readonly Check[]; readonly about: Record<string, string> }

/** `isPart`: the evidence is of a period or a run, so the log has other leaves too. */
export async function verifyEvidence(
  evidence: Evidence,
  keys: Keys,
  isPart: boolean,
  quorum: Quorum | undefined,
): Promise<Result<Verified, Trouble>> {
  const first = await evidence.before()
  if (!first.ok) return first
  const before = signedHead(first.value, keys)
  if (!before.ok) return ok({ checks: [{ name: SIGNED, ok: false, detail: before.error }], about: {} })
  const seen = seenHeads(before.value.origin, evidence.address, keys)
  if (!seen.ok) return seen

  const faults: Check[] = []
  const fail = (name: string, at: string, detail: string) =>
    faults.push({ name, ok: false, detail: `${at}: ${detail}` })
  const verified = await verifyParts(evidence.parts(), keys)
  if (!verified.ok) return verified
  const runs = verified.value
  /** The names of expected leaves, by their hashes; empty when the log had one. */
  const expected = new Map(runs.ends)
  const journals = new Map<string, Head>()
  for await (const page of evidence.journals()) {
    if (!page.ok) return page
    const { journal, entries } = page.value
    const chain = verifyChain(entries, journals.get(journal) ?? GENESIS)
    if (!chain.ok) fail(TENANT_JOURNALS, journal, `entry ${chain.error.seq}: ${chain.error.reason}`)
    else journals.set(journal, chain.value)
    for (const { seq, hash } of entries) expected.set(hash, `${journal}, entry ${seq}`)
  }

  let missing = expected.size
  let others = 0
  const log = new RebuiltLog(evidence.readTile, sizesOf(before.value, ...seen.value), (hash, index) => {
    const what = expected.get(hash)
    if (what === '') fail(LOGGED, `leaf ${index}`, 'it is in the log twice')
    else if (what !== undefined) {
      expected.set(hash, '')
      missing--
    } else if (isPart || index >= before.value.size) others++
    else fail(WHOLE, `leaf ${index}`, `no exported journal has the entry ${hash}`)
  })
  let head: SignedHead
  for (const until = Date.now() + LIVE_WAIT_MS; ; await sleep(LIVE_PAUSE_MS)) {
    const note = await evidence.checkpoint()
    if (!note.ok) return note
    const signed = signedHead(note.value, keys)
    if (!signed.ok) return ok({ checks: [{ name: SIGNED, ok: false, detail: signed.error }], about: {} })
    head = signed.value
    const grown = await log.growTo(head.size)
    if (!grown.ok) return grown
    if (missing === 0 || !evidence.isLive || Date.now() > until) break
  }
  if (missing > 0)
    for (const what of expected.values()) if (what !== '') fail(LOGGED, what, 'the log does not have it')
  for (const { size, root } of [before.value, head])
    if (log.rootOf(size) !== root)
      fail(REBUILT, head.origin, `the entries of ${size} leaves have another root`)
  const isOlder = !evidence.isLive && head.size < (seen.value[0]?.size ?? 0)
  const forked = seen.value.find(
    ({ origin, size, root }) =>
      origin !== head.origin || ((evidence.isLive || size <= head.size) && log.rootOf(size) !== root),
  )
  if (forked !== undefined) fail(CONTINUES, head.origin, contradiction(forked, head))
  const shown = await witnessed(evidence, keys, head, quorum)
  if (!shown.ok) return shown

  const checks = [
    ...listed(faults, [SIGNED, CONTINUES, REBUILT, TENANT_JOURNALS, LOGGED, WHOLE]),
    ...runs.checks(),
    ...shown.value.checks,
  ]
  if (checks.every((check) => check.ok) && !isOlder) {
    const kept = keepHead(head, evidence.address)
    if (!kept.ok) return kept
  }
  return ok({
    checks,
    about: {
      log: head.origin,
      leaves: String(head.size),
      ...(others === 0 ? {} : { 'other leaves': String(others) }),
      ...runs.about(),
      ...shown.value.about,
      ...aboutSeen(seen.value),
    },
  })
}

const sizesOf = (...heads: readonly SignedHead[]): number[] => heads.map(({ size }) => size)
