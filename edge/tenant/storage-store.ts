// Counts the bytes that a tenant stores: files of its runs, by agent, what its skills keep, and what
// its calls leave. Each run reports the total of its files, and each skill of its storage, before it
// takes more and when it holds less. The report of a run expires when all its files must be gone. The
// tenant's log counts what calls leave (calls-stored.ts).

import { eq, like, lte, type SQL, sql } from 'drizzle-orm'
import { failure } from '../../shared/failures.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { TenantUse } from '../../shared/wire/tenants.ts'
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

/** The tenant's quota, and what its calls have left of it. */
export type StorageRoom = { readonly quota: number; readonly calls: number }

type FileUse = { readonly run: string; readonly agent: string; readonly bytes: number }

export class StorageStore {
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
    most: { agent: number | undefined; tenant: StorageRoom },
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
  holdForSkill(skill: string | null, bytes: number, most: StorageRoom): Result<true> {
    this.#forget(Date.now())
    const holder = holderOf(skill)
    const before = this.#db.select().from(filesSums).where(eq(filesSums.holder, holder)).get()?.bytes ?? 0
    const room = this.#roomFor(bytes - before, most)
    if (room.ok) this.#add(holder, bytes - before)
    return room
  }

  /** All bytes, and those of them that calls left and that skills keep. */
  held(calls: number): Pick<TenantUse, 'storage_bytes' | 'calls_bytes' | 'skills_bytes'> {
    const skills = this.#sum(like(filesSums.holder, `${SKILLS}%`))
    return { storage_bytes: this.#sum() + calls, calls_bytes: calls, skills_bytes: skills }
  }

  /** The code of all skills, which the tenant's own object stores. */
  codeBytes(): number {
    return this.#sum(eq(filesSums.holder, holderOf(null)))
  }

  #sum(which?: SQL): number {
    const sum = { bytes: sql<number>`coalesce(sum(${filesSums.bytes}), 0)` }
    return this.#db.select(sum).from(filesSums).where(which).get()?.bytes ?? 0
  }

  #roomFor(more: number, { quota, calls }: StorageRoom): Result<true> {
    const { storage_bytes: all } = this.held(calls)
    return more <= 0 || all + more <= quota ? ok(true) : storageFull(all, quota)
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

const full = (detail: string): Result<never> => err(failure('storage_full', detail))

export const storageFull = (all: number, quota: number): Result<never> =>
  full(`the tenant stores ${all} bytes, and its quota is ${quota}`)
