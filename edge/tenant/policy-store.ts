// A tenant's policy sets: immutable versions, and their activations. A set is checked here against the
// current tools, because the TenantObject serializes changes of tools and policies: the active set
// always fits the tools. A write that changes the directory is recorded in the tenant's journal.

import { and, desc, eq, lt, lte, ne, notInArray, sql } from 'drizzle-orm'
import { digestOf } from '../../shared/bytes/json.ts'
import { type FieldError, failure } from '../../shared/failures.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { PolicyVersion } from '../../shared/routes/policies.ts'
import type { Tool } from '../../shared/wire/tools.ts'
import type { Database } from '../platform/database.ts'
import { checkPolicies } from '../policy/check.ts'
import type { PolicyTexts } from '../policy/engine.ts'
import type { RecordedChange } from './journal-store.ts'
import { policyActivations, policySets, policyShadow } from './tables.ts'

/**
 * The versions of which one must be active for a change to be accepted; undefined if any may be.
 */
export type Expected = readonly number[] | undefined
export type PolicyPut = {
  readonly policies: PolicyTexts
  readonly note: string
  readonly author: string
  readonly activate: boolean
  readonly expected: Expected
}

export type CheckedVersion = PolicyVersion & { warnings: FieldError[] }

/** The author of the defaults; not a valid operator name. */
const EDGE = 'the edge'

type Activation = { at_ms: number; by: string }
/** `previous` is the version that was active before the current one. */
export type StoredPolicySet = {
  about: PolicyVersion
  texts: PolicyTexts
  activations: Activation[]
  previous: number | null
}

/** The columns of lists; SQLite counts the texts, so that they are not loaded. */
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
  readonly #record: RecordedChange
  readonly #db: Database

  constructor(db: Database, record: RecordedChange) {
    this.#db = db
    this.#record = record
  }

  /** Stores and activates the initial set, within the transaction that creates the tenant. */
  initialize(defaults: PolicyTexts): number {
    const version = this.#add(defaults, 'defaults', EDGE)
    this.#activate(version, EDGE)
    return version
  }

  /**
   * Updates a tenant without a set of its own to the defaults of this edge version, so that new
   * actions are permitted to somebody.
   */
  follow(defaults: PolicyTexts): void {
    const newest = this.#about(this.#newest())
    const ours = newest?.version === 1 || newest?.author === EDGE
    const digest = digestOf(defaults)
    if (!ours || newest.digest === digest) return
    const entry = (version: number) => ['policies.put', EDGE, { version, digest, active: true }] as const
    this.#record(entry, () => this.initialize(defaults))
  }

  /** The active set. */
  active(): { version: number; texts: PolicyTexts } {
    const set = this.#db.select().from(policySets).where(eq(policySets.active, true)).get()
    return { version: set?.version ?? 0, texts: set?.policies ?? {} }
  }

  /** The set in shadow, if any. */
  shadow(): { version: number; since: number; by: string; texts: PolicyTexts } | null {
    const { version, since, by } = policyShadow
    const row = this.#db
      .select({ version, since, by, texts: policySets.policies })
      .from(policyShadow)
      .innerJoin(policySets, eq(policySets.version, version))
    return row.get() ?? null
  }

  /**
   * Checks the set as if it were activated, because a set that can't be activated is not worth
   * comparing. Setting the same version again keeps its counts.
   */
  putShadow(version: number | null, by: string, tools: readonly Tool[]): Result<FieldError[]> {
    const texts = version === null ? undefined : this.read(version)?.texts
    const checked = texts === undefined ? ok([]) : checkPolicies(texts, tools)
    if (!checked.ok) return checked
    const set = this.#setShadow(version, by)
    return set.ok ? ok([...checked.value]) : set
  }

  #setShadow(version: number | null, by: string): Result<true> {
    const present = this.shadow()?.version ?? null
    if (version === present) return ok(true)
    if (version !== null && this.#about(version) === undefined)
      return err(failure('not_found', `no version ${version} of the policy set`))
    if (version === this.active().version)
      return err(failure('conflict', `version ${version} is active; shadow a different version`))
    this.#record(['policies.shadowed', by, { version }], () => {
      this.#db.delete(policyShadow).run()
      if (version !== null)
        this.#db.insert(policyShadow).values({ id: 1, version, since: Date.now(), by }).run()
    })
    return ok(true)
  }

  /** The versions before `before`, newest first. */
  list(before: number): PolicyVersion[] {
    const rows = this.#db
      .select(LISTED)
      .from(policySets)
      .where(lt(policySets.version, before))
      .orderBy(desc(policySets.version))
    return rows
      .limit(LIMITS.page)
      .all()
      .map((row) => this.#withActivation(row))
  }

  /** A whole version; undefined if it does not exist or was removed. */
  read(version: number): StoredPolicySet | undefined {
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
   * A set equal to the newest version creates no new one, so a repeated request changes nothing and
   * raises no version conflict. The author of a version may replace its note until it has been
   * active.
   */
  put(put: PolicyPut, tools: readonly Tool[]): Result<CheckedVersion> {
    return checked(put.policies, tools, () => this.#put(put))
  }

  #put({ policies, note, author, activate, expected }: PolicyPut): Result<PolicyVersion> {
    const newest = this.#about(this.#newest())
    const digest = digestOf(policies)
    const same = newest?.digest === digest ? newest : undefined
    const mayNote = same !== undefined && same.author === author && same.activated_at_ms === null
    const replacesNote = mayNote && note !== '' && note !== same.note
    if (same !== undefined && (same.active || !activate) && !replacesNote) return ok(same)
    const stale = this.#stale(expected)
    if (stale !== undefined) return stale
    const version = this.#record(
      (version) => ['policies.put', author, { version, digest, active: activate }],
      () => {
        if (replacesNote)
          this.#db.update(policySets).set({ note }).where(eq(policySets.version, same.version)).run()
        const put = same?.version ?? this.#add(policies, note, author)
        if (activate) this.#activate(put, author)
        return put
      },
    )
    return ok(this.#known(version))
  }

  activate(
    { version, by, expected }: { version: number; by: string; expected: Expected },
    tools: readonly Tool[],
  ): Result<CheckedVersion> {
    const set = this.read(version)
    const bounded = (set?.activations.length ?? 0) === 0 // bounds introduced later must not prevent a rollback
    return checked(set?.texts ?? {}, tools, () => this.#activateAt(version, by, expected), bounded)
  }

  #activateAt(version: number, by: string, expected: Expected): Result<PolicyVersion> {
    const known = this.#about(version)
    if (known === undefined) return err(failure('not_found', `no version ${version} of the policy set`))
    if (known.active) return ok(known)
    const stale = this.#stale(expected)
    if (stale !== undefined) return stale
    this.#record(['policies.activated', by, { version, digest: known.digest }], () =>
      this.#activate(version, by),
    )
    return ok(this.#known(version))
  }

  #stale(expected: Expected) {
    const { version } = this.active()
    if (expected === undefined || expected.includes(version)) return undefined
    const named = expected.length === 0 ? 'none' : expected.join(', ')
    return err(failure('version_conflict', `version ${version} is active, but \`If-Match\` names ${named}`))
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
   * Removes the oldest versions beyond the limit. Versions that were ever active stay, because
   * decisions name them and they can be activated again; so does the one in shadow.
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
    this.#db.delete(policyShadow).where(eq(policyShadow.version, version)).run() // the active version can't be its own shadow
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

  /** The version that was active before the current one. */
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

  /** Latest first. */
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
    return row === undefined ? undefined : this.#withActivation(row)
  }

  #withActivation(row: Omit<PolicyVersion, 'shadow' | 'activated_at_ms' | 'activated_by'>): PolicyVersion {
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
    if (known === undefined) throw new Error(`version ${version} was stored but is missing`)
    return known
  }
}

/** `write` runs if the set fits the tools. */
function checked(
  texts: PolicyTexts,
  tools: readonly Tool[],
  write: () => Result<PolicyVersion>,
  bounded = true,
): Result<CheckedVersion> {
  const warnings = checkPolicies(texts, tools, bounded)
  if (!warnings.ok) return warnings
  const done = write()
  return done.ok ? ok({ ...done.value, warnings: [...warnings.value] }) : done
}
