// The journal of a tenant's skills: who published what, who enabled, disabled or revoked it and
// why, and whose keys counted when. Hash-chained as a run's is, and each entry is a leaf of the
// tenant's log, so that nobody can have done it otherwise afterwards. What is appended is appended
// in the transaction that does it. It decides nothing.

import { and, asc, count, desc, eq, gt, inArray, isNotNull, lte } from 'drizzle-orm'
import type { JournalEntry } from '../../../shared/evidence/journal.ts'
import { GENESIS, linkOf } from '../../../shared/evidence/journal.ts'
import { LIMITS } from '../../../shared/limits.ts'
import type { Skill, SkillChange, SkillEntry } from '../../../shared/wire/skills.ts'
import type { Database } from '../../platform/database.ts'
import { skillJournal } from '../tables.ts'

/** What an entry is about; a change of a version's state says from what to what. */
export type About = { readonly publisher: string } & Partial<Pick<Skill, 'version'>> & {
    readonly skill?: string
  }
type Row = typeof skillJournal.$inferSelect

export class SkillJournal {
  readonly #db: Database

  constructor(db: Database) {
    this.#db = db
  }

  /** Within the transaction of what it tells. */
  append(kind: SkillEntry, about: About, said: Record<string, unknown>): void {
    const last =
      this.#db.select().from(skillJournal).orderBy(desc(skillJournal.seq)).limit(1).get() ?? GENESIS
    const [seq, at, body] = [last.seq + 1, Date.now(), { ...about, ...said }]
    const hash = linkOf({ seq, at_ms: at, kind, call: null, body, prev: last.hash })
    this.#db
      .insert(skillJournal)
      .values({ seq, at, kind, skill: null, version: null, ...about, body, hash })
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
    const before = after === 0 ? GENESIS.hash : rows[0]?.hash
    return (after === 0 ? rows.slice(0, LIMITS.page) : rows.slice(1)).map(chained(before ?? GENESIS.hash))
  }

  /** Changes of a version's state, the latest first. */
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
      const { from, to, by, reason } = body as Omit<SkillChange, 'at_ms'> // as the store of skills appends these kinds
      return { from, to, by, at_ms: at, reason }
    })
  }

  /** The versions of a skill in the order in which they were enabled, each as often as it was. */
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

  /** How often what it kept was cleared. */
  clearedOf(id: string): number {
    const of = and(eq(skillJournal.skill, id), eq(skillJournal.kind, 'skill.cleared'))
    return this.#db.select({ n: count() }).from(skillJournal).where(of).get()?.n ?? 0
  }

  /** Whether anything was ever done with a publisher of this name. */
  knows(publisher: string): boolean {
    return (
      this.#db.select().from(skillJournal).where(eq(skillJournal.publisher, publisher)).limit(1).get() !==
      undefined
    )
  }

  /** What the log has not been told yet, in order. */
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

function chained(before: string) {
  let prev = before
  return ({ seq, at, kind, body, hash }: Row): JournalEntry => {
    const entry = { seq, at_ms: at, kind, call: null, body, prev, hash }
    prev = hash
    return entry
  }
}
