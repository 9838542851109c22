// Verifies exported runs offline: that each file is what its name says, that each journal is whole,
// every attestation, that no part and no attestation is missing, and that each call ran under its own
// grant and ended once. A tombstone of the edge stands for what the tenant's retention rule has removed.

import { readdirSync, statSync } from 'node:fs'
import { basename, join } from 'node:path'
import { EVIDENCE_BOUNDS, parseJson, sha256 } from '../../shared/bytes/json.ts'
import { verifyAttestation } from '../../shared/evidence/bundle.ts'
import type { Check } from '../../shared/evidence/checks.ts'
import { GENESIS, type JournalEntry, verifyChain } from '../../shared/evidence/journal.ts'
import { type Keys, undatedEdgeKeys } from '../../shared/evidence/keys.ts'
import { decidedUnder, type PolicySnapshot } from '../../shared/evidence/policy-snapshot.ts'
import { readTombstone } from '../../shared/evidence/removal.ts'
import type { Statement } from '../../shared/evidence/statement.ts'
import { splitId } from '../../shared/ids.ts'
import { LIMITS } from '../../shared/limits.ts'
import { err, ok, type Result } from '../../shared/result.ts'
import { EXPORT_START, ExportLine, exportName } from '../../shared/wire/exports.ts'
import { readBytes } from '../shell/files.ts'

type Line<K extends ExportLine['kind']> = Extract<ExportLine, { kind: K }>
type Part = {
  readonly path: string
  readonly head: Line<'part'>
  readonly next: string | null
  readonly lines: readonly ExportLine[]
}

const PARTS = 'each file has the digest in its name, and no part is missing'
const JOURNALS = 'each journal is whole, up to the head of its run'
const CALLS = 'each attestation is signed, and its call and policy snapshot fit it'
const TOMBSTONES = 'an edge key signed each removal of evidence'
const NAMED = 'the attestations are exactly those that the journals name'
const GRANTS = 'no call ran without its grant, and no grant was used twice'
const ENDS = 'no call has a second end, or an entry after its end'

/** `path`: a file, or a folder with the files of any number of objects. May throw what `fs` throws. */
export function verifyExport(path: string, keys: Keys): { checks: Check[]; about: Record<string, string> } {
  const verified = new VerifiedExport(keys)
  // In this order the entries of a journal come one after the other. One file is in memory at a time.
  for (const file of filesAt(path)) verified.add(file, readFile(file))
  if (verified.files === 0) verified.fail(PARTS, path, 'there is no exported file')
  return { checks: verified.checks(), about: verified.about() }
}

/** Gets the hash of each journal entry that ended a call, and the call. */
type OnEnd = (hash: string, call: string) => void
/** `claim`: worker and fence of the claim under which the call runs, or ran. */
type Claimed = { claim: string | null; hasEnded?: true }
const NOBODY: OnEnd = () => undefined
/** Entries of a journal that come one after the other. */
type Span = { readonly first: number; last: number; hash: string }

/** Collects what the parts prove together, one part after the other. */
export class VerifiedExport {
  readonly #keys: Keys
  readonly #edges: ReadonlyMap<string, string>
  readonly #faults: Check[] = []
  readonly #parts: Omit<Part, 'lines'>[] = []
  /** The run and the hash of the last verified entry of each part: an export may have several editions. */
  readonly #reached = new Set<string>()
  /** The runs of each part, with the heads of their journals. */
  readonly #heads: { readonly at: string; readonly head: string }[] = []
  /** Ids of attestations: those that journals name, those of calls, and those that were removed. */
  readonly #named = new Set<string>()
  readonly #attested = new Map<string, { readonly call: string; readonly claim: string | null }>()
  readonly #removed = new Map<string, { readonly run: string; readonly seq: number; readonly rule: number }>()
  /** For each run, the last entry that was removed of its journal. */
  readonly #removedUpTo = new Map<string, number>()
  /** Each call as the journals have it, and for each run the entries that were followed. */
  readonly #claimed = new Map<string, Claimed>()
  readonly #followed = new Map<string, Span[]>()
  readonly #onEnd: OnEnd
  files = 0
  #calls = 0
  #entries = 0

  constructor(keys: Keys, onEnd: OnEnd = NOBODY) {
    this.#keys = keys
    this.#onEnd = onEnd
    this.#edges = new Map(undatedEdgeKeys(keys).map(({ kid, x }) => [kid, x]))
  }

  fail(name: string, at: string, detail: string): void {
    this.#faults.push({ name, ok: false, detail: `${at}: ${detail}` })
  }

  /** Takes the files of an object in the order of their positions. */
  add(file: string, bytes: Result<Uint8Array, string>): void {
    this.files++
    const read = bytes.ok ? readPart(file, bytes.value) : bytes
    if (!read.ok) {
      this.fail(PARTS, file, read.error)
      return
    }
    const { lines, ...part } = read.value
    this.#parts.push(part)
    this.#addCalls(file, lines)
    for (const line of lines) if (line.kind === 'tombstone') this.#addTombstone(file, line)
    this.#addEntries(file, lines)
    this.#addRuns(file, lines)
  }

  #addCalls(file: string, lines: readonly ExportLine[]): void {
    const snapshots = lines.flatMap((line) => (line.kind === 'snapshot' ? [line.snapshot] : []))
    for (const line of lines) {
      if (line.kind !== 'call') continue
      this.#calls++
      const checked = checkCall(line, this.#keys, snapshots)
      if (!checked.ok) this.fail(CALLS, `${file}, ${line.call}`, checked.error)
      else if (checked.value !== null) {
        const { attestation_id, grant } = checked.value
        const claim = grant === null ? null : claimOf(grant)
        this.#attested.set(attestation_id, { call: line.call, claim })
      }
    }
  }

  #addTombstone(file: string, { envelope }: Line<'tombstone'>): void {
    const tombstone = readTombstone(envelope, this.#edges)
    if (tombstone === undefined || tombstone.tenant !== this.#keys.tenant) {
      this.fail(TOMBSTONES, file, 'a tombstone is not signed, or is of another tenant')
      return
    }
    if (tombstone.of === 'call') {
      const { call, attestation, removed } = tombstone
      this.#removed.set(attestation, { run: splitId(call).run, seq: removed.entry.seq, rule: removed.rule })
      this.#onEnd(removed.entry.hash, call)
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
      if (!chain.ok) this.fail(JOURNALS, `${file}, ${run}`, chain.error)
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
  #follow({ seq, hash, call, kind, body }: JournalEntry, spans: Span[], at: string): void {
    const { attestation } = body
    if (typeof attestation === 'string') this.#named.add(attestation)
    const known = spans.find(({ first, last }) => first <= seq && seq <= last)
    if (known?.last === seq && known.hash !== hash)
      this.fail(JOURNALS, at, `two parts have different entries ${seq}`)
    if (known !== undefined) return
    const before = spans.find(({ last }) => last === seq - 1)
    if (before === undefined) spans.push({ first: seq, last: seq, hash })
    else Object.assign(before, { last: seq, hash })
    if (call === null) return
    const claimed: Claimed = this.#claimed.get(call) ?? { claim: null }
    this.#claimed.set(call, claimed)
    if (claimed.hasEnded) this.fail(ENDS, at, `entry ${seq} comes after the end of ${call}`)
    if (kind === 'claimed') {
      if (claimed.claim !== null)
        this.fail(GRANTS, at, `entry ${seq} claims ${call}, which was already claimed`)
      claimed.claim = claimOf(body)
    }
    if (kind === 'worker_lost') claimed.claim = null
    if (typeof attestation !== 'string') return
    claimed.hasEnded = true
    this.#onEnd(hash, call)
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
      if (!ids.has(run)) this.fail(JOURNALS, `${file}, ${run}`, 'the line with its head is missing')
  }

  /** Call it after the last part, because some checks need all parts. */
  checks(): Check[] {
    const parts = this.#parts
    for (const own of Map.groupBy(parts, ({ head }) => head.object).values())
      for (const part of own)
        for (const missing of neighboursMissing(part, own)) this.fail(PARTS, part.path, missing)
    for (const { at, head } of this.#heads)
      if (!this.#reached.has(head)) this.fail(JOURNALS, at, 'its last entries are missing or were changed')
    for (const id of this.#unmatched())
      this.fail(NAMED, id, 'it is only in a journal, or only among the attestations')
    for (const [id, { call, claim }] of this.#attested)
      if (this.#claimed.get(call)?.claim !== claim && this.#named.has(id))
        this.fail(GRANTS, call, 'it was not claimed under the grant that its attestation names')
    return listed(this.#faults, [PARTS, JOURNALS, CALLS, TOMBSTONES, NAMED, GRANTS, ENDS])
  }

  /** Attestations that only a journal names, or that no journal names. */
  *#unmatched(): Generator<string> {
    for (const id of this.#named) if (!this.#attested.has(id) && !this.#removed.has(id)) yield id
    for (const id of this.#attested.keys()) if (!this.#named.has(id)) yield id
    for (const [id, { run, seq }] of this.#removed)
      if (!this.#named.has(id) && seq > (this.#removedUpTo.get(run) ?? 0)) yield id
  }

  about(): Record<string, string> {
    const rules = new Set([...this.#removed.values()].map(({ rule }) => rule))
    const gone = `the evidence of ${this.#removed.size} calls, by retention rule ${[...rules].join(', ')}`
    return {
      files: String(this.#parts.length),
      calls: String(this.#calls),
      entries: String(this.#entries),
      ...(this.#removed.size === 0 ? {} : { removed: gone }),
    }
  }
}

/** The most faults that are listed for each check. */
const MOST_FAULTS = 16

/** The faults of each check, or one line that it holds. */
export const listed = (faults: readonly Check[], names: readonly string[]): Check[] =>
  names.flatMap((name) => {
    const own = faults.filter((fault) => fault.name === name).slice(0, MOST_FAULTS)
    return own.length === 0 ? [{ name, ok: true }] : own
  })

const claimOf = ({ worker, fence }: Readonly<Record<string, unknown>>): string => `${worker} ${fence}`

/** The exported files in the order of their positions. */
export const filesAt = (path: string): string[] =>
  statSync(path).isDirectory()
    ? readdirSync(path, { recursive: true, encoding: 'utf8' })
        .filter((name) => name.endsWith('.jsonl'))
        .map((name) => join(path, name))
        .sort(byPosition)
    : [path]

export function readFile(path: string): Result<Uint8Array, string> {
  const read = readBytes(path, 2 * LIMITS.evidence_bytes)
  return read.ok ? read : err(read.error.detail)
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

/** By the position in their names, which `readPart` checks. */
const byPosition = (a: string, b: string): number => {
  const [left, right] = [a, b].map((path) => basename(path).split(/[.-]/, POSITION_PARTS).map(Number))
  const at = left?.findIndex((number, i) => number !== right?.[i]) ?? -1
  return at < 0 ? 0 : (left?.[at] ?? 0) - (right?.[at] ?? 0)
}
const POSITION_PARTS = 3

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

/** Returns the statement of the call's attestation; null for a call that has not ended. */
function checkCall(
  { call, state, evidence }: Line<'call'>,
  keys: Keys,
  snapshots: readonly PolicySnapshot[],
): Result<Statement['predicate'] | null, string> {
  if (evidence === null) return ok(null)
  const { checks, statement } = verifyAttestation(evidence, keys)
  const failed = checks.find((check) => !check.ok)
  if (statement === undefined || failed !== undefined) return err(failed?.name ?? 'it has no statement')
  const { facts } = statement.predicate
  if (facts.call !== call || statement.predicate.state !== state)
    return err('it is about another call, or another state')
  return snapshots.some((snapshot) => decidedUnder(snapshot, facts))
    ? ok(statement.predicate)
    : err('its policy snapshot is missing or was changed')
}
