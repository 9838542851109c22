// The rows of a sealed run in memory, and the statements of the run's store that read them there.
// No call of a sealed run is live, so what they say about live calls is nothing.

import type { Page, Row, SqlValue } from '../../archive/entry.ts'
import type { CallRecord } from '../../call/lifecycle.ts'
import type { RunRow } from '../../call/run.ts'

type Values = Readonly<Record<string, unknown>>

const statement = <T>(all: (values: Values) => T[]) => ({
  all: (values: Values = {}) => all(values),
  get: (values: Values = {}) => all(values)[0],
  run: (): never => {
    throw new Error('this statement only reads')
  },
})

/** All rows of a run by table, in the order of their keys. */
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

/** As the store's statements of these names, which are typed by drizzle. `page`: of a journal. */
export function sealedReads(rows: SealedRows, page: number) {
  const outputOf = ({ n, stream }: Values) =>
    rows
      .of('output')
      .filter((row) => row['n'] === n && (stream === undefined || row['stream'] === stream))
      .map(asOutput)
      .sort((a, b) => a.offset - b.offset)
  const callsWith = (column: string, value: unknown) =>
    rows
      .of('calls')
      .filter((row) => value !== null && row[column] === value)
      .map(asRecord)
  return {
    run: statement(() => rows.of('run').map(asRun)),
    call: statement(({ n }) => callsWith('n', n)),
    callByKey: statement(({ key }) => callsWith('key', key)),
    callToJoin: statement(({ joinKey }) => callsWith('join_key', joinKey).toReversed()),
    everyCall: statement(() => rows.of('calls').map(asRecord)),
    due: statement(() => [] as Array<{ n: number; record: CallRecord }>),
    nextDue: statement(() => [{ at: null }]),
    unmirrored: statement(() => [] as Array<{ n: number; record: CallRecord }>),
    live: statement(() => [] as Array<{ n: number; record: CallRecord }>),
    pending: statement(() => [{ count: 0 }]),
    isDelivered: statement(({ n }) =>
      rows
        .of('calls')
        .filter((row) => row['n'] === n && row['join_key'] === null)
        .map(() => ({ n: Number(n) })),
    ),
    abandoned: statement(() => [] as Array<{ record: CallRecord }>),
    isAbandoned: statement(() => [] as Array<{ n: number }>),
    nextCancel: statement(() => [{ at: null }]),
    journal: statement(({ after }) =>
      rows
        .of('journal')
        .map(asEntry)
        .filter(({ seq }) => seq > Number(after))
        .slice(0, page),
    ),
    before: statement(({ seq }) =>
      rows
        .of('journal')
        .map(asEntry)
        .filter((entry) => entry.seq === seq),
    ),
    lastEntry: statement(() => rows.of('journal').slice(-1).map(asEntry)),
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
const asRun = (row: Row) => ({
  ...(row as unknown as RunRow),
  id: 1,
  record: parsed(row['record']) as RunRow['record'],
  cancelled: row['cancelled'] === 1,
  folder: parsed(row['folder']) as RunRow['folder'],
})
