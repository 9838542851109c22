// The tenant's transparency log: an append-only Merkle tree over the ends of its calls, and its
// signed head. Operators can also read the leaves as a list. Beside it, the lists of calls and
// runs, and the sizes of their objects. It contains no arguments and no outputs.

import { DurableObject } from 'cloudflare:workers'
import { and, asc, count, desc, eq, gt, gte, inArray, lt, max, ne, notInArray, sql } from 'drizzle-orm'
import migrations from '../../migrations/log/migrations.js'
import schemas from '../../migrations/log/schemas.json' with { type: 'json' }
import { signCheckpoint } from '../../shared/evidence/checkpoint.ts'
import type { ShadowDecision } from '../../shared/evidence/journal.ts'
import type { Node } from '../../shared/evidence/merkle.ts'
import { append, inclusion, leafHash, root } from '../../shared/evidence/merkle.ts'
import type { CallState } from '../../shared/evidence/statement.ts'
import { failure } from '../../shared/failures.ts'
import { splitId } from '../../shared/ids.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { ShadowCount, ShadowDifference } from '../../shared/routes/rehearsals.ts'
import type { ListedCall } from '../../shared/wire/calls.ts'
import type { ListedRun } from '../../shared/wire/runs.ts'
import type { TenantUse } from '../../shared/wire/tenants.ts'
import type { Env } from '../bindings.ts'
import { DEFAULT_TENANT, identityOf } from '../bindings.ts'
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
import { leaves, nodes } from './tables.ts'

/** The sources of leaves from the tenant's journals, each entry of which is a leaf without a call. */
export const SKILL_JOURNAL = 'skills'
export const UPSTREAM_JOURNAL = 'upstreams'
export const TENANT_JOURNAL = 'tenant'
const JOURNALS = [SKILL_JOURNAL, UPSTREAM_JOURNAL, TENANT_JOURNAL]

/** The end of one call, as the run's journal records it. */
export type Leaf = {
  seq: number
  hash: string
  call: string
  agent: string
  tool: string
  state: string
  at: number
  took: number
  /** The decision of a policy set that shadowed the call. */
  shadow: Pick<ShadowDecision, 'since_ms' | 'from' | 'to'> | null
}
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

const hashOf = (journalHash: string): string => leafHash(Buffer.from(journalHash, 'hex'))

function statements(db: ReturnType<typeof openDatabase>) {
  const p = sql.placeholder
  const leaf = {
    index: p('index'),
    run: p('run'),
    seq: p('seq'),
    hash: p('hash'),
    call: p('call'),
    agent: p('agent'),
    tool: p('tool'),
    state: p('state'),
    at: p('at'),
    took: p('took'),
    shadowSince: p('shadowSince'),
    shadowFrom: p('shadowFrom'),
    shadowTo: p('shadowTo'),
  }
  return {
    addLeaf: db.insert(leaves).values(leaf).prepare(),
    /** The last position of a run's journal that the log contains. */
    lastOf: db
      .select({ seq: max(leaves.seq) })
      .from(leaves)
      .where(eq(leaves.run, p('run')))
      .prepare(),
    leaf: db
      .select({ hash: leaves.hash })
      .from(leaves)
      .where(eq(leaves.index, p('index')))
      .prepare(),
    addNode: db
      .insert(nodes)
      .values({ level: p('level'), index: p('index'), hash: p('hash') })
      .prepare(),
    node: db
      .select({ hash: nodes.hash })
      .from(nodes)
      .where(and(eq(nodes.level, p('level')), eq(nodes.index, p('index'))))
      .prepare(),
  }
}

export class LogObject extends DurableObject<Env> {
  readonly #db = openDatabase(this.ctx, { migrations, schemas })
  readonly #waiters = new Waiters<'leaf'>()
  readonly #q = statements(this.#db)
  readonly #index = new CallIndex(this.#db)
  readonly #sizes = new ObjectSizes(this.#db)
  /**
   * The last full subtree of each level, on which an append builds. If a transaction is rolled
   * back, the nodes it left here are computed again before they are read.
   */
  readonly #frontier: Node[] = []
  #size: number
  /** The time at which the lease of a running rehearsal ends. */
  #rehearsing = 0

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env)
    const last = this.#db
      .select({ index: leaves.index })
      .from(leaves)
      .orderBy(desc(leaves.index))
      .limit(1)
      .get()
    this.#size = last === undefined ? 0 : last.index + 1
  }

  /**
   * Appends the ends that are new, which their positions in the journal show.
   */
  async append(run: string, ends: readonly Leaf[]): Promise<void> {
    await this.appendAll([{ run, ends }])
  }

  /** The same for several runs of an object, and updates the lists and the object's size. */
  async appendAll(news: readonly RunEnds[], size?: SizeReport): Promise<void> {
    this.#size = this.ctx.storage.transactionSync(() => {
      if (size !== undefined) this.#sizes.put(size)
      for (const { reports } of news) if (reports !== undefined) this.#index.put(reports)
      return news.reduce((size, { run, ends }) => this.#appendAt(size, run, ends), this.#size)
    })
    if (news.some(({ ends }) => ends.length > 0)) this.#waiters.wake('leaf')
  }

  /** Appends to a log of `size` leaves, and returns its new size. */
  #appendAt(size: number, run: string, ends: readonly Leaf[]): number {
    if (ends.length === 0) return size
    const known = this.#q.lastOf.get({ run })?.seq ?? 0
    const fresh = ends.filter(({ seq }) => seq > known)
    for (const [i, { shadow, ...leaf }] of fresh.entries()) {
      const shadowed = {
        shadowSince: shadow?.since_ms ?? null,
        shadowFrom: shadow?.from ?? null,
        shadowTo: shadow?.to ?? null,
      }
      this.#q.addLeaf.run({ index: size + i, run, ...leaf, ...shadowed })
      for (const node of append(size + i, hashOf(leaf.hash), this.#read)) {
        this.#frontier[node.level] = node
        if (node.level > 0) this.#q.addNode.run(node)
      }
    }
    return size + fresh.length
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

  /** Reads a node's hash: leaves are level 0, higher levels are in the table `nodes`. */
  readonly #read = (level: number, index: number): string => {
    if (this.#frontier[level]?.index === index) return this.#frontier[level].hash
    const hash = level === 0 ? this.#q.leaf.get({ index })?.hash : this.#q.node.get({ level, index })?.hash
    if (hash === undefined) throw new Error(`the log lacks its node ${level}/${index}`)
    return level === 0 ? hashOf(hash) : hash
  }

  async checkpoint(): Promise<{ origin: string; size: number; root: string; note: string }> {
    const { signer, publicUrl } = identityOf(this.env)
    const origin = `${new URL(publicUrl).host}/${this.ctx.id.name ?? DEFAULT_TENANT}`
    const head = { origin, size: this.#size, root: root(this.#size, this.#read) }
    return { ...head, note: signCheckpoint(head, signer) }
  }

  async proof(index: number, size: number): Promise<Result<{ leaf: string; proof: string[] }>> {
    if (index >= size || size > this.#size)
      return err(failure('not_found', `the log has ${this.#size} leaves`))
    return ok({ leaf: this.#read(0, index), proof: inclusion(index, size, this.#read) })
  }

  /** The leaf of a call's end, and its proof under the head of this moment; null if there is none yet. */
  async inclusionOf(
    call: string,
  ): Promise<{ index: number; hash: string; proof: string[]; checkpoint: string } | null> {
    const { run } = splitId(call)
    const leaf = this.#db
      .select({ index: leaves.index, hash: leaves.hash })
      .from(leaves)
      .where(and(eq(leaves.run, run), eq(leaves.call, call)))
      .get()
    if (leaf === undefined) return null
    const { note: checkpoint } = await this.checkpoint()
    return { ...leaf, proof: inclusion(leaf.index, this.#size, this.#read), checkpoint }
  }

  async hashes(from: number): Promise<string[]> {
    return this.#db
      .select({ hash: leaves.hash })
      .from(leaves)
      .where(gte(leaves.index, from))
      .orderBy(asc(leaves.index))
      .limit(LIMITS.page)
      .all()
      .map(({ hash }) => hash)
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
    return JOURNALS.reduce((size, run) => size - (this.#q.lastOf.get({ run })?.seq ?? 0), this.#size)
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
    return lastCalls.all().at(-1)?.index ?? this.#size
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
    await eraseObject(this.ctx)
  }
}
