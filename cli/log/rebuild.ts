// Rebuilds the tree of a log from its entries, one after the other, and keeps only the right edge of
// the tree.

import { append, type Node, root } from '../../shared/evidence/merkle.ts'
import { entriesIn, hashOfEntry, type ReadTile, TILE_WIDTH, widthIn } from '../../shared/evidence/tiles.ts'
import { err, ok, type Result } from '../../shared/result.ts'
import { type Trouble, trouble } from '../shell/command.ts'

export class RebuiltLog {
  size = 0
  readonly #readTile: ReadTile<Trouble>
  readonly #onLeaf: (hash: string, index: number) => void
  /** The last full subtree of each level. */
  readonly #edge: Node[] = []
  readonly #roots = new Map<number, string>()

  /** `onLeaf` gets the journal hash of each leaf. `sizes`: those whose root will be asked for. */
  constructor(
    readTile: ReadTile<Trouble>,
    sizes: readonly number[],
    onLeaf: (hash: string, index: number) => void,
  ) {
    this.#readTile = readTile
    this.#onLeaf = onLeaf
    for (const size of sizes) this.#roots.set(size, '')
    this.#noteRoot()
  }

  /** Reads further entries until the log has `size` leaves. */
  async growTo(size: number): Promise<Result<true, Trouble>> {
    this.#roots.set(size, this.#roots.get(size) ?? '')
    this.#noteRoot()
    while (this.size < size) {
      const at = { level: 'entries', index: Math.floor(this.size / TILE_WIDTH) } as const
      const tile = { ...at, width: widthIn(size, at) }
      const bytes = await this.#readTile(tile)
      if (!bytes.ok) return bytes
      const hashes = entriesIn(bytes.value, tile.width)
      if (hashes === undefined)
        return err(trouble('unreadable', `bundle ${at.index} of the log’s entries is malformed`))
      for (const hash of hashes.slice(this.size % TILE_WIDTH)) this.#add(hash)
    }
    return ok(true)
  }

  #add(hash: string): void {
    this.#onLeaf(hash, this.size)
    for (const node of append(this.size, hashOfEntry(hash), this.#read)) this.#edge[node.level] = node
    this.size++
    this.#noteRoot()
  }

  readonly #read = (level: number): string => this.#edge[level]?.hash ?? ''

  #noteRoot(): void {
    if (this.#roots.has(this.size)) this.#roots.set(this.size, root(this.size, this.#read))
  }

  /** The root of a size that was announced and has been reached. */
  rootOf(size: number): string | undefined {
    return this.#roots.get(size) || undefined
  }
}
