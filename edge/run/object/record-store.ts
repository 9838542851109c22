// The statements of a run's store on journal, attestations, snapshots and output.

import { type AnyColumn, and, asc, desc, eq, gt, type SQL, sql } from 'drizzle-orm'
import type { Database } from '../../platform/database.ts'
import { attestations, journal, output, snapshots } from '../tables.ts'
import { PAGE } from './page.ts'

const p = sql.placeholder

/**
 * Which rows statements read. In an object of many runs, those of one run. It has few calls, so they
 * are found by their numbers; `unindexed` stops SQLite from using an index over the calls of all runs.
 */
export type Scope = {
  readonly rowsOf: (column: AnyColumn) => SQL | undefined
  readonly unindexed: (column: AnyColumn) => SQL
}
export function recordStatements(db: Database, { rowsOf }: Scope) {
  return {
    append: db
      .insert(journal)
      .values({ seq: p('seq'), at: p('at'), kind: p('kind'), n: p('n'), body: p('body'), hash: p('hash') })
      .prepare(),
    journal: db
      .select()
      .from(journal)
      .where(and(rowsOf(journal.seq), gt(journal.seq, p('after'))))
      .orderBy(asc(journal.seq))
      .limit(PAGE)
      .prepare(),
    entriesOf: db
      .select({ seq: journal.seq })
      .from(journal)
      .where(and(rowsOf(journal.seq), eq(journal.n, p('n'))))
      .orderBy(asc(journal.seq))
      .prepare(),
    before: db
      .select({ hash: journal.hash })
      .from(journal)
      .where(eq(journal.seq, p('seq')))
      .prepare(),
    saveAttestation: db
      .insert(attestations)
      .values({ n: p('n'), envelope: p('envelope'), grant: p('grant') })
      .prepare(),
    attestation: db
      .select()
      .from(attestations)
      .where(eq(attestations.n, p('n')))
      .prepare(),
    keepSnapshot: db
      .insert(snapshots)
      .values({ digest: p('digest'), snapshot: p('text') })
      .onConflictDoNothing()
      .prepare(),
    snapshot: db
      .select({ text: snapshots.snapshot })
      .from(snapshots)
      .where(eq(snapshots.digest, p('digest')))
      .prepare(),
    saveOutput: db
      .insert(output)
      .values({ n: p('n'), stream: p('stream'), offset: p('offset'), bytes: p('bytes') })
      .onConflictDoNothing()
      .prepare(),
    output: db
      .select()
      .from(output)
      .where(eq(output.n, p('n')))
      .orderBy(asc(output.offset))
      .prepare(),
    outputFrom: db
      .select({
        bytes:
          sql<Buffer>`substr(${output.bytes}, max(0, ${p('from')} - ${output.offset}) + 1, ${p('most')})`.mapWith(
            output.bytes,
          ),
      })
      .from(output)
      .where(
        and(
          eq(output.n, p('n')),
          eq(output.stream, p('stream')),
          sql`${output.offset} < ${p('from')} + ${p('most')} and ${output.offset} + length(${output.bytes}) > ${p('from')}`,
        ),
      )
      .orderBy(asc(output.offset))
      .prepare(),
    outputEnd: db
      .select({ end: sql<number>`${output.offset} + length(${output.bytes})` })
      .from(output)
      .where(and(eq(output.n, p('n')), eq(output.stream, p('stream'))))
      .orderBy(desc(output.offset))
      .limit(1)
      .prepare(),
    dropOutput: db
      .delete(output)
      .where(eq(output.n, p('n')))
      .prepare(),
  }
}
