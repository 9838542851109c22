// Verifies exported runs offline: that each file is what its name says, that each journal is whole,
// every attestation, and that no part and no attestation is missing.

import { readdirSync, statSync } from 'node:fs'
import { basename, join } from 'node:path'
import { EVIDENCE_BOUNDS, parseJson, sha256 } from '../../shared/bytes/json.ts'
import { verifyAttestation } from '../../shared/evidence/bundle.ts'
import type { Check } from '../../shared/evidence/checks.ts'
import { GENESIS, type JournalEntry, verifyChain } from '../../shared/evidence/journal.ts'
import type { Keys } from '../../shared/evidence/keys.ts'
import { decidedUnder, type PolicySnapshot } from '../../shared/evidence/policy-snapshot.ts'
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
const NAMED = 'the attestations are exactly those that the journals name'

/** `path`: a file, or a folder with the files of any number of objects. May throw what `fs` throws. */
export function verifyExport(path: string, keys: Keys): { checks: Check[]; about: Record<string, string> } {
  const faults: Check[] = []
  const fail = (name: string, at: string, detail: string) =>
    faults.push({ name, ok: false, detail: `${at}: ${detail}` })
  const parts = filesAt(path).flatMap((file) => {
    const part = readPart(file)
    if (!part.ok) fail(PARTS, file, part.error)
    return part.ok ? [part.value] : []
  })
  if (parts.length === 0 && faults.length === 0) fail(PARTS, path, 'there is no exported file')
  for (const own of Map.groupBy(parts, ({ head }) => head.object).values())
    for (const part of own)
      for (const missing of neighboursMissing(part, own)) fail(PARTS, part.path, missing)

  const attested = new Set<string>()
  let [calls, entries] = [0, 0]
  for (const { path, lines } of parts) {
    const snapshots = lines.flatMap((line) => (line.kind === 'snapshot' ? [line.snapshot] : []))
    for (const line of lines) {
      if (line.kind !== 'call') continue
      calls++
      const checked = checkCall(line, keys, snapshots)
      if (!checked.ok) fail(CALLS, `${path}, ${line.call}`, checked.error)
      else if (checked.value !== null) attested.add(checked.value)
    }
  }
  /** The hashes of verified entries, by run: an export may have a part in several editions. */
  const reached = new Set<string>()
  const named = new Set<string>()
  for (const { path, lines } of parts.toSorted(byPosition)) {
    const entriesOf = Map.groupBy(
      lines.flatMap((line) => (line.kind === 'entry' ? [line] : [])),
      ({ run }) => run,
    )
    for (const [run, own] of entriesOf) {
      entries += own.length
      const list = own.map(({ entry }) => entry)
      const chain = checkChain(list, (hash) => reached.has(`${run} ${hash}`))
      if (!chain.ok) fail(JOURNALS, `${path}, ${run}`, chain.error)
      else for (const { hash } of list) reached.add(`${run} ${hash}`)
      for (const { body } of list) if (typeof body['attestation'] === 'string') named.add(body['attestation'])
    }
  }
  for (const { path, lines } of parts) {
    const runs = lines.flatMap((line) => (line.kind === 'run' ? [line.run] : []))
    for (const { id, journal } of runs)
      if (journal.seq > 0 && !reached.has(`${id} ${journal.head}`))
        fail(JOURNALS, `${path}, ${id}`, 'its last entries are missing or were changed')
    const ids = new Set(runs.map(({ id }) => id))
    const strays = lines.flatMap((line) =>
      line.kind === 'entry' ? [line.run] : line.kind === 'call' ? [splitId(line.call).run] : [],
    )
    for (const run of new Set(strays))
      if (!ids.has(run)) fail(JOURNALS, `${path}, ${run}`, 'the line with its head is missing')
  }
  for (const id of named.symmetricDifference(attested))
    fail(NAMED, path, `${id} is only in a journal, or only among the attestations`)
  const checks = [PARTS, JOURNALS, CALLS, NAMED].flatMap((name) => {
    const own = faults.filter((fault) => fault.name === name).slice(0, MOST_FAULTS)
    return own.length === 0 ? [{ name, ok: true }] : own
  })
  const about = { files: String(parts.length), calls: String(calls), entries: String(entries) }
  return { checks, about }
}

/** The most faults that are listed for each check. */
const MOST_FAULTS = 16

const filesAt = (path: string): string[] =>
  statSync(path).isDirectory()
    ? readdirSync(path, { recursive: true, encoding: 'utf8' })
        .filter((name) => name.endsWith('.jsonl'))
        .map((name) => join(path, name))
    : [path]

function readPart(path: string): Result<Part, string> {
  const read = readBytes(path, 2 * LIMITS.evidence_bytes)
  if (!read.ok) return err(read.error.detail)
  const bytes = Buffer.from(read.value)
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
function* neighboursMissing({ head, next }: Part, others: readonly Part[]): Generator<string> {
  if (head.from !== EXPORT_START && !others.some((other) => other.next === head.from))
    yield `the part before ${head.from} is missing`
  if (next !== null && !others.some((other) => other.head.from === next))
    yield `the part from ${next} on is missing`
}

const byPosition = (a: Part, b: Part): number => {
  const [left, right] = [a, b].map(({ head }) => head.from.split('.').map(Number))
  const at = [0, 1, 2].find((i) => left?.[i] !== right?.[i]) ?? 0
  return (left?.[at] ?? 0) - (right?.[at] ?? 0)
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

/** The id of the call's attestation; null for a call that has not ended. */
function checkCall(
  { call, state, evidence }: Line<'call'>,
  keys: Keys,
  snapshots: readonly PolicySnapshot[],
): Result<string | null, string> {
  if (evidence === null) return ok(null)
  const { checks, statement } = verifyAttestation(evidence, keys)
  const failed = checks.find((check) => !check.ok)
  if (statement === undefined || failed !== undefined) return err(failed?.name ?? 'it has no statement')
  const { facts, attestation_id } = statement.predicate
  if (facts.call !== call || statement.predicate.state !== state)
    return err('it is about another call, or another state')
  return snapshots.some((snapshot) => decidedUnder(snapshot, facts))
    ? ok(attestation_id)
    : err('its policy snapshot is missing or was changed')
}
