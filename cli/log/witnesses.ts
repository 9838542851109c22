// Whether witnesses have cosigned a head of a log.

import { setTimeout as sleep } from 'node:timers/promises'
import type { Check } from '../../shared/evidence/checks.ts'
import { cosignedBy } from '../../shared/evidence/cosignature.ts'
import type { Keys } from '../../shared/evidence/keys.ts'
import type { NoteKey } from '../../shared/evidence/note.ts'
import { ok, type Result } from '../../shared/result.ts'
import { type Quorum, quorumCheck } from '../calls/cosignatures.ts'
import type { Trouble } from '../shell/command.ts'
import type { Api } from '../shell/edge-api.ts'
import { time } from '../shell/terminal-text.ts'
import { isContinued, type SignedHead, signedHead } from './checkpoints.ts'
import { LIVE_PAUSE_MS, LIVE_WAIT_MS, type LogSource } from './sources.ts'

export type Witnessed = {
  readonly checks: readonly Check[]
  readonly about: Readonly<Record<string, string>>
}
/** A witness has cosigned a head of this size. */
type Vote = { readonly name: string; readonly at_ms: number; readonly size: number }

/**
 * A cosignature of a later head counts too, if that head continues this one: a busy log is always ahead of
 * its witnesses. One of an earlier head proves nothing about what came after. `quorum`: undefined if no
 * witness was named.
 */
export async function witnessed(
  source: LogSource,
  keys: Keys,
  head: SignedHead,
  quorum: Quorum | undefined,
): Promise<Result<Witnessed, Trouble>> {
  if (quorum === undefined) return ok({ checks: [], about: {} })
  const votes = new Map<string, Vote>()
  for (const until = Date.now() + LIVE_WAIT_MS; ; await sleep(LIVE_PAUSE_MS)) {
    const notes = await source.cosigned()
    if (!notes.ok) return notes
    for (const key of quorum.keys) {
      const vote = votes.has(key.x) ? ok(undefined) : await voteOf(key, [head.note, ...notes.value])
      if (!vote.ok) return vote
      if (vote.value !== undefined) votes.set(key.x, vote.value)
    }
    if (votes.size >= quorum.needed || !source.isLive || Date.now() > until) break
  }
  const by = [...votes.values()]
  const what = 'witnesses have cosigned this checkpoint, or a later one that continues it'
  return ok({
    checks: [quorumCheck(what, quorum, by)],
    about: Object.fromEntries(
      by.map(({ name, at_ms, size }) => [`witness ${name}`, `${size} leaves, at ${time(at_ms)}`]),
    ),
  })

  async function voteOf(key: NoteKey, notes: readonly string[]): Promise<Result<Vote | undefined, Trouble>> {
    for (const note of notes) {
      const later = signedHead(note, keys)
      const [cosignature] = cosignedBy(note, [key])
      if (!later.ok || cosignature === undefined || later.value.size < head.size) continue
      if (later.value.origin !== head.origin) continue
      const continued = await isContinued(head, later.value, source.readTile)
      if (!continued.ok) return continued
      if (continued.value) return ok({ ...cosignature, size: later.value.size })
    }
    return ok(undefined)
  }
}

/** The edge's own word: an honest one that runs on an older state learns of it from its witnesses. */
export async function refusalChecks(api: Api, tenant: string): Promise<Result<Check[], Trouble>> {
  const states = await api('logWitnesses', { params: { tenant } })
  if (!states.ok) return states
  const { items } = states.value
  if (items.length === 0) return ok([])
  const name = 'no witness of this edge refuses the log, as the edge says'
  for (const { key, refused } of items)
    if (refused !== null)
      return ok([{ name, ok: false, detail: `${key}, since ${time(refused.since_ms)}: ${refused.detail}` }])
  return ok([{ name, ok: true }])
}
