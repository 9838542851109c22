// The leaves of the tenant's log and the nodes of its Merkle tree: appending, and what is read from
// them, which are the root, tiles and proofs.

import { and, asc, between, desc, eq, max, sql } from 'drizzle-orm'
import type { ShadowDecision } from '../../shared/evidence/journal.ts'
import { append, consistency, inclusion, type Node, root } from '../../shared/evidence/merkle.ts'
import {
  entryBundle,
  hashOfEntry,
  hashTile,
  TILE_HEIGHT,
  TILE_WIDTH,
  type Tile,
} from '../../shared/evidence/tiles.ts'
import { splitId } from '../../shared/ids.ts'
import type { Database } from '../platform/database.ts'
import { leaves, nodes } from './tables.ts'

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

function statements(db: Database) {
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
    /** Uses the index of sources, and reads only the leaves of the run. */
    leafOf: db
      .select({ index: leaves.index, hash: leaves.hash })
      .from(leaves)
      .where(and(eq(leaves.run, p('run')), eq(leaves.call, p('call'))))
      .prepare(),
    leavesIn: db
      .select({ hash: leaves.hash })
      .from(leaves)
      .where(between(leaves.index, p('first'), p('last')))
      .orderBy(asc(leaves.index))
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
    nodesIn: db
      .select({ hash: nodes.hash })
      .from(nodes)
      .where(and(eq(nodes.level, p('level')), between(nodes.index, p('first'), p('last'))))
      .orderBy(asc(nodes.index))
      .prepare(),
  }
}

export class LogTree {
  readonly #q: ReturnType<typeof statements>
  /**
   * The last full subtree of each level, on which an append builds. If a transaction is rolled
   * back, the nodes it left here are computed again before they are read.
   */
  readonly #frontier: Node[] = []
  /** How many leaves are stored. The caller of `append` sets it after the commit. */
  size: number

  constructor(db: Database) {
    this.#q = statements(db)
    const last = db.select({ index: leaves.index }).from(leaves).orderBy(desc(leaves.index)).limit(1).get()
    this.size = last === undefined ? 0 : last.index + 1
  }

  /**
   * Appends the ends that are new, which their positions in the journal show, to a log of `size`
   * leaves, and returns its new size. The caller opens the transaction.
   */
  append(size: number, run: string, ends: readonly Leaf[]): number {
    if (ends.length === 0) return size
    const known = this.lastOf(run)
    const fresh = ends.filter(({ seq }) => seq > known)
    for (const [i, { shadow, ...leaf }] of fresh.entries()) {
      const shadowed = {
        shadowSince: shadow?.since_ms ?? null,
        shadowFrom: shadow?.from ?? null,
        shadowTo: shadow?.to ?? null,
      }
      this.#q.addLeaf.run({ index: size + i, run, ...leaf, ...shadowed })
      for (const node of append(size + i, hashOfEntry(leaf.hash), this.#read)) {
        this.#frontier[node.level] = node
        if (node.level > 0) this.#q.addNode.run(node)
      }
    }
    return size + fresh.length
  }

  /** The last position of a run's journal that the log contains; 0 if it contains none. */
  lastOf(run: string): number {
    return this.#q.lastOf.get({ run })?.seq ?? 0
  }

  root(): string {
    return root(this.size, this.#read)
  }

  /** The leaf of the end of a call. */
  leafOf(call: string): { index: number; hash: string } | undefined {
    return this.#q.leafOf.get({ run: splitId(call).run, call })
  }

  /** The proof that the log of `size` leaves has leaf `index`. 0 ≤ index < size ≤ this.size. */
  inclusion(index: number, size: number): string[] {
    return inclusion(index, size, this.#read)
  }

  /** The proof that the log of `m` leaves is the beginning of that of `n`; undefined if it has fewer. */
  consistency(m: number, n: number): string[] | undefined {
    return m <= n && n <= this.size ? consistency(m, n, this.#read) : undefined
  }

  /** The bytes of a tile; undefined if the log has not reached it. */
  tile({ level, index, width }: Tile): Buffer | undefined {
    const range = { first: index * TILE_WIDTH, last: index * TILE_WIDTH + width - 1 }
    const rows =
      level === 'entries' || level === 0
        ? this.#q.leavesIn.all(range)
        : this.#q.nodesIn.all({ level: level * TILE_HEIGHT, ...range })
    if (rows.length < width) return undefined
    const hashes = rows.map(({ hash }) => hash)
    if (level === 'entries') return entryBundle(hashes)
    return hashTile(level === 0 ? hashes.map(hashOfEntry) : hashes)
  }

  /** Reads a node's hash: leaves are level 0, higher levels are in the table `nodes`. */
  readonly #read = (level: number, index: number): string => {
    if (this.#frontier[level]?.index === index) return this.#frontier[level].hash
    const hash = level === 0 ? this.#q.leaf.get({ index })?.hash : this.#q.node.get({ level, index })?.hash
    if (hash === undefined) throw new Error(`the log lacks its node ${level}/${index}`)
    return level === 0 ? hashOfEntry(hash) : hash
  }
}
