// The rows of a sealed run, and the statements by which a run's store reads them. No call of a sealed run
// is live, so statements about live calls find nothing. All sealed runs share two caches of bounded size;
// a part is opened when a statement needs it.

import { LIMITS } from '../../../shared/limits.ts'
import {
  damaged,
  type EntryPart,
  evicted,
  mayHave,
  nameOf,
  openPart,
  type Page,
  type PartRef,
  type Row,
  type SqlValue,
} from '../../archive/entry.ts'
import type { CallRecord } from '../../call/lifecycle.ts'
import type { RunRow } from '../../call/run.ts'
import { PAGE } from '../object/page.ts'
import { LeastRecent } from './least-recent.ts'

type Values = Readonly<Record<string, unknown>>

/** Caches for all objects in this isolate, by digest: parts as they are stored, and opened parts. */
const held = new LeastRecent<EntryPart>(LIMITS.sealed_held_bytes)
const opened = new LeastRecent<readonly Page[]>(LIMITS.sealed_opened_bytes)
/** How many bytes of memory an opened part takes for each character of its text. */
const OPENED = 2

/** Migrations whose rows can be read here. Another one needs a conversion of sealed rows first (0137). */
export const READABLE: ReadonlySet<number> = new Set([4])

/** Thrown by a write to a sealed run, which has to be put back first. */
export class SealedWrite extends Error {
  override readonly message = 'the run is sealed'
}

/** One run of a sealed object. */
export class SealedRun {
  readonly #object: string
  readonly id: string
  /** The parts that may have the run; once it is found, those that have it, in the order of its rows. */
  readonly refs: readonly PartRef[]

  constructor(object: string, id: string, refs: readonly PartRef[]) {
    this.#object = object
    this.id = id
    this.refs = refs
  }

  /** The digests of the parts that are not in memory. */
  get missing(): string[] {
    return this.refs.flatMap(({ digest }) => (held.get(digest) === undefined ? [digest] : []))
  }

  hold(parts: readonly EntryPart[]): void {
    for (const part of parts) held.set(part.digest, part, part.bytes.byteLength)
  }

  /** The same run with only those parts that have it; with no parts if none has it. */
  found(): SealedRun {
    for (const ref of this.refs) {
      const number = this.runsIn(ref).find(({ id }) => id === this.id)?.number
      if (number === undefined) continue
      const refs = ref.ranges === null ? [ref] : this.refs.filter((one) => one.ranges && one.first === number)
      return new SealedRun(this.#object, this.id, refs)
    }
    return new SealedRun(this.#object, this.id, [])
  }

  /** Its number in its object. */
  get number(): number | undefined {
    const [first] = this.refs
    return first && this.runsIn(first).find(({ id }) => id === this.id)?.number
  }

  runsIn(ref: PartRef): Array<{ id: string; number: number }> {
    return this.#rows(ref, 'run').map((row) => {
      const { id, record } = asRun(row)
      return { id: record.id, number: id - 1 }
    })
  }

  pages({ digest }: PartRef): readonly Page[] {
    const known = opened.get(digest)
    if (known !== undefined) return known
    const part = held.get(digest)
    if (part === undefined) throw evicted()
    const result = openPart({ digest, bytes: part.bytes })
    if (!result.ok) throw damaged(this.#object, result.error)
    opened.set(digest, result.value.pages, OPENED * result.value.chars)
    return result.value.pages
  }

  /** Rows of a table with such keys, in the order of their keys. */
  *between(table: string, column: string, first: number, last: number): Generator<Row> {
    for (const ref of this.refs) {
      const [from, to] = ref.ranges === null ? [first, last] : (ref.ranges[table] ?? [0, -1])
      if (to < first || from > last) continue
      for (const row of this.#rows(ref, table)) {
        const key = Number(row[column])
        if (key >= first && key <= last) yield row
      }
    }
  }

  /** Rows of a table that have this text in a column by which a piece is found. */
  *named(table: string, column: string, text: unknown): Generator<Row> {
    if (typeof text !== 'string') return
    const name = nameOf(text)
    for (const ref of this.refs)
      if (ref.ranges === null || mayHave(ref.names, name))
        for (const row of this.#rows(ref, table)) if (row[column] === text) yield row
  }

  #rows(ref: PartRef, table: string): readonly Row[] {
    return this.pages(ref).find((page) => page.table === table)?.rows ?? []
  }
}

const statement = <T>(all: (values: Values) => Iterable<T>) => ({
  all: (values: Values = {}) => [...all(values)],
  get: (values: Values = {}): T | undefined => {
    for (const first of all(values)) return first
    return undefined
  },
})
const nothing = <T>() => statement((): T[] => [])

/** Statements with the names and the results of the store's own, which drizzle types. */
export function sealedReads(run: SealedRun) {
  const at = (table: string, column: string, key: unknown) =>
    run.between(table, column, Number(key), Number(key))
  const within = (table: string, column: string, { first, last }: Values) =>
    run.between(table, column, Number(first), Number(last))
  const outputOf = ({ n, stream }: Values) =>
    [...at('output', 'n', n)]
      .filter((row) => stream === undefined || row['stream'] === stream)
      .map(asOutput)
      .sort((a, b) => a.offset - b.offset)
  return {
    run: statement(({ id }) => at('run', 'id', id).map(asRun)),
    call: statement(({ n }) => at('calls', 'n', n).map(asRecord)),
    callByKey: statement(({ key }) => run.named('calls', 'key', key).map(asRecord)),
    callToJoin: statement(({ joinKey, ...range }) =>
      [...run.named('calls', 'join_key', joinKey)].filter(isIn('n', range)).toReversed().map(asRecord),
    ),
    everyCall: statement((range) => within('calls', 'n', range).map(asRecord)),
    due: nothing<{ record: CallRecord }>(),
    unmirrored: nothing<{ record: CallRecord }>(),
    live: nothing<{ record: CallRecord }>(),
    someLive: nothing<{ n: number }>(),
    pending: statement(() => [{ count: 0 }]),
    isDelivered: statement(({ n }) => at('calls', 'n', n).filter((row) => row['join_key'] === null)),
    abandoned: nothing<{ record: CallRecord }>(),
    isAbandoned: nothing<{ n: number }>(),
    journal: statement(({ after, last }) =>
      within('journal', 'seq', { first: Number(after) + 1, last })
        .map(asEntry)
        .take(PAGE),
    ),
    entriesOf: statement(({ n, ...range }) =>
      within('journal', 'seq', range)
        .map(asEntry)
        .filter((entry) => entry.n === n),
    ),
    before: statement(({ seq }) => at('journal', 'seq', seq).map(asEntry)),
    attestation: statement(({ n }) => at('attestations', 'n', n).map(asAttestation)),
    snapshot: statement(({ digest }) =>
      run.named('snapshots', 'digest', digest).map((row) => ({ text: String(row['snapshot']) })),
    ),
    output: statement(outputOf),
    outputFrom: statement(({ from, most, ...of }) =>
      outputOf(of).flatMap(({ offset, bytes }) => {
        const begin = Math.max(0, Number(from) - offset)
        const some =
          offset < Number(from) + Number(most)
            ? bytes.subarray(begin, begin + Number(most))
            : bytes.subarray(0, 0)
        return some.byteLength === 0 ? [] : [{ bytes: some }]
      }),
    ),
    outputEnd: statement((of) =>
      outputOf(of)
        .slice(-1)
        .map(({ offset, bytes }) => ({ end: offset + bytes.byteLength })),
    ),
  }
}
export type SealedReads = ReturnType<typeof sealedReads>

/** Whether a row is of the run whose numbers are from `first` to `last`. */
const isIn =
  (column: string, { first, last }: Values) =>
  (row: Row): boolean =>
    Number(row[column]) >= Number(first) && Number(row[column]) <= Number(last)

// The store wrote these columns, so they have its types.
const parsed = (value: SqlValue | undefined): unknown => JSON.parse(String(value ?? null))
const asRecord = (row: Row) => ({ record: parsed(row['record']) as CallRecord })
const asEntry = (row: Row) =>
  row as { seq: number; at: number; kind: string; n: number | null; body: string; hash: string }
const asAttestation = (row: Row) => row as { n: number; envelope: string; grant: string | null }
const asOutput = (row: Row) => ({
  n: Number(row['n']),
  stream: row['stream'] as 'stdout' | 'stderr',
  offset: Number(row['offset']),
  bytes: Buffer.from(row['bytes'] as ArrayBuffer),
})
/** An object of one run does not store what the log has of it; but the log has all of a sealed run. */
const asRun = (row: Row) => ({
  ...(row as unknown as RunRow),
  id: Number(row['id']),
  logged: Number(row['seq']),
  record: parsed(row['record']) as RunRow['record'],
  cancelled: row['cancelled'] === 1,
  folder: parsed(row['folder']) as RunRow['folder'],
})
