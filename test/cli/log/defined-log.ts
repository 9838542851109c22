// A log of journal entries in memory, as RFC 9162 defines it, which a test can fork and truncate.

import { signCheckpoint } from '../../../shared/evidence/checkpoint.ts'
import { entryHash, GENESIS, type JournalEntry } from '../../../shared/evidence/journal.ts'
import type { Tile } from '../../../shared/evidence/tiles.ts'
import { ok } from '../../../shared/result.ts'
import { EDGE } from '../../shared/evidence.ts'
import { MerkleDefinition } from '../../support/merkle-definition.ts'

export const ORIGIN = 'edge.example/acme'

/** A journal of this many entries, of which `change` may be others. */
export function journal(count: number, change: (seq: number) => object = () => ({})): JournalEntry[] {
  const entries: JournalEntry[] = []
  for (let seq = 1; seq <= count; seq++) {
    const prev = entries.at(-1)?.hash ?? GENESIS.hash
    const body = { days: seq, ...change(seq) }
    const entry = { seq, at_ms: 1, kind: 'retention.put', call: null, body, prev }
    entries.push({ ...entry, hash: entryHash(entry) })
  }
  return entries
}

/** A log with these leaves. */
export class DefinedLog {
  readonly #tree: MerkleDefinition
  readonly #hashes: readonly string[]

  constructor(entries: readonly { readonly hash: string }[]) {
    this.#hashes = entries.map(({ hash }) => hash)
    this.#tree = new MerkleDefinition(this.#hashes.map((hash) => Buffer.from(hash, 'hex')))
  }

  note(size = this.#hashes.length, signer = EDGE, origin = ORIGIN): string {
    return signCheckpoint({ origin, size, root: this.root(size) }, signer)
  }

  root(size: number): string {
    return this.#tree.hash(0, size)
  }

  /** The proof that the log of `m` leaves is the beginning of the log of `n` leaves. */
  proof(m: number, n: number): string[] {
    return this.#tree.proof(m, n)
  }

  readonly readTile = async ({ level, index, width }: Tile) => {
    const places = Array.from({ length: width }, (_, i) => index * 256 + i)
    const at = (i: number) =>
      level === 'entries'
        ? `0020${this.#hashes[i]}`
        : this.#tree.hash(i * 256 ** level, (i + 1) * 256 ** level)
    return ok(Buffer.from(places.map(at).join(''), 'hex'))
  }
}
