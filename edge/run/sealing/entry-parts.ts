// Gathers the rows of an object, run by run, into the parts of its entry. Short runs share a part, so
// that deflate finds what they have in common. A run that does not fit into one part is split into pieces,
// which it shares with no other run.

import { LIMITS } from '../../../shared/limits.ts'
import {
  type EntryPart,
  namesOf,
  type PartRef,
  type Ranges,
  type Row,
  sealPart,
} from '../../archive/entry.ts'
import { ROWS_OF_RUN } from '../object/rows-of-run.ts'

/** The rows of an object, by key. */
export type RowSource = {
  rows(table: string, key: string, after: number, last: number, most: number): Row[]
  /** The snapshots of the calls from `first` to `last`. */
  snapshotsOf(first: number, last: number): Row[]
  snapshotsBut(digests: readonly string[]): Row[]
}
export type Part = { readonly part: EntryPart; readonly ref: PartRef }

/** The column of each table by which a run's rows are found. Files are never sealed. */
export const KEYS = { run: 'id', calls: 'n', attestations: 'n', output: 'n', journal: 'seq' } as const
type Keyed = keyof typeof KEYS
/** The most rows of one query. */
const ROWS = 8

const sizeOf = (row: Row): number =>
  Object.values(row).reduce<number>((sum, value) => {
    if (typeof value === 'string') return sum + value.length
    return sum + (value instanceof ArrayBuffer ? value.byteLength : 8)
  }, 0)

/** A part that may get more rows. */
type Open = { readonly rows: Gathered; readonly isPiece: boolean }
const close = ({ rows, isPiece }: Open): Part => rows.close(isPiece)

/** Yields the parts of an entry one by one, so that the caller can let other requests run in between. */
export function* partsOf(source: RowSource): Generator<Part> {
  const snapshots = new Set<string>()
  let open: Open | undefined
  for (const row of every(source, 'run', -1, Number.MAX_SAFE_INTEGER)) {
    let own = new Gathered(row)
    let isPiece = false
    for (const [table, next] of rowsOfRun(source, row)) {
      if (own.size > LIMITS.archive_part_chars) {
        if (open !== undefined) yield close(open)
        open = undefined
        isPiece = true
        yield own.close(isPiece)
        own = new Gathered(row)
      }
      own.add(table, next)
      if (table === 'snapshots') snapshots.add(String(next['digest']))
    }
    const fits = own.size + (open?.rows.size ?? 0) <= LIMITS.archive_part_chars
    if (open !== undefined && fits && !isPiece && !open.isPiece) open.rows.take(own)
    else {
      if (open !== undefined) yield close(open)
      open = { rows: own, isPiece }
    }
  }
  if (open === undefined) return
  for (const row of source.snapshotsBut([...snapshots])) open.rows.add('snapshots', row)
  yield close(open)
}

function* rowsOfRun(source: RowSource, run: Row): Generator<[string, Row]> {
  const number = numberOf(run)
  const [before, last] = [number * ROWS_OF_RUN - 1, (number + 1) * ROWS_OF_RUN - 1]
  yield ['run', run]
  for (let after = before; ; ) {
    const calls = source.rows('calls', KEYS.calls, after, last, ROWS)
    if (calls.length === 0) break
    const to = Number(calls.at(-1)?.['n'])
    for (const call of calls) yield ['calls', call]
    for (const row of source.snapshotsOf(after + 1, to)) yield ['snapshots', row]
    for (const row of every(source, 'attestations', after, to)) yield ['attestations', row]
    for (const { n } of calls)
      for (const row of source.rows('output', KEYS.output, Number(n) - 1, Number(n), -1))
        for (const slice of slicesOf(row)) yield ['output', slice]
    if (calls.length < ROWS) break
    after = to
  }
  for (const row of every(source, 'journal', before, last)) yield ['journal', row]
}

function* every(source: RowSource, table: Keyed, after: number, last: number): Generator<Row> {
  let from = after
  for (;;) {
    const rows = source.rows(table, KEYS[table], from, last, ROWS)
    yield* rows
    if (rows.length < ROWS) return
    from = Number(rows.at(-1)?.[KEYS[table]])
  }
}

/** Splits output: 1 MiB would be compressed without a pause. The store reads slices like whole rows. */
function* slicesOf(row: Row): Generator<Row> {
  const bytes = row['bytes'] as ArrayBuffer // a column of bytes
  const most = LIMITS.archive_part_chars
  if (bytes.byteLength <= most) yield row
  else
    for (let at = 0; at < bytes.byteLength; at += most)
      yield { ...row, offset: Number(row['offset']) + at, bytes: bytes.slice(at, at + most) }
}

const numberOf = (run: Row): number => Number(run['id']) - 1
const idOf = (run: Row): string => (JSON.parse(String(run['record'])) as { id: string }).id // the store wrote it

/** Rows that will be one part. */
class Gathered {
  readonly #first: Row
  readonly #tables = new Map<string, Row[]>()
  readonly #snapshots = new Set<string>()
  #weight = 0
  size = 0

  /** `first`: the row of its first run. */
  constructor(first: Row) {
    this.#first = first
  }

  add(table: string, row: Row): void {
    if (table === 'snapshots') {
      const digest = String(row['digest'])
      if (this.#snapshots.has(digest)) return
      this.#snapshots.add(digest)
    }
    const rows = this.#tables.get(table) ?? []
    rows.push(row)
    this.#tables.set(table, rows)
    this.size += sizeOf(row)
    // Each change of a run adds an entry to its journal, or counts a refusal.
    if (table === 'run') this.#weight += Number(row['seq']) + Number(row['denied'])
  }

  take(other: Gathered): void {
    for (const [table, rows] of other.#tables) for (const row of rows) this.add(table, row)
  }

  close(isPiece: boolean): Part {
    const part = sealPart([...this.#tables].map(([table, rows]) => ({ table, rows })))
    const names = isPiece ? [idOf(this.#first), ...this.#namesOfRows()] : this.#of('run').map(idOf)
    return {
      part,
      ref: {
        digest: part.digest,
        first: numberOf(this.#first),
        weight: this.#weight,
        names: namesOf(names),
        ranges: isPiece ? this.#ranges() : null,
      },
    }
  }

  #of(table: string): readonly Row[] {
    return this.#tables.get(table) ?? []
  }

  *#namesOfRows(): Generator<string> {
    yield* this.#snapshots
    for (const { key, join_key } of this.#of('calls'))
      for (const name of [key, join_key]) if (typeof name === 'string') yield name
  }

  #ranges(): Ranges {
    const tables = Object.entries(KEYS).filter(([table]) => this.#tables.has(table))
    return Object.fromEntries(
      tables.map(([table, key]) => {
        const rows = this.#of(table)
        return [table, [Number(rows[0]?.[key]), Number(rows.at(-1)?.[key])] as const]
      }),
    )
  }
}
