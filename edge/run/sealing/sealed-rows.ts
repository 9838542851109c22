// The rows of a sealed object in memory, and the statements of a run's store that read them there.
// No call of a sealed object is live, so what they say about live calls is nothing.

import type { Page, Row, SqlValue } from '../../archive/entry.ts'
import type { CallRecord } from '../../call/lifecycle.ts'
import type { RunRow } from '../../call/run.ts'
import { PAGE } from '../object/page.ts'

type Values = Readonly<Record<string, unknown>>

const statement = <T>(all: (values: Values) => T[]) => ({
  all: (values: Values = {}) => all(values),
  get: (values: Values = {}) => all(values)[0],
  run: (): never => {
    throw new Error('this statement only reads')
  },
})

/** All rows of an object by table, in the order of their keys. */
export class SealedRows {
  readonly #tables = new Map<string, Row[]>()
  /** The migration that made the tables from which the rows are. */
  migration = 0

  add(migration: number, pages: Iterable<Page>): void {
    for (const _ of this.filledBy(migration, pages));
  }

  /** Passes the pages on, and keeps their rows. */
  *filledBy(migration: number, pages: Iterable<Page>): Generator<Page> {
    this.migration = migration
    for (const page of pages) {
      const rows = this.#tables.get(page.table) ?? []
      rows.push(...page.rows)
      this.#tables.set(page.table, rows)
      yield page
    }
  }

  get tables(): string[] {
    return [...this.#tables.keys()]
  }

  of(table: string): readonly Row[] {
    return this.#tables.get(table) ?? []
  }
}

/** As the store's statements of these names, which are typed by drizzle. */
export function sealedReads(rows: SealedRows) {
  const outputOf = ({ n, stream }: Values) =>
    rows
      .of('output')
      .filter((row) => row['n'] === n && (stream === undefined || row['stream'] === stream))
      .map(asOutput)
      .sort((a, b) => a.offset - b.offset)
  const callsWith = (column: string, value: unknown) =>
    rows.of('calls').filter((row) => value !== null && row[column] === value)
  return {
    run: statement(({ id }) =>
      rows
        .of('run')
        .filter((row) => id === undefined || row['id'] === id)
        .map(asRun),
    ),
    call: statement(({ n }) => callsWith('n', n).map(asRecord)),
    callByKey: statement(({ key }) => callsWith('key', key).map(asRecord)),
    callToJoin: statement(({ joinKey, ...range }) =>
      callsWith('join_key', joinKey).filter(isIn('n', range)).toReversed().map(asRecord),
    ),
    everyCall: statement((range) => rows.of('calls').filter(isIn('n', range)).map(asRecord)),
    due: statement(() => [] as Array<{ record: CallRecord }>),
    unmirrored: statement(() => [] as Array<{ record: CallRecord }>),
    live: statement(() => [] as Array<{ record: CallRecord }>),
    pending: statement(() => [{ count: 0 }]),
    isDelivered: statement(({ n }) => callsWith('n', n).filter((row) => row['join_key'] === null)),
    abandoned: statement(() => [] as Array<{ record: CallRecord }>),
    isAbandoned: statement(() => [] as Array<{ n: number }>),
    journal: statement(({ after, ...range }) =>
      rows
        .of('journal')
        .filter(isIn('seq', range))
        .map(asEntry)
        .filter(({ seq }) => seq > Number(after))
        .slice(0, PAGE),
    ),
    before: statement(({ seq }) =>
      rows
        .of('journal')
        .filter((row) => row['seq'] === seq)
        .map(asEntry),
    ),
    attestation: statement(({ n }) =>
      rows
        .of('attestations')
        .filter((row) => row['n'] === n)
        .map(asAttestation),
    ),
    snapshot: statement(({ digest }) =>
      rows
        .of('snapshots')
        .filter((row) => row['digest'] === digest)
        .map((row) => ({ text: String(row['snapshot']) })),
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
/** An object of one run does not store what the log has of it. Nothing is sealed before it has all. */
const asRun = (row: Row) => ({
  ...(row as unknown as RunRow),
  id: Number(row['id']),
  logged: Number(row['seq']),
  record: parsed(row['record']) as RunRow['record'],
  cancelled: row['cancelled'] === 1,
  folder: parsed(row['folder']) as RunRow['folder'],
})
