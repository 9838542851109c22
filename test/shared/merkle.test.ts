// Promise: the Merkle tree agrees with RFC 6962 for every size up to 130, and altered proofs are
// refused.

import { createHash } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import type { ReadNode } from '../../shared/evidence/merkle.ts'
import {
  append,
  consistency,
  EMPTY_ROOT,
  inclusion,
  leafHash,
  root,
  verifyConsistency,
  verifyInclusion,
} from '../../shared/evidence/merkle.ts'

const SIZES = 130

/** A store like the log's: each node is written once, as `append` returns it. */
function grow(leaves: readonly string[]): ReadNode {
  const nodes = new Map<string, string>()
  const read: ReadNode = (level, index) => {
    const hash = nodes.get(`${level}/${index}`)
    if (hash === undefined) throw new Error(`node ${level}/${index} was read before it was written`)
    return hash
  }
  for (const [size, leaf] of leaves.entries()) {
    for (const { level, index, hash } of append(size, leaf, read)) {
      if (nodes.has(`${level}/${index}`)) throw new Error(`node ${level}/${index} was written twice`)
      nodes.set(`${level}/${index}`, hash)
    }
  }
  return read
}

/** The definition of RFC 6962 §2.1 over raw entries, to compare the incremental tree with. */
function definition(entries: readonly Buffer[]): Buffer {
  const sha256 = (...parts: readonly Uint8Array[]) =>
    createHash('sha256').update(Buffer.concat(parts)).digest()
  if (entries.length === 0) return sha256()
  const [only] = entries
  if (entries.length === 1 && only !== undefined) return sha256(Buffer.of(0), only)
  let k = 1
  while (k * 2 < entries.length) k *= 2
  return sha256(Buffer.of(1), definition(entries.slice(0, k)), definition(entries.slice(k)))
}

// The inputs and results that Certificate Transparency implementations share.
const KNOWN_ENTRIES = [
  '',
  '00',
  '10',
  '2021',
  '3031',
  '40414243',
  '5051525354555657',
  '606162636465666768696a6b6c6d6e6f',
]
const KNOWN_ROOTS = [
  'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855',
  '6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d',
  'fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125',
  'aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77',
  'd37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7',
  '4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4',
  '76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef',
  'ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c',
  '5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328',
]

const entries = Array.from({ length: SIZES + 1 }, (_, i) => Buffer.from(`entry ${i}`))
const leaves = entries.map((entry) => leafHash(entry))
const read = grow(leaves)
const roots = Array.from({ length: SIZES + 1 }, (_, size) => root(size, read))
const at = <T>(list: readonly T[], index: number): T => {
  const item = list[index]
  if (item === undefined) throw new Error(`no item ${index}`)
  return item
}

describe('roots', () => {
  test('the roots of known trees are those that other implementations compute', () => {
    const known = grow(KNOWN_ENTRIES.map((hex) => leafHash(Buffer.from(hex, 'hex'))))
    expect(KNOWN_ROOTS.map((_, size) => root(size, known))).toEqual(KNOWN_ROOTS)
    expect(EMPTY_ROOT).toBe(KNOWN_ROOTS[0])
  })

  test('the root of every size equals the definition’s', () => {
    for (const [size, hash] of roots.entries())
      expect(hash).toBe(definition(entries.slice(0, size)).toString('hex'))
  })

  test('an entry that consists of two hashes does not have the hash of their parent node', () => {
    const forged = leafHash(Buffer.from(at(leaves, 0) + at(leaves, 1), 'hex'))
    expect(forged).not.toBe(at(roots, 2))
  })
})

/** The true claim that a leaf is in the tree of this size. */
const claimOf = (index: number, size: number) => ({
  leaf: at(leaves, index),
  index,
  size,
  root: at(roots, size),
  proof: inclusion(index, size, read),
})

describe('inclusion', () => {
  test('the inclusion of every leaf in every tree can be proven', () => {
    for (let size = 1; size <= SIZES; size++) {
      for (let index = 0; index < size; index++) {
        const claim = claimOf(index, size)
        if (!verifyInclusion(claim)) throw new Error(`leaf ${index} of ${size} is not proven`)
      }
    }
  })

  test('an inclusion proof with any part changed is refused', () => {
    const other = leafHash('another')
    for (let size = 1; size <= 40; size++) {
      for (let index = 0; index < size; index++) {
        const claim = claimOf(index, size)
        const { proof } = claim
        const lies = [
          { ...claim, leaf: other },
          { ...claim, root: other },
          { ...claim, index: index + 1 },
          { ...claim, index: index - 1 },
          { ...claim, index: index + 0.5 },
          { ...claim, index: index + size },
          { ...claim, size: 0 },
          { ...claim, proof: [...proof, other] },
          { ...claim, proof: [other, ...proof] },
          { ...claim, root: claim.root.toUpperCase() },
          ...proof.map((_, i) => ({ ...claim, proof: proof.with(i, other) })),
          ...proof.map((_, i) => ({ ...claim, proof: proof.toSpliced(i, 1) })),
          ...proof.map((hash, i) => ({ ...claim, proof: proof.with(i, hash.slice(2)) })),
        ]
        for (const lie of lies) if (verifyInclusion(lie)) throw new Error(`believed ${JSON.stringify(lie)}`)
      }
    }
  })

  test('an inclusion proof is refused for the root of another size', () => {
    for (let size = 1; size <= 40; size++) {
      for (let index = 0; index < size; index++) {
        for (let other = 1; other <= 40; other++) {
          if (other === size) continue
          const claim = { ...claimOf(index, size), size: other, root: at(roots, other) }
          const genuine = index < other && inclusion(index, other, read).join() === claim.proof.join()
          if (verifyInclusion(claim) !== genuine)
            throw new Error(`leaf ${index}, proof of ${size}, tree of ${other}`)
        }
      }
    }
  })
})

describe('consistency', () => {
  test('every tree can be proven to extend every smaller one', () => {
    for (let n = 0; n <= SIZES; n++) {
      for (let m = 0; m <= n; m++) {
        const claim = { m, rootM: at(roots, m), n, rootN: at(roots, n), proof: consistency(m, n, read) }
        if (!verifyConsistency(claim)) throw new Error(`${m} is not proven a beginning of ${n}`)
      }
    }
  })

  test('a tree with a replaced, removed or swapped leaf can’t be proven to extend the original', () => {
    for (const n of [2, 3, 7, 8, 9, 16, 21]) {
      const histories = [
        ...Array.from({ length: n }, (_, i) => leaves.slice(0, n).with(i, leafHash('rewritten'))),
        ...Array.from({ length: n }, (_, i) => leaves.slice(0, n + 1).toSpliced(i, 1)),
        ...Array.from({ length: n - 1 }, (_, i) =>
          leaves
            .slice(0, n)
            .with(i, at(leaves, i + 1))
            .with(i + 1, at(leaves, i)),
        ),
      ]
      for (const history of histories) {
        const forged = grow(history)
        for (let m = 1; m <= n; m++) {
          const same = root(m, forged) === at(roots, m)
          const claim = {
            m,
            rootM: at(roots, m),
            n,
            rootN: root(n, forged),
            proof: consistency(m, n, forged),
          }
          if (verifyConsistency(claim) !== same) throw new Error(`${m} of ${n}: ${JSON.stringify(claim)}`)
        }
      }
    }
  })

  test('a consistency proof is refused for other sizes', () => {
    for (let n = 1; n <= 40; n++) {
      for (let m = 1; m < n; m++) {
        const claim = { m, rootM: at(roots, m), n, rootN: at(roots, n), proof: consistency(m, n, read) }
        for (let other = m + 1; other <= 40; other++) {
          if (other === n) continue
          if (verifyConsistency({ ...claim, n: other, rootN: at(roots, other) }))
            throw new Error(`${m} of ${n} as of ${other}`)
          // The size is signed together with the root, so only a dishonest signer could combine a
          // root with another size; a tree of another depth is detected even then.
          const deeper = Math.ceil(Math.log2(other)) > Math.ceil(Math.log2(n))
          if (deeper && verifyConsistency({ ...claim, n: other }))
            throw new Error(`${m} of ${n} as of ${other}, with its own root`)
        }
      }
    }
  })

  test('a consistency proof with any part changed is refused', () => {
    const other = leafHash('another')
    for (let n = 1; n <= 40; n++) {
      for (let m = 0; m <= n; m++) {
        const claim = { m, rootM: at(roots, m), n, rootN: at(roots, n), proof: consistency(m, n, read) }
        const { proof } = claim
        const lies = [
          { ...claim, rootM: other },
          ...(m === 0 ? [] : [{ ...claim, rootN: other }]), // every tree begins with the empty one
          { ...claim, m: n + 1 },
          { ...claim, m: m + 0.5 },
          { ...claim, proof: [...proof, other] },
          { ...claim, proof: [other, ...proof] },
          ...proof.map((_, i) => ({ ...claim, proof: proof.with(i, other) })),
          ...proof.map((_, i) => ({ ...claim, proof: proof.toSpliced(i, 1) })),
          ...(m === n || m === 0
            ? []
            : [
                { ...claim, m: n },
                { ...claim, m: 0 },
                { ...claim, n: m },
              ]),
        ]
        for (const lie of lies) if (verifyConsistency(lie)) throw new Error(`believed ${JSON.stringify(lie)}`)
      }
    }
  })
})
