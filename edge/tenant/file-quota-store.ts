// Counts the bytes that a tenant stores: files of its runs, by agent, and what its skills keep. Each
// run and each skill reports its total before it takes more and when it holds less. The report of a
// run expires when all its files must be gone.

import { eq, like, lte, sql } from 'drizzle-orm'
import { failure } from '../../shared/failures.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { Database } from '../platform/database.ts'
import { filesHeld, filesSums } from './tables.ts'

/**
 * Longer than a file is kept. A run that still holds files reports again earlier
 * (edge/run/file-uploads.ts).
 */
const REPORT_MS = LIMITS.file_named_ms + 2 * LIMITS.file_unnamed_ms

/** Holders that are not agents: no agent has a slash in its name. */
const SKILLS = 'skills/'
/** A skill for its storage; null for the code of all versions. */
const holderOf = (skill: string | null): string => `${SKILLS}${skill ?? ''}`

type FileUse = { readonly run: string; readonly agent: string; readonly bytes: number }

export class FileQuotaStore {
  readonly #db: Database

  constructor(db: Database) {
    this.#db = db
  }

  /**
   * A decrease is always accepted. `most`: the limit of this agent, if operators set one, and the
   * tenant's quota.
   */
  hold(
    { run, agent, bytes }: FileUse,
    most: { agent: number | undefined; tenant: number },
    now = Date.now(),
  ): Result<true> {
    const ofAgent = most.agent ?? LIMITS.agent_files_bytes
    this.#forget(now)
    const before = this.#db.select().from(filesHeld).where(eq(filesHeld.run, run)).get()?.bytes ?? 0
    const sums = this.#db.select().from(filesSums).all()
    const mine = sums.find(({ holder }) => holder === agent)?.bytes ?? 0
    const more = bytes - before
    if (more > 0 && mine + more > ofAgent)
      return full(`the runs of \`${agent}\` hold ${mine} bytes of files, and may hold at most ${ofAgent}`)
    const room = this.#roomFor(more, most.tenant)
    if (!room.ok) return room
    const row = { run, agent, bytes, until: now + REPORT_MS }
    if (bytes === 0) this.#db.delete(filesHeld).where(eq(filesHeld.run, run)).run()
    else this.#db.insert(filesHeld).values(row).onConflictDoUpdate({ target: filesHeld.run, set: row }).run()
    this.#add(agent, more)
    return ok(true)
  }

  /** Sets what a skill's storage holds, or (`null`) the code of all skills. */
  holdForSkill(skill: string | null, bytes: number, most: number): Result<true> {
    this.#forget(Date.now())
    const holder = holderOf(skill)
    const before = this.#db.select().from(filesSums).where(eq(filesSums.holder, holder)).get()?.bytes ?? 0
    const room = this.#roomFor(bytes - before, most)
    if (room.ok) this.#add(holder, bytes - before)
    return room
  }

  /** All bytes, and those of them that skills keep. */
  held(): { readonly files_bytes: number; readonly skills_bytes: number } {
    const sum = { bytes: sql<number>`coalesce(sum(${filesSums.bytes}), 0)` }
    const all = this.#db.select(sum).from(filesSums)
    const ofSkills = this.#db
      .select(sum)
      .from(filesSums)
      .where(like(filesSums.holder, `${SKILLS}%`))
    return { files_bytes: all.get()?.bytes ?? 0, skills_bytes: ofSkills.get()?.bytes ?? 0 }
  }

  #roomFor(more: number, most: number): Result<true> {
    const { files_bytes: all } = this.held()
    return more <= 0 || all + more <= most
      ? ok(true)
      : full(`the tenant’s runs and skills hold ${all} bytes, and its quota is ${most}`)
  }

  #forget(now: number): void {
    const gone = this.#db.delete(filesHeld).where(lte(filesHeld.until, now)).returning().all()
    for (const { agent, bytes } of gone) this.#add(agent, -bytes)
  }

  #add(holder: string, bytes: number): void {
    const more = { bytes: sql`${filesSums.bytes} + ${bytes}` }
    this.#db
      .insert(filesSums)
      .values({ holder, bytes })
      .onConflictDoUpdate({ target: filesSums.holder, set: more })
      .run()
  }
}

const full = (detail: string): Result<never> => err(failure('files_full', detail))
