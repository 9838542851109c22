// Bundles of an edge that lies in its journal, and has made all hashes and signatures again. Beside each
// are the names of the checks that find it.

import type { Bundle } from '../../../shared/evidence/bundle.ts'
import type { JournalEntry } from '../../../shared/evidence/journal.ts'
import { chained, executedBundle, logFor, NOW } from '../evidence.ts'
import { withChanges } from '../tamper.ts'

export const PROPOSED = 'the journal begins with the proposal of this call'
export const ANSWERED = 'the journal has the answers that the facts name, each given in time'
export const CLAIMED = 'the journal has the claim under this grant'
export const ENDED = 'the last entry ends the call and names this attestation'

export const executed = executedBundle()
/** approval_requested, an entry of another call, approved, claimed, succeeded */
const { journal } = executed
export const entry = (at: number): JournalEntry => {
  const found = journal.at(at)
  if (found === undefined) throw new Error(`there is no entry ${at}`)
  return found
}

type Lie = readonly [name: string, checks: string | string[], entries: readonly JournalEntry[]]
const LIES: readonly Lie[] = [
  ['begins after the proposal', [PROPOSED, ANSWERED], journal.slice(1)],
  [
    'begins with the same proposal of another call',
    PROPOSED,
    [{ ...entry(0), call: entry(1).call }, ...journal],
  ],
  ['proposes another tool', PROPOSED, journal.with(0, withChanges(entry(0), { 'body.tool': 'other' }))],
  ['proposes another version', PROPOSED, journal.with(0, withChanges(entry(0), { 'body.version': 4 }))],
  ['proposes another digest', PROPOSED, journal.with(0, withChanges(entry(0), { 'body.digest': 'x' }))],
  ['proposes other arguments', PROPOSED, journal.with(0, withChanges(entry(0), { 'body.args_sha256': '' }))],
  ['has another reason', PROPOSED, journal.with(0, withChanges(entry(0), { 'body.origin.reason': 'x' }))],
  ['has no approval', ANSWERED, journal.with(0, withChanges(entry(0), { 'body.approval': undefined }))],
  ['has another approval', ANSWERED, journal.with(0, withChanges(entry(0), { 'body.approval': 'x' }))],
  ['has no answer', ANSWERED, journal.toSpliced(2, 1)],
  ['has an answer of somebody else', ANSWERED, journal.with(2, withChanges(entry(2), { 'body.by': 'eve' }))],
  ['has answers that are none', ANSWERED, journal.with(0, withChanges(entry(0), { 'body.answers': [null] }))],
  ['has a denial', ANSWERED, journal.with(2, withChanges(entry(2), { 'body.decision': 'deny' }))],
  [
    'has an answer for a session',
    ANSWERED,
    journal.with(2, withChanges(entry(2), { 'body.scope': 'session' })),
  ],
  ['has an answer that came too late', ANSWERED, journal.with(2, { ...entry(2), at_ms: NOW + 1_000 })],
  ['has no claim', CLAIMED, journal.toSpliced(3, 1)],
  [
    'has a claim by another worker',
    CLAIMED,
    journal.with(3, withChanges(entry(3), { 'body.worker': 'edge' })),
  ],
  ['has a claim with another fence', CLAIMED, journal.with(3, withChanges(entry(3), { 'body.fence': 2 }))],
  ['has a claim for longer', CLAIMED, journal.with(3, withChanges(entry(3), { 'body.deadline_ms': NOW }))],
  [
    'has a claim under other policies',
    CLAIMED,
    journal.with(3, withChanges(entry(3), { 'body.policy_set': '' })),
  ],
  ['has a second claim', CLAIMED, journal.toSpliced(4, 0, withChanges(entry(3), { 'body.fence': 2 }))],
  ['has the same claim twice', CLAIMED, journal.toSpliced(4, 0, entry(3))],
  ['lost the worker', CLAIMED, journal.toSpliced(4, 0, { ...entry(3), kind: 'worker_lost' })],
  ['ends in another way', ENDED, journal.with(4, { ...entry(4), kind: 'failed' })],
  ['withdraws it at the end', ENDED, journal.with(4, { ...entry(4), kind: 'withdrawn' })],
  ['names another attestation', ENDED, journal.with(4, withChanges(entry(4), { 'body.attestation': 'x' }))],
  ['has another execution', ENDED, journal.with(4, withChanges(entry(4), { 'body.execution_sha256': 'x' }))],
  ['ends by another worker', ENDED, journal.with(4, withChanges(entry(4), { 'body.worker': 'edge' }))],
  ['ends with an error', ENDED, journal.with(4, withChanges(entry(4), { 'body.error': 'failed' }))],
  ['ends before its last entry', ENDED, [...journal, { ...entry(1), kind: 'allowed' }]],
  ['ends twice', ENDED, [...journal, entry(4)]],
  ['ends as another call', ENDED, journal.with(4, { ...entry(4), call: entry(1).call })],
]

export const FORGED = LIES.map(([name, checks, entries]): readonly [string, string[], Bundle] => {
  const forged = chained(entries, 4)
  return [name, [checks].flat(), { ...executed, journal: forged, log: logFor(forged) }]
})
