// Exports the runs of one object as parts of bounded size: their journals, the evidence of their
// calls and the kept output. The part that begins at a position has the same bytes as long as the
// runs do not change, so storing an export again changes nothing.

import { sha256 } from '../../../shared/bytes/json.ts'
import type { JournalEntry } from '../../../shared/evidence/journal.ts'
import { type Removal, sealTombstone, type Tombstone } from '../../../shared/evidence/removal.ts'
import { callId } from '../../../shared/ids.ts'
import { LIMITS } from '../../../shared/limits.ts'
import { EXPORT_FORMAT, EXPORT_START, type ExportLine, exportName } from '../../../shared/wire/exports.ts'
import { identityOf, tenantObject } from '../../bindings.ts'
import { type CallRecord, hasEnded } from '../../call/lifecycle.ts'
import { storeInTarget } from '../../export/target.ts'
import type { RunContext } from '../context.ts'
import { readEvidence } from '../reads.ts'
import { runView } from '../views.ts'
import { REMOVED } from './page.ts'
import type { Runs } from './runs.ts'

/** `next`: the position of the part after this one; null if it is the last. */
export type ExportPart = {
  readonly name: string
  readonly sha256: string
  readonly bytes: Uint8Array<ArrayBuffer>
  readonly next: string | null
}
/** A place in a run: how many of its journal's entries, and how many of its calls, precede a part. */
type Place = { readonly seq: number; readonly n: number }

class Lines {
  readonly #lines: string[] = []
  readonly #snapshots = new Set<string>()
  #chars = 0

  get isFull(): boolean {
    return this.#chars >= LIMITS.export_part_chars
  }

  add(line: ExportLine): void {
    const text = `${JSON.stringify(line)}\n`
    this.#lines.push(text)
    this.#chars += text.length
  }

  addSnapshot(digest: string, text: string | undefined): void {
    if (text === undefined || this.#snapshots.has(digest)) return
    this.#snapshots.add(digest)
    this.add({ kind: 'snapshot', snapshot: JSON.parse(text) }) // `keepSnapshot` wrote it
  }

  bytes(): Uint8Array<ArrayBuffer> {
    return Uint8Array.from(Buffer.from(this.#lines.join('')))
  }
}

/** The part of an export that begins at `from`; null if the object has no runs. */
export async function exportPart(runs: Runs, from: string): Promise<ExportPart | null> {
  const ids = await idsOf(runs)
  if (ids.length === 0) return null
  const part = await partOf(runs, ids, from)
  if (part.next === null) runs.archived.forgetIds()
  return part
}

/** The runs of the object, stored and sealed ones, in the order of their numbers. */
async function idsOf({ store, archived }: Runs): Promise<string[]> {
  const byNumber = new Map(await archived.ids())
  for (const id of store.runs) byNumber.set(store.numberOf(id) ?? 0, id)
  return [...byNumber].sort(([a], [b]) => a - b).map(([, id]) => id)
}

async function partOf(runs: Runs, ids: readonly string[], from: string): Promise<ExportPart> {
  const { tenant, object } = runs.archived
  const lines = new Lines()
  lines.add({ kind: 'part', format: EXPORT_FORMAT, tenant, object, from })
  const next = await addRuns(runs, ids, lines, from)
  lines.add({ kind: 'end', next })
  const bytes = lines.bytes()
  const digest = sha256(bytes)
  return { name: exportName(object, from, digest), sha256: digest, bytes, next }
}

async function addRuns(
  runs: Runs,
  ids: readonly string[],
  lines: Lines,
  from: string,
): Promise<string | null> {
  const [first = 0, seq = 0, n = 0] = from.split('.').map(Number)
  for (let i = first; i < ids.length; i++) {
    const begin = i === first ? { seq, n } : { seq: 0, n: 0 }
    const rest = await runs.use(ids[i] ?? '', (run) => addRun(run, lines, begin))
    if (rest !== null) return `${i}.${rest.seq}.${rest.n}`
  }
  return null
}

/** Returns where the next part begins, if this one is full before the run ends. */
function addRun(run: RunContext, lines: Lines, { seq, n }: Place): Place | null {
  const { row, store } = run
  if (row === undefined) return null
  if (lines.isFull) return { seq, n }
  lines.add({ kind: 'run', run: runView(row) })
  while (seq < row.seq) {
    const entries = store.journal(run.id, seq, true)
    if (entries.length === 0) throw new Error(`the journal of ${run.id} ends before entry ${row.seq}`) // a bug
    for (const entry of entries) {
      if (lines.isFull) return { seq, n }
      lines.add(entry.kind === REMOVED ? journalTombstone(run, entry) : { kind: 'entry', run: run.id, entry })
      seq = entry.seq
    }
  }
  for (; n < row.calls; n++) {
    if (lines.isFull) return { seq, n }
    addCall(run, lines, n + 1)
  }
  return null
}

function addCall(run: RunContext, lines: Lines, n: number): void {
  const record = run.store.call(n)
  if (record === undefined) throw new Error(`${run.id} lacks its call ${n}`) // a bug
  const tombstone = callTombstone(run, record)
  if (tombstone !== undefined) {
    lines.add(tombstone)
    return
  }
  const { snapshot } = record.status.decision
  lines.addSnapshot(snapshot, run.store.snapshot(snapshot))
  const evidence = readEvidence(run, null, n)
  const { stdout, stderr } = run.store.output(n)
  lines.add({
    kind: 'call',
    call: callId(run.id, n),
    state: record.status.state,
    evidence: evidence.ok ? evidence.value : null,
    output: { stdout: stdout.toString('base64'), stderr: stderr.toString('base64') },
  })
}

type TombstoneLine = Extract<ExportLine, { kind: 'tombstone' }>

const sealed = ({ env }: RunContext, tombstone: Tombstone): TombstoneLine => ({
  kind: 'tombstone',
  envelope: sealTombstone(tombstone, identityOf(env).signer),
})

function callTombstone(
  run: RunContext,
  { proposal, status, removed }: CallRecord,
): TombstoneLine | undefined {
  if (removed?.evidence === undefined || !hasEnded(status) || run.row === undefined) return undefined
  return sealed(run, {
    of: 'call',
    tenant: run.row.record.tenant,
    call: callId(run.id, proposal.n),
    state: status.state,
    digest: proposal.digest,
    attestation: status.attestation?.id ?? '',
    removed: removed.evidence,
  })
}

const journalTombstone = (run: RunContext, { seq, hash, body }: JournalEntry): TombstoneLine =>
  sealed(run, {
    of: 'journal',
    tenant: run.row?.record.tenant ?? '',
    run: run.id,
    head: { seq, hash },
    removed: body as Removal, // `removeJournals` wrote it
  })

/**
 * Before rows are removed: stores all parts in the tenant's export target, if it has one. Rejects
 * unless the store has confirmed each part. Runs that change in the meantime are exported again.
 */
export async function exportBeforeRemoval(runs: Runs): Promise<void> {
  const { env, archived } = runs
  // Checked first: without a target, even an object with a damaged entry can be removed.
  if ((await tenantObject(env, archived.tenant).exportTarget()) === null) return
  for (let changes = -1; changes !== runs.changes; ) {
    changes = runs.changes
    const ids = await idsOf(runs)
    for (let from: string | null = EXPORT_START; from !== null && ids.length > 0; ) {
      const part: ExportPart = await partOf(runs, ids, from)
      const stored = await storeInTarget(env, archived.tenant, part.name, part.bytes)
      if (!stored.ok && stored.error.code === 'no_export_target') return
      if (!stored.ok)
        throw new Error(`${archived.object} can’t be exported, so it stays: ${stored.error.detail}`)
      from = part.next
    }
  }
}
