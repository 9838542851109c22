// The Merkle tree of RFC 6962 / RFC 9162 over SHA-256: growing it, proving with it, checking
// proofs. Pure; hashes are hex. The store keeps one hash per full subtree: `(level, index)` covers
// the 2^level leaves from index · 2^level. Full subtrees never change, so a stored node is written
// once. Sizes may exceed 32 bits: no bit operators here.

import { sha256 } from '../bytes/json.ts'

export type Node = { readonly level: number; readonly index: number; readonly hash: string }
/** Reads the stored node of a full subtree within the tree's current size. */
export type ReadNode = (level: number, index: number) => string

/** The most hashes of a proof: one for each level of a tree of any safe size. */
export const PROOF_HASHES = 64

export const EMPTY_ROOT = sha256('')

// The prefixes distinguish leaves from nodes (second preimages).
export const leafHash = (data: string | Uint8Array): string =>
  sha256(Buffer.concat([Buffer.of(0), Buffer.from(data)]))
export const nodeHash = (left: string, right: string): string =>
  sha256(Buffer.concat([Buffer.of(1), Buffer.from(left, 'hex'), Buffer.from(right, 'hex')]))

/**
 * The nodes to store when `leaf` becomes leaf number `size`: the leaf and every subtree that it
 * completes.
 */
export function append(size: number, leaf: string, read: ReadNode): Node[] {
  let node: Node = { level: 0, index: size, hash: leaf }
  const written = [node]
  while (node.index % 2 === 1) {
    const { level, index, hash }: Node = node
    node = { level: level + 1, index: (index - 1) / 2, hash: nodeHash(read(level, index - 1), hash) }
    written.push(node)
  }
  return written
}

export const root = (size: number, read: ReadNode): string =>
  size === 0 ? EMPTY_ROOT : subtree(0, size, read)

/**
 * The hash over the leaves [begin, end): read for a full subtree, otherwise computed from its two
 * parts.
 */
function subtree(begin: number, end: number, read: ReadNode): string {
  const { level, width } = smallestPower(end - begin)
  if (width === end - begin) return read(level, begin / width)
  const middle = begin + width / 2
  return nodeHash(subtree(begin, middle, read), subtree(middle, end, read))
}

/**
 * The smallest power of two that is at least `count`. Half of it splits a tree that is not full.
 */
function smallestPower(count: number): { level: number; width: number } {
  let level = 0
  let width = 1
  while (width < count) {
    level++
    width *= 2
  }
  return { level, width }
}

/**
 * The siblings on the path from leaf `index` to the root of `size` leaves, deepest first. 0 ≤ index
 * < size.
 */
export function inclusion(index: number, size: number, read: ReadNode): string[] {
  const proof: string[] = []
  let [begin, end] = [0, size]
  while (end - begin > 1) {
    const middle = begin + smallestPower(end - begin).width / 2
    if (index < middle) {
      proof.push(subtree(middle, end, read))
      end = middle
    } else {
      proof.push(subtree(begin, middle, read))
      begin = middle
    }
  }
  return proof.reverse()
}

/**
 * The hashes that rebuild both roots and so prove that the tree of `m` leaves is a prefix of that
 * of `n`. 0 ≤ m ≤ n.
 */
export function consistency(m: number, n: number, read: ReadNode): string[] {
  if (m === 0 || m === n) return []
  const proof: string[] = []
  let [begin, end] = [0, n]
  while (m < end) {
    const middle = begin + smallestPower(end - begin).width / 2
    if (m <= middle) {
      proof.push(subtree(middle, end, read))
      end = middle
    } else {
      proof.push(subtree(begin, middle, read))
      begin = middle
    }
  }
  if (begin > 0) proof.push(subtree(begin, end, read)) // otherwise it is the old root, which the verifier has
  return proof.reverse()
}

export type Inclusion = {
  readonly leaf: string
  readonly index: number
  readonly size: number
  readonly root: string
  readonly proof: readonly string[]
}

/** RFC 9162 §2.1.3.2. All input is untrusted. */
export function verifyInclusion({ leaf, index, size, root: expected, proof }: Inclusion): boolean {
  if (!isCount(index) || !isCount(size) || index >= size || !areHashes([leaf, expected, ...proof]))
    return false
  let [node, last, hash] = [index, size - 1, leaf]
  for (const sibling of proof) {
    if (last === 0) return false
    if (node % 2 === 1 || node === last) {
      hash = nodeHash(sibling, hash)
      while (node % 2 === 0 && node !== 0) [node, last] = [node / 2, half(last)] // levels where this node has no sibling
    } else {
      hash = nodeHash(hash, sibling)
    }
    ;[node, last] = [half(node), half(last)]
  }
  return last === 0 && hash === expected
}

export type Consistency = {
  readonly m: number
  readonly rootM: string
  readonly n: number
  readonly rootN: string
  readonly proof: readonly string[]
}

/** RFC 9162 §2.1.4.2, plus the two cases that it omits: m = 0 and m = n. */
export function verifyConsistency({ m, rootM, n, rootN, proof }: Consistency): boolean {
  if (!isCount(m) || !isCount(n) || m > n || !areHashes([rootM, rootN, ...proof])) return false
  if (m === 0) return proof.length === 0 && rootM === EMPTY_ROOT
  if (m === n) return proof.length === 0 && rootM === rootN
  let [node, last] = [m - 1, n - 1]
  while (node % 2 === 1) [node, last] = [half(node), half(last)]
  const path = smallestPower(m).width === m ? [rootM, ...proof] : [...proof]
  const first = path.shift()
  if (first === undefined) return false
  let [hashM, hashN] = [first, first]
  for (const sibling of path) {
    if (last === 0) return false
    if (node % 2 === 1 || node === last) {
      hashM = nodeHash(sibling, hashM)
      hashN = nodeHash(sibling, hashN)
      while (node % 2 === 0 && node !== 0) [node, last] = [node / 2, half(last)]
    } else {
      hashN = nodeHash(hashN, sibling)
    }
    ;[node, last] = [half(node), half(last)]
  }
  return last === 0 && hashM === rootM && hashN === rootN
}

const half = (count: number): number => Math.floor(count / 2)
const isCount = (value: number): boolean => Number.isSafeInteger(value) && value >= 0
const areHashes = (values: readonly string[]): boolean =>
  values.every((value) => /^[0-9a-f]{64}$/.test(value))
