// A tenant's policy sets: immutable versions, and which of them is in force, since when and by
// whom. It reads no policy and checks none; what is put here has been checked. Every write that
// matters to others goes through the change of the TenantObject that owns it.

import { and, desc, eq, lt, lte, ne, notInArray, sql } from 'drizzle-orm'
import { digestOf } from '../../shared/bytes/json.ts'
import { failure } from '../../shared/failures.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { PolicyVersion } from '../../shared/routes/policies.ts'
import type { Change, Database } from '../platform/database.ts'
import type { PolicyTexts } from '../policy/engine.ts'
import { policyActivations, policySets, policyShadow } from './tables.ts'

/**
 * The versions of which one must be in force for a change to be made; undefined where any may be.
 */
export type Expected = readonly number[] | undefined
export type PolicyPut = {
  readonly policies: PolicyTexts
  readonly note: string
  readonly author: string
  readonly activate: boolean
  readonly expected: Expected
}

/** The author of the defaults; no operator can have that name. */
const EDGE = 'the edge'

type Activation = { at_ms: number; by: string }
/** `previous` is what was in force before the set that is in force now. */
export type PolicySetOnRecord = {
  about: PolicyVersion
  texts: PolicyTexts
  activations: Activation[]
  previous: number | null
}

/** What of a row is told in lists: the texts are counted where they lie, not read. */
const LISTED = {
  version: policySets.version,
  digest: policySets.digest,
  note: policySets.note,
  author: policySets.author,
  created_at_ms: policySets.createdAt,
  active: policySets.active,
  policy_count: sql<number>`(select count(*) from json_each(${policySets.policies}))`,
}

export class PolicyStore {
  readonly #db: Database
  readonly #change: Change

  constructor(db: Database, change: Change) {
    this.#db = db
    this.#change = change
  }

  /** The set that a tenant starts with; within the transaction that makes the tenant. */
  found(defaults: PolicyTexts): void {
    this.#activate(this.#add(defaults, 'defaults', EDGE), EDGE)
  }

  /**
   * Whoever has never put a set of their own has the defaults of the edge that runs: else nobody
   * might do what is new there.
   */
  follow(defaults: PolicyTexts): void {
    const newest = this.#about(this.#newest())
    const ours = newest?.version === 1 || newest?.author === EDGE
    if (ours && newest.digest !== digestOf(defaults)) this.#change(() => this.found(defaults))
  }

  /** What is in force. */
  active(): { version: number; texts: PolicyTexts } {
    const set = this.#db.select().from(policySets).where(eq(policySets.active, true)).get()
    return { version: set?.version ?? 0, texts: set?.policies ?? {} }
  }

  /** What shadows it, if anything does. */
  shadow(): { version: number; since: number; by: string; texts: PolicyTexts } | null {
    const { version, since, by } = policyShadow
    const row = this.#db
      .select({ version, since, by, texts: policySets.policies })
      .from(policyShadow)
      .innerJoin(policySets, eq(policySets.version, version))
    return row.get() ?? null
  }

  /** Once more the same goes on as it was: what it has counted stays. */
  setShadow(version: number | null, by: string): Result<true> {
    const present = this.shadow()?.version ?? null
    if (version === present) return ok(true)
    if (version !== null && this.#about(version) === undefined)
      return err(failure('not_found', `no version ${version} of the policy set`))
    if (version === this.active().version)
      return err(failure('conflict', `version ${version} is in force; there is nothing to compare it with`))
    this.#change(() => {
      this.#db.delete(policyShadow).run()
      if (version !== null)
        this.#db.insert(policyShadow).values({ id: 1, version, since: Date.now(), by }).run()
    })
    return ok(true)
  }

  /** Newest first; those before `before`. */
  list(before: number): PolicyVersion[] {
    const rows = this.#db
      .select(LISTED)
      .from(policySets)
      .where(lt(policySets.version, before))
      .orderBy(desc(policySets.version))
    return rows
      .limit(LIMITS.page)
      .all()
      .map((row) => this.#told(row))
  }

  /** A version whole; undefined where it is not, or no longer. */
  read(version: number): PolicySetOnRecord | undefined {
    const row = this.#db
      .select({ texts: policySets.policies })
      .from(policySets)
      .where(eq(policySets.version, version))
      .get()
    const about = this.#about(version)
    if (row === undefined || about === undefined) return undefined
    return {
      about,
      texts: row.texts,
      activations: this.#activations(version, LIMITS.page),
      previous: this.#previous(),
    }
  }

  /**
   * What the newest version says already makes no other. A request that came twice changes nothing,
   * and is not held against what it did. A new note of its author's replaces that of a version
   * which has never been in force: nobody has acted on it, and nobody else's word is theirs.
   */
  put({ policies, note, author, activate, expected }: PolicyPut): Result<PolicyVersion> {
    const newest = this.#about(this.#newest())
    const same = newest?.digest === digestOf(policies) ? newest : undefined
    const mayNote = same !== undefined && same.author === author && same.activated_at_ms === null
    const renoted = mayNote && note !== '' && note !== same.note
    if (same !== undefined && (same.active || !activate) && !renoted) return ok(same)
    const stale = this.#stale(expected)
    if (stale !== undefined) return stale
    const version = this.#change(() => {
      if (renoted) this.#db.update(policySets).set({ note }).where(eq(policySets.version, same.version)).run()
      const put = same?.version ?? this.#add(policies, note, author)
      if (activate) this.#activate(put, author)
      return put
    })
    return ok(this.#known(version))
  }

  activate(version: number, by: string, expected: Expected): Result<PolicyVersion> {
    const known = this.#about(version)
    if (known === undefined) return err(failure('not_found', `no version ${version} of the policy set`))
    if (known.active) return ok(known)
    const stale = this.#stale(expected)
    if (stale !== undefined) return stale
    this.#change(() => this.#activate(version, by))
    return ok(this.#known(version))
  }

  #stale(expected: Expected) {
    const { version } = this.active()
    if (expected === undefined || expected.includes(version)) return undefined
    const named = expected.length === 0 ? 'none' : expected.join(', ')
    return err(
      failure(
        'version_conflict',
        `version ${version} is in force; of the versions, \`If-Match\` names ${named}`,
      ),
    )
  }

  #add(policies: PolicyTexts, note: string, author: string): number {
    const version = this.#newest() + 1
    const row = {
      version,
      digest: digestOf(policies),
      policies: { ...policies },
      note,
      author,
      active: false,
      createdAt: Date.now(),
    }
    this.#db.insert(policySets).values(row).run()
    this.#forget(version - LIMITS.policy_versions)
    return version
  }

  /**
   * The oldest go where there are too many. What was ever in force stays, and what shadows that: a
   * decision names it, and it can be again.
   */
  #forget(until: number): void {
    if (until < 1) return
    const everActive = this.#db.select({ version: policyActivations.version }).from(policyActivations)
    const kept = this.shadow()?.version ?? 0
    this.#db
      .delete(policySets)
      .where(
        and(
          lte(policySets.version, until),
          notInArray(policySets.version, everActive),
          ne(policySets.version, kept),
        ),
      )
      .run()
  }

  #activate(version: number, by: string): void {
    this.#db.update(policySets).set({ active: false }).where(eq(policySets.active, true)).run()
    this.#db.update(policySets).set({ active: true }).where(eq(policySets.version, version)).run()
    this.#db.delete(policyShadow).where(eq(policyShadow.version, version)).run() // nothing shadows itself
    this.#db.insert(policyActivations).values({ version, at: Date.now(), by }).run()
  }

  #newest(): number {
    return (
      this.#db
        .select({ version: policySets.version })
        .from(policySets)
        .orderBy(desc(policySets.version))
        .limit(1)
        .get()?.version ?? 0
    )
  }

  /** What was in force before the present set, and can be again. */
  #previous(): number | null {
    const last = this.#db
      .select({ version: policySets.version })
      .from(policyActivations)
      .innerJoin(policySets, eq(policySets.version, policyActivations.version))
      .where(eq(policySets.active, false))
      .orderBy(desc(policyActivations.seq))
      .limit(1)
      .get()
    return last?.version ?? null
  }

  /** The last time first. */
  #activations(version: number, limit: number): Activation[] {
    const { at, by, seq } = policyActivations
    const rows = this.#db
      .select({ at_ms: at, by })
      .from(policyActivations)
      .where(eq(policyActivations.version, version))
    return rows.orderBy(desc(seq)).limit(limit).all()
  }

  #about(version: number): PolicyVersion | undefined {
    const row = this.#db.select(LISTED).from(policySets).where(eq(policySets.version, version)).get()
    return row === undefined ? undefined : this.#told(row)
  }

  #told(row: Omit<PolicyVersion, 'shadow' | 'activated_at_ms' | 'activated_by'>): PolicyVersion {
    const [last] = this.#activations(row.version, 1)
    return {
      ...row,
      shadow: this.shadow()?.version === row.version,
      activated_at_ms: last?.at_ms ?? null,
      activated_by: last?.by ?? null,
    }
  }

  #known(version: number): PolicyVersion {
    const known = this.#about(version)
    if (known === undefined) throw new Error(`version ${version} was written and is not there`)
    return known
  }
}
