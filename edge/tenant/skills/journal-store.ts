// The journal of a tenant's skills and publishers: who changed what, when and why. It is
// hash-chained like a run's, and each entry is a leaf of the tenant's log, so history can't be
// rewritten. An entry is appended in the transaction of its change.

import { and, asc, count, desc, eq, gt, inArray, isNotNull, lte } from 'drizzle-orm'
import type { JournalEntry } from '../../../shared/evidence/journal.ts'
import { LIMITS } from '../../../shared/limits.ts'
import type { Skill, SkillChange, SkillEntry } from '../../../shared/wire/skills.ts'
import { SKILL_JOURNAL } from '../../log/log-object.ts'
import { entriesAfter, nextEntry } from '../../platform/chained-journal.ts'
import type { Database } from '../../platform/database.ts'
import type { LoggedJournal } from '../log-delivery.ts'
import { skillJournal } from '../tables.ts'

/** The subject of an entry. */
export type About = { readonly publisher: string } & Partial<Pick<Skill, 'version'>> & {
    readonly skill?: string
  }
type Row = typeof skillJournal.$inferSelect

export class SkillJournal implements LoggedJournal {
  readonly source = SKILL_JOURNAL
  readonly #db: Database

  constructor(db: Database) {
    this.#db = db
  }

  /** Must run in the transaction of the change that it records. */
  append(kind: SkillEntry, about: About, details: Record<string, unknown>): void {
    const last = this.#db.select().from(skillJournal).orderBy(desc(skillJournal.seq)).limit(1).get()
    const entry = nextEntry(last, kind, { ...about, ...details })
    this.#db
      .insert(skillJournal)
      .values({ skill: null, version: null, ...about, ...entry })
      .run()
  }

  page(after: number): JournalEntry[] {
    const rows = this.#db
      .select()
      .from(skillJournal)
      .where(gt(skillJournal.seq, after - 1))
      .orderBy(asc(skillJournal.seq))
      .limit(LIMITS.page + 1)
      .all()
    return after === 0
      ? entriesAfter(undefined, rows.slice(0, LIMITS.page))
      : entriesAfter(rows[0], rows.slice(1))
  }

  /** Changes of a version's state, latest first. */
  changesOf(id: string, version: string): SkillChange[] {
    const of = and(
      eq(skillJournal.skill, id),
      eq(skillJournal.version, version),
      inArray(skillJournal.kind, MOVES),
    )
    const rows = this.#db
      .select()
      .from(skillJournal)
      .where(of)
      .orderBy(desc(skillJournal.seq))
      .limit(LIMITS.page)
      .all()
    return rows.map(({ at, body }) => {
      const { from, to, by, reason } = body as Omit<SkillChange, 'at_ms'> // version-store.ts appends these kinds with this body
      return { from, to, by, at_ms: at, reason }
    })
  }

  /** The enabled versions of a skill in order, with repetitions. */
  enabledOf(id: string): string[] {
    const of = and(
      eq(skillJournal.skill, id),
      eq(skillJournal.kind, 'skill.enabled'),
      isNotNull(skillJournal.version),
    )
    const rows = this.#db
      .select({ version: skillJournal.version })
      .from(skillJournal)
      .where(of)
      .orderBy(asc(skillJournal.seq))
      .all()
    return rows.flatMap(({ version }) => version ?? [])
  }

  /** How often the skill's storage was cleared. */
  clearedOf(id: string): number {
    const of = and(eq(skillJournal.skill, id), eq(skillJournal.kind, 'skill.cleared'))
    return this.#db.select({ n: count() }).from(skillJournal).where(of).get()?.n ?? 0
  }

  /** Whether a publisher of this name was ever listed or published anything. */
  knows(publisher: string): boolean {
    return (
      this.#db.select().from(skillJournal).where(eq(skillJournal.publisher, publisher)).limit(1).get() !==
      undefined
    )
  }

  /** The entries that the log has not accepted yet, in order. */
  unlogged(): Row[] {
    return this.#db
      .select()
      .from(skillJournal)
      .where(eq(skillJournal.logged, false))
      .orderBy(asc(skillJournal.seq))
      .limit(LIMITS.page)
      .all()
  }

  logged(last: number): void {
    this.#db
      .update(skillJournal)
      .set({ logged: true })
      .where(and(eq(skillJournal.logged, false), lte(skillJournal.seq, last)))
      .run()
  }
}

const MOVES: SkillEntry[] = ['skill.enabled', 'skill.disabled', 'skill.revoked']
