// The tenant's transparency log: an append-only Merkle tree over the ends of its calls, its signed
// head, its tiles and proofs. Operators can also read the leaves as a list. Beside it, the lists of
// calls and runs, and the sizes of their objects. It contains no arguments and no outputs.

import { DurableObject } from 'cloudflare:workers'
import { and, asc, count, desc, eq, gt, inArray, lt, ne, notInArray } from 'drizzle-orm'
import migrations from '../../migrations/log/migrations.js'
import schemas from '../../migrations/log/schemas.json' with { type: 'json' }
import type { CallState } from '../../shared/evidence/statement.ts'
import type { Tile } from '../../shared/evidence/tiles.ts'
import type { WitnessState } from '../../shared/evidence/witnesses.ts'
import { failure } from '../../shared/failures.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { LogProof } from '../../shared/routes/public.ts'
import type { ShadowCount, ShadowDifference } from '../../shared/routes/rehearsals.ts'
import type { ListedCall } from '../../shared/wire/calls.ts'
import type { ListedRun } from '../../shared/wire/runs.ts'
import type { TenantUse } from '../../shared/wire/tenants.ts'
import type { Env } from '../bindings.ts'
import { DEFAULT_TENANT, identityOf, outboundNetwork } from '../bindings.ts'
import { eraseObject, openDatabase } from '../platform/database.ts'
import { Waiters } from '../platform/waiters.ts'
import {
  CallIndex,
  type CallQuery,
  type ListPage,
  type RunQuery,
  type RunReports,
} from './call-index-store.ts'
import { ObjectSizes, type SizeReport } from './object-size-store.ts'
import { leaves } from './tables.ts'
import { type Leaf, LogTree } from './tree-store.ts'
import { WitnessStore } from './witness-store.ts'
import { Witnessing } from './witnessing.ts'

/** The sources of leaves from the tenant's journals, each entry of which is a leaf without a call. */
export const SKILL_JOURNAL = 'skills'
export const UPSTREAM_JOURNAL = 'upstreams'
export const TENANT_JOURNAL = 'tenant'
const JOURNALS = [SKILL_JOURNAL, UPSTREAM_JOURNAL, TENANT_JOURNAL]

/** The ends of calls of one run, and its reports for the lists. */
export type RunEnds = { readonly run: string; readonly ends: readonly Leaf[]; readonly reports?: RunReports }
export type EndedAt = { index: number; call: string; agent: string; tool: string; at: number }
type EndedCall = {
  seq: number
  call: string
  agent: string
  tool: string
  state: CallState
  at_ms: number
  took_ms: number
}

const OF_CALLS = notInArray(leaves.run, JOURNALS)

export class LogObject extends DurableObject<Env> {
  readonly #db = openDatabase(this.ctx, { migrations, schemas })
  readonly #waiters = new Waiters<'leaf'>()
  readonly #tree = new LogTree(this.#db)
  readonly #index = new CallIndex(this.#db)
  readonly #sizes = new ObjectSizes(this.#db)
  readonly #witnessing = this.#newWitnessing()
  /** The time at which the lease of a running rehearsal ends. */
  #rehearsing = 0

  /**
   * Appends the ends that are new, which their positions in the journal show.
   */
  async append(run: string, ends: readonly Leaf[]): Promise<void> {
    await this.appendAll([{ run, ends }])
  }

  /** The same for several runs of an object, and updates the lists and the object's size. */
  async appendAll(news: readonly RunEnds[], size?: SizeReport): Promise<void> {
    this.#tree.size = this.ctx.storage.transactionSync(() => {
      if (size !== undefined) this.#sizes.put(size)
      for (const { reports } of news) if (reports !== undefined) this.#index.put(reports)
      return news.reduce((size, { run, ends }) => this.#tree.append(size, run, ends), this.#tree.size)
    })
    if (!news.some(({ ends }) => ends.length > 0)) return
    this.#waiters.wake('leaf')
    this.#witnessing.grown()
  }

  #newWitnessing(): Witnessing {
    const { signer, publicUrl, witnesses } = identityOf(this.env)
    return new Witnessing({
      storage: this.ctx.storage,
      store: new WitnessStore(this.#db),
      tree: this.#tree,
      origin: `${new URL(publicUrl).host}/${this.ctx.id.name ?? DEFAULT_TENANT}`,
      signer,
      settings: witnesses,
      network: outboundNetwork(this.env),
    })
  }

  // ── What the tenant stores ──

  async reportSize(report: SizeReport): Promise<void> {
    this.ctx.storage.transactionSync(() => this.#sizes.put(report))
  }

  /** The bytes of all objects that have reported, and of this one. */
  async storedBytes(): Promise<number> {
    return this.#sizes.total + this.ctx.storage.sql.databaseSize
  }

  /** Whether the object has reported a size. */
  async knows(object: string): Promise<boolean> {
    return this.#sizes.has(object)
  }

  async calls(query: CallQuery): Promise<ListPage<ListedCall>> {
    return this.#index.calls(query)
  }

  async runs(query: RunQuery): Promise<ListPage<ListedRun>> {
    return this.#index.runs(query)
  }

  /** The signed head, with the cosignatures that witnesses have made of it. */
  async checkpoint(): Promise<string> {
    return this.#witnessing.note()
  }

  async witnesses(): Promise<WitnessState[]> {
    return this.#witnessing.states()
  }

  override async alarm(): Promise<void> {
    await this.#witnessing.ring()
  }

  /** The bytes of a tile; null if the log has not reached it. */
  async tile(tile: Tile): Promise<Uint8Array<ArrayBuffer> | null> {
    const bytes = this.#tree.tile(tile)
    return bytes === undefined ? null : Uint8Array.from(bytes)
  }

  /**
   * Proves that the log has the end of a call: under the newest head, or under the one that most
   * witnesses have cosigned, which may be older.
   */
  async inclusionOf(call: string, under: 'newest' | 'cosigned'): Promise<LogProof | null> {
    const leaf = this.#tree.leafOf(call)
    if (leaf === undefined) return null
    const { size, note } =
      under === 'cosigned'
        ? this.#witnessing.cosignedHead(leaf.index)
        : { size: this.#tree.size, note: this.#witnessing.note() }
    return { ...leaf, proof: this.#tree.inclusion(leaf.index, size), checkpoint: note }
  }

  /** Proves that the log of `m` leaves is the beginning of the log of `n` leaves. */
  async consistency(m: number, n: number): Promise<Result<string[]>> {
    const proof = this.#tree.consistency(m, n)
    return proof === undefined
      ? err(failure('not_found', `the log has ${this.#tree.size} leaves`))
      : ok(proof)
  }

  /**
   * For the shadow set of this time: how its decisions of ended calls compare with those that were
   * made, and the latest that differ.
   */
  async shadowed(since: number): Promise<{ counts: ShadowCount[]; latest: ShadowDifference[] }> {
    const { index, call, agent, tool, at, shadowSince, shadowFrom: from, shadowTo: to } = leaves
    const counts = this.#db
      .select({ from, to, count: count() })
      .from(leaves)
      .where(eq(shadowSince, since))
      .groupBy(from, to)
      .all()
    const differ = this.#db
      .select({ call, agent, tool, at_ms: at, from, to })
      .from(leaves)
      .where(and(eq(shadowSince, since), ne(from, to)))
    const latest = differ.orderBy(desc(index)).limit(LIMITS.page).all()
    // The three columns are written together, so `from` and `to` are never null here.
    return { counts: counts as ShadowCount[], latest: latest as ShadowDifference[] }
  }

  /** Ended calls below the index `before`, latest first. */
  async endedBefore(before: number, limit: number): Promise<EndedAt[]> {
    const { index, call, agent, tool, at } = leaves
    const rows = this.#db
      .select({ index, call, agent, tool, at })
      .from(leaves)
      .where(and(lt(index, before), OF_CALLS))
    return rows.orderBy(desc(index)).limit(limit).all()
  }

  /**
   * Takes the lease for a rehearsal, one at a time; null if another one runs. It expires at the
   * returned time.
   */
  async startRehearsal(): Promise<number | null> {
    const now = Date.now()
    if (now < this.#rehearsing) return null
    this.#rehearsing = now + LIMITS.rehearsal_ms
    return this.#rehearsing
  }

  async endRehearsal(until: number): Promise<void> {
    if (this.#rehearsing === until) this.#rehearsing = 0
  }

  /** The number of ended calls: all leaves except those of journals, each entry of which is one. */
  async endedCalls(): Promise<number> {
    return JOURNALS.reduce((size, run) => size - this.#tree.lastOf(run), this.#tree.size)
  }

  /** Counts of the tenant's calls and runs, found without reading all of them. */
  async counts(): Promise<Pick<TenantUse, 'calls_ended' | 'calls_open' | 'runs_open'>> {
    return { calls_ended: await this.endedCalls(), ...this.#index.open() }
  }

  /**
   * Ended calls after an index, waiting up to `waitMs` for the next one. With `last`, that many of
   * the newest ones.
   */
  async ended(after: number, last: number | undefined, waitMs: number): Promise<EndedCall[]> {
    const from = last === undefined ? after : this.#fromEnd(last)
    const ended = this.#endedFrom(from)
    if (ended.length > 0) return ended
    await this.#waiters.wait('leaf', waitMs)
    return this.#endedFrom(from)
  }

  /** The index of the oldest of the `last` newest ended calls. */
  #fromEnd(last: number): number {
    const lastCalls = this.#db
      .select({ index: leaves.index })
      .from(leaves)
      .where(OF_CALLS)
      .orderBy(desc(leaves.index))
      .limit(last)
    return lastCalls.all().at(-1)?.index ?? this.#tree.size
  }

  #endedFrom(from: number): EndedCall[] {
    const endedCalls = and(gt(leaves.index, from - 1), OF_CALLS)
    const rows = this.#db
      .select()
      .from(leaves)
      .where(endedCalls)
      .orderBy(asc(leaves.index))
      .limit(LIMITS.page)
      .all()
    return rows.map(({ index, call, agent, tool, state, at, took }) => ({
      seq: index + 1,
      call,
      agent,
      tool,
      state: state as CallState, // written from the lifecycle’s states
      at_ms: at,
      took_ms: took,
    }))
  }

  // ── Deleting the tenant ──

  /** Removes the runs that the caller names, and returns some of those that are left. */
  async runsBut(removed: readonly string[]): Promise<string[]> {
    this.#db
      .delete(leaves)
      .where(inArray(leaves.run, [...removed]))
      .run()
    const rows = this.#db
      .selectDistinct({ run: leaves.run })
      .from(leaves)
      .where(OF_CALLS)
      .limit(LIMITS.page)
      .all()
    return [...new Set([...rows.map(({ run }) => run), ...this.#index.runsBut(removed)])]
  }

  /** The agents and sessions of these runs, as far as they are in the list. */
  async ownersOf(runs: readonly string[]): Promise<Array<{ agent: string; session: string }>> {
    return this.#index.ownersOf(runs)
  }

  /** Part of deleting the tenant. */
  async erase(): Promise<void> {
    this.#witnessing.end()
    await eraseObject(this.ctx)
  }
}
