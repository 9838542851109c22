// Verifies the exported runs of one object: that each file is what its name says, that each journal is
// whole, every call as `countersign verify` does, that no part and no attestation is missing, and that
// each call ran under its own grant and ended once. A tombstone of the edge stands for what the tenant's
// retention rule has removed.

import { basename } from 'node:path'
import { digestOf, EVIDENCE_BOUNDS, parseJson, sha256 } from '../../shared/bytes/json.ts'
import { verifyCall } from '../../shared/evidence/bundle.ts'
import type { Check } from '../../shared/evidence/checks.ts'
import { GENESIS, type JournalEntry, verifyChain } from '../../shared/evidence/journal.ts'
import { LINKED } from '../../shared/evidence/journal-checks.ts'
import type { Keys } from '../../shared/evidence/keys.ts'
import type { PolicySnapshot } from '../../shared/evidence/policy-snapshot.ts'
import { readTombstone } from '../../shared/evidence/removal.ts'
import { isStreamOf } from '../../shared/evidence/usage-rules.ts'
import { splitId } from '../../shared/ids.ts'
import { err, ok, type Result } from '../../shared/result.ts'
import { EXPORT_START, ExportLine, exportName } from '../../shared/wire/exports.ts'

type Line<K extends ExportLine['kind']> = Extract<ExportLine, { kind: K }>
type Part = {
  readonly path: string
  readonly head: Line<'part'>
  readonly next: string | null
  readonly lines: readonly ExportLine[]
}

export const PARTS = 'each file has the digest in its name, and no part is missing'
const JOURNALS = 'each journal is whole, up to the head of its run'
const CALLS = 'each attestation is signed, and its call, policy snapshot and journal fit it'
const TOMBSTONES = 'an edge key signed each removal of evidence'
const NAMED = 'the attestations are exactly those that the journals name'
const GRANTS = 'no call ran without its grant, and no grant was used twice'
const ENDS = 'no call has a second end, or an entry after its end'
export const EXPORT_CHECKS: readonly string[] = [PARTS, JOURNALS, CALLS, TOMBSTONES, NAMED, GRANTS, ENDS]

/** The verdict on the files of one object. It can be sent to another thread. */
export type ObjectVerdict = {
  readonly faults: readonly Check[]
  /** The hash of each journal entry that ended a call, and the call. */
  readonly ends: readonly (readonly [hash: string, call: string])[]
  readonly files: number
  readonly calls: number
  readonly entries: number
  /** For each call without its evidence, the rule that removed it. */
  readonly removed: readonly number[]
}
type Claimed = { isClaimed: boolean; hasEnded?: true }
/** Entries of a journal that come one after the other. */
type Span = { readonly first: number; last: number; hash: string }

/** Collects what the files of one object prove together, one file after the other. */
export class VerifiedObject {
  readonly #keys: Keys
  readonly #faults: Check[] = []
  readonly #ends: (readonly [hash: string, call: string])[] = []
  readonly #parts: Omit<Part, 'lines'>[] = []
  /** The run and the hash of the last verified entry of each part: an export may have several editions. */
  readonly #reached = new Set<string>()
  /** The runs of each part, with the heads of their journals. */
  readonly #heads: { readonly at: string; readonly head: string }[] = []
  /** Ids of attestations: those that journals name, those of calls, and those that were removed. */
  readonly #named = new Set<string>()
  readonly #attested = new Set<string>()
  readonly #removed = new Map<string, { readonly run: string; readonly seq: number; readonly rule: number }>()
  /** For each run, the last entry that was removed of its journal. */
  readonly #removedUpTo = new Map<string, number>()
  /** Each call as the journals have it, and for each run the entries that were followed. */
  readonly #claimed = new Map<string, Claimed>()
  readonly #followed = new Map<string, Span[]>()
  /** The entries of each call. Their order is that of the files. */
  readonly #entriesOf = new Map<string, JournalEntry[]>()
  #calls = 0
  #entries = 0

  constructor(keys: Keys) {
    this.#keys = keys
  }

  #fail(name: string, at: string, detail: string): void {
    this.#faults.push({ name, ok: false, detail: `${at}: ${detail}` })
  }

  /** Takes the files in the order of their positions. */
  add(file: string, bytes: Result<Uint8Array, string>): void {
    const read = bytes.ok ? readPart(file, bytes.value) : bytes
    if (!read.ok) {
      this.#fail(PARTS, file, read.error)
      return
    }
    const { lines, ...part } = read.value
    this.#parts.push(part)
    for (const line of lines) if (line.kind === 'tombstone') this.#addTombstone(file, line)
    this.#addEntries(file, lines)
    this.#addCalls(file, lines)
    this.#addRuns(file, lines)
  }

  #addCalls(file: string, lines: readonly ExportLine[]): void {
    const snapshots = new Map(
      lines.flatMap((line) => (line.kind === 'snapshot' ? [[digestOf(line.snapshot), line.snapshot]] : [])),
    )
    for (const line of lines) {
      if (line.kind !== 'call') continue
      this.#calls++
      const entries = this.#entriesOf.get(line.call)?.sort((a, b) => a.seq - b.seq) ?? []
      const checked = checkCall(line, this.#keys, snapshots, entries)
      if (!checked.ok) this.#fail(CALLS, `${file}, ${line.call}`, checked.error)
      else if (checked.value !== null) this.#attested.add(checked.value)
    }
  }

  #addTombstone(file: string, { envelope }: Line<'tombstone'>): void {
    const tombstone = readTombstone(envelope, this.#keys)
    if (tombstone === undefined || tombstone.of === 'parts') {
      this.#fail(
        TOMBSTONES,
        file,
        'a tombstone is not signed, is of another tenant, or says that the evidence is still there',
      )
      return
    }
    if (tombstone.of === 'call') {
      const { call, attestation, removed } = tombstone
      this.#removed.set(attestation, { run: splitId(call).run, seq: removed.entry.seq, rule: removed.rule })
      this.#ends.push([removed.entry.hash, call])
      return
    }
    const { run, head } = tombstone
    this.#reached.add(`${run} ${head.hash}`)
    this.#removedUpTo.set(run, Math.max(head.seq, this.#removedUpTo.get(run) ?? 0))
  }

  #addEntries(file: string, lines: readonly ExportLine[]): void {
    const entries = lines.flatMap((line) => (line.kind === 'entry' ? [line] : []))
    for (const [run, own] of Map.groupBy(entries, ({ run }) => run)) {
      this.#entries += own.length
      const list = own.map(({ entry }) => entry)
      const chain = checkChain(list, (hash) => this.#reached.has(`${run} ${hash}`))
      if (!chain.ok) this.#fail(JOURNALS, `${file}, ${run}`, chain.error)
      else this.#reached.add(`${run} ${list.at(-1)?.hash}`)
      const spans = this.#followed.get(run) ?? []
      this.#followed.set(run, spans)
      for (const entry of list) this.#follow(entry, spans, `${file}, ${run}`)
    }
  }

  /**
   * L2, L4: the claims and the end of each call. Another edition of a part may have the same entries
   * again, and entries before those in `spans`, which the retention rule removed between two exports.
   */
  #follow(entry: JournalEntry, spans: Span[], at: string): void {
    const { seq, hash, call, kind, body } = entry
    const { attestation } = body
    if (typeof attestation === 'string') this.#named.add(attestation)
    const known = spans.find(({ first, last }) => first <= seq && seq <= last)
    if (known?.last === seq && known.hash !== hash)
      this.#fail(JOURNALS, at, `two parts have different entries ${seq}`)
    if (known !== undefined) return
    const before = spans.find(({ last }) => last === seq - 1)
    if (before === undefined) spans.push({ first: seq, last: seq, hash })
    else Object.assign(before, { last: seq, hash })
    if (call === null) return
    const entries = this.#entriesOf.get(call) ?? []
    this.#entriesOf.set(call, entries)
    entries.push(entry)
    const claimed: Claimed = this.#claimed.get(call) ?? { isClaimed: false }
    this.#claimed.set(call, claimed)
    if (claimed.hasEnded) this.#fail(ENDS, at, `entry ${seq} comes after the end of ${call}`)
    if (kind === 'claimed') {
      if (claimed.isClaimed) this.#fail(GRANTS, at, `entry ${seq} claims ${call}, which was already claimed`)
      claimed.isClaimed = true
    }
    if (kind === 'worker_lost') claimed.isClaimed = false
    if (typeof attestation !== 'string') return
    claimed.hasEnded = true
    this.#ends.push([hash, call])
  }

  #addRuns(file: string, lines: readonly ExportLine[]): void {
    const runs = lines.flatMap((line) => (line.kind === 'run' ? [line.run] : []))
    for (const { id, journal } of runs)
      if (journal.seq > 0) this.#heads.push({ at: `${file}, ${id}`, head: `${id} ${journal.head}` })
    const ids = new Set(runs.map(({ id }) => id))
    const strays = lines.flatMap((line) =>
      line.kind === 'entry' ? [line.run] : line.kind === 'call' ? [splitId(line.call).run] : [],
    )
    for (const run of new Set(strays))
      if (!ids.has(run)) this.#fail(JOURNALS, `${file}, ${run}`, 'the line with its head is missing')
  }

  /** Call it after the last file, because some checks need all of them. */
  finished(): ObjectVerdict {
    const parts = this.#parts
    for (const own of Map.groupBy(parts, ({ head }) => head.object).values())
      for (const part of own)
        for (const missing of neighboursMissing(part, own)) this.#fail(PARTS, part.path, missing)
    for (const { at, head } of this.#heads)
      if (!this.#reached.has(head)) this.#fail(JOURNALS, at, 'its last entries are missing or were changed')
    for (const id of this.#unmatched())
      this.#fail(NAMED, id, 'it is only in a journal, or only among the attestations')
    return {
      faults: this.#faults,
      ends: this.#ends,
      files: parts.length,
      calls: this.#calls,
      entries: this.#entries,
      removed: [...this.#removed.values()].map(({ rule }) => rule),
    }
  }

  /** Attestations that only a journal names, or that no journal names. */
  *#unmatched(): Generator<string> {
    for (const id of this.#named) if (!this.#attested.has(id) && !this.#removed.has(id)) yield id
    for (const id of this.#attested) if (!this.#named.has(id)) yield id
    for (const [id, { run, seq }] of this.#removed)
      if (!this.#named.has(id) && seq > (this.#removedUpTo.get(run) ?? 0)) yield id
  }
}

function readPart(path: string, content: Uint8Array): Result<Part, string> {
  const bytes = Buffer.from(content)
  const lines: ExportLine[] = []
  for (const [i, text] of bytes.toString().trimEnd().split('\n').entries()) {
    const parsed = parseJson(Buffer.from(text), EVIDENCE_BOUNDS)
    const line = ExportLine.safeParse(parsed.ok ? parsed.value : undefined)
    if (!line.success) return err(`line ${i + 1} is not a line of an export`)
    lines.push(line.data)
  }
  const [head, end] = [lines[0], lines.at(-1)]
  if (head?.kind !== 'part' || end?.kind !== 'end') return err('its beginning or its end is missing')
  const name = basename(exportName(head.object, head.from, sha256(bytes)))
  return basename(path) === name
    ? ok({ path, head, next: end.next, lines })
    : err(`its bytes have another digest; its name would be ${name}`)
}

/**
 * `others`: the parts of the same object. A part may be there in several editions, if its runs have
 * changed between two exports.
 */
function* neighboursMissing(
  { head, next }: Omit<Part, 'lines'>,
  others: readonly Omit<Part, 'lines'>[],
): Generator<string> {
  if (head.from !== EXPORT_START && !others.some((other) => other.next === head.from))
    yield `the part before ${head.from} is missing`
  if (next !== null && !others.some((other) => other.head.from === next))
    yield `the part from ${next} on is missing`
}

/** `isReached`: whether an entry with this hash has been verified in an earlier part. */
function checkChain(
  entries: readonly JournalEntry[],
  isReached: (hash: string) => boolean,
): Result<true, string> {
  const [first] = entries
  if (first === undefined) return ok(true)
  if (first.seq > 1 && !isReached(first.prev)) return err(`the entry before entry ${first.seq} is missing`)
  const chain = verifyChain(entries, first.seq === 1 ? GENESIS : { seq: first.seq - 1, hash: first.prev })
  return chain.ok ? ok(true) : err(`entry ${chain.error.seq}: ${chain.error.reason}`)
}

/** Returns the id of the call's attestation; null for a call that has not ended. */
function checkCall(
  { call, state, evidence, output }: Line<'call'>,
  keys: Keys,
  snapshots: ReadonlyMap<string, PolicySnapshot>,
  entries: readonly JournalEntry[],
): Result<string | null, string> {
  if (evidence === null) return ok(null)
  const { checks, statement, removed } = verifyCall(
    evidence,
    keys,
    (digest) => snapshots.get(digest),
    entries,
    { name: LINKED, ok: true }, // each journal is followed as a whole
  )
  const failed = checks.find((check) => !check.ok)
  if (statement === undefined || failed !== undefined) return err(failed?.name ?? 'it has no statement')
  const { facts, execution } = statement.predicate
  if (facts.call !== call || statement.predicate.state !== state)
    return err('it is about another call, or another state')
  const isKept = (['stdout', 'stderr'] as const).every((stream) =>
    isStreamOf(execution[stream], Buffer.from(output[stream], 'base64')),
  )
  const isGone = removed?.outputs !== undefined && output.stdout === '' && output.stderr === ''
  if (!isKept && !isGone) return err('its output is missing or was changed')
  return ok(statement.predicate.attestation_id)
}
