// Counts the bytes of files that the runs of a tenant hold, by agent. Each run reports its total
// before it takes more and when it holds less. A report expires when all the run's files must be
// gone.

import { eq, lte, sql } from 'drizzle-orm'
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
    const mine = sums.find((sum) => sum.agent === agent)?.bytes ?? 0
    const all = sums.reduce((total, sum) => total + sum.bytes, 0)
    const more = bytes - before
    if (more > 0 && mine + more > ofAgent)
      return full(`the runs of \`${agent}\` hold ${mine} bytes of files, and may hold at most ${ofAgent}`)
    if (more > 0 && all + more > most.tenant)
      return full(
        `the runs of all agents hold ${all} bytes of files, and the tenant’s quota is ${most.tenant}`,
      )
    const row = { run, agent, bytes, until: now + REPORT_MS }
    if (bytes === 0) this.#db.delete(filesHeld).where(eq(filesHeld.run, run)).run()
    else this.#db.insert(filesHeld).values(row).onConflictDoUpdate({ target: filesHeld.run, set: row }).run()
    this.#add(agent, more)
    return ok(true)
  }

  #forget(now: number): void {
    const gone = this.#db.delete(filesHeld).where(lte(filesHeld.until, now)).returning().all()
    for (const { agent, bytes } of gone) this.#add(agent, -bytes)
  }

  #add(agent: string, bytes: number): void {
    const more = { bytes: sql`${filesSums.bytes} + ${bytes}` }
    this.#db
      .insert(filesSums)
      .values({ agent, bytes })
      .onConflictDoUpdate({ target: filesSums.agent, set: more })
      .run()
  }
}

const full = (detail: string): Result<never> => err(failure('files_full', detail))
