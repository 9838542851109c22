// The Merkle tree as RFC 9162 §2.1 defines it, recursively over a list of entries: slow, and shares
// no code with what it is compared with. Hashes are hex.

import { createHash } from 'node:crypto'

const sha256 = (...parts: readonly Uint8Array[]): string =>
  createHash('sha256').update(Buffer.concat(parts)).digest('hex')
const bytes = (hash: string): Buffer => Buffer.from(hash, 'hex')

/** Half of the smallest power of two that is at least n. */
function split(n: number): number {
  let k = 1
  while (2 * k < n) k *= 2
  return k
}

/** `begin` and `end` bound the entries D[begin:end]. */
export class MerkleDefinition {
  readonly #entries: readonly Buffer[]
  readonly #hashes = new Map<string, string>()

  constructor(entries: readonly Buffer[]) {
    this.#entries = entries
  }

  /** MTH(D[begin:end]) */
  hash(begin: number, end: number): string {
    const key = `${begin}-${end}`
    const known = this.#hashes.get(key)
    if (known !== undefined) return known
    const hash = this.#computed(begin, end)
    this.#hashes.set(key, hash)
    return hash
  }

  #computed(begin: number, end: number): string {
    if (begin === end) return sha256()
    if (end - begin === 1) return sha256(Buffer.of(0), this.#entries[begin] ?? Buffer.alloc(0))
    const middle = begin + split(end - begin)
    return sha256(Buffer.of(1), bytes(this.hash(begin, middle)), bytes(this.hash(middle, end)))
  }

  /** PATH(m, D[begin:end]) */
  path(m: number, end: number, begin = 0): string[] {
    if (end - begin <= 1) return []
    const k = split(end - begin)
    return m < k
      ? [...this.path(m, begin + k, begin), this.hash(begin + k, end)]
      : [...this.path(m - k, end, begin + k), this.hash(begin, begin + k)]
  }

  /** PROOF(m, D[0:end]); empty if m is 0, which the RFC leaves open. */
  proof(m: number, end: number): string[] {
    return m === 0 ? [] : this.#subproof(m, 0, end, true)
  }

  #subproof(m: number, begin: number, end: number, isWhole: boolean): string[] {
    if (m === end - begin) return isWhole ? [] : [this.hash(begin, end)]
    const k = split(end - begin)
    return m <= k
      ? [...this.#subproof(m, begin, begin + k, isWhole), this.hash(begin + k, end)]
      : [...this.#subproof(m - k, begin + k, end, false), this.hash(begin, begin + k)]
  }
}
