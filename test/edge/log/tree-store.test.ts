// Promise: the log's root, tiles and proofs are those that RFC 9162 and C2SP tlog-tiles define over
// the hashes of the journal entries that it was given, each of which it appends once.

import { createHash } from 'node:crypto'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { ROOT } from '../../../infra/state.ts'
import { callId, splitId } from '../../../shared/ids.ts'
import { MerkleDefinition } from '../../support/merkle-definition.ts'
import { newDatabase } from '../../support/stack/object-storage.ts'

type Leaf = { readonly seq: number; readonly hash: string; readonly call: string }
type Tile = { readonly level: number | 'entries'; readonly index: number; readonly width: number }
/** By a variable path, because the type check of tests lacks the types of workerd that stores need. */
const { LogTree } = (await import(/* @vite-ignore */ join(ROOT, 'edge/log/tree-store.ts'))) as {
  LogTree: new (
    db: unknown,
  ) => {
    size: number
    append: (size: number, run: string, ends: readonly object[]) => number
    root: () => string
    leafOf: (call: string) => { index: number; hash: string } | undefined
    inclusion: (index: number, size: number) => string[]
    consistency: (m: number, n: number) => string[] | undefined
    tile: (tile: Tile) => Buffer | undefined
  }
}

const RUN = 'run_01KA5XJ3M0000000000000000A'
const OTHER = 'run_01KA5XJ3M0000000000000000B'
const rest = { agent: 'one', tool: 'echo', state: 'succeeded', at: 1, took: 1, shadow: null }
const end = (run: string, n: number): Leaf & typeof rest => ({
  ...rest,
  seq: 2 * n,
  call: callId(run, n),
  hash: createHash('sha256').update(`${run} ${n}`).digest('hex'),
})
const ends = (run: string, count: number) => Array.from({ length: count }, (_, i) => end(run, i + 1))

const db = newDatabase('log')
const tree = new LogTree(db)
const roots: string[] = []
const all = [...ends(RUN, 520), ...ends(OTHER, 80)]
for (const leaf of all) {
  roots[tree.size] = tree.root()
  tree.size = tree.append(tree.size, splitId(leaf.call).run, [leaf])
}
roots[tree.size] = tree.root()
const defined = new MerkleDefinition(all.map(({ hash }) => Buffer.from(hash, 'hex')))

test('the root of every size is that of the RFC’s definition', () => {
  expect(roots).toEqual(Array.from({ length: 601 }, (_, size) => defined.hash(0, size)))
})

test('an end that is delivered again is not appended again', () => {
  expect(tree.append(tree.size, RUN, ends(RUN, 520).slice(-3))).toBe(600)
  expect(tree.append(tree.size, OTHER, [])).toBe(600)
})

test('an object that starts again goes on where its log ended', () => {
  const again = new LogTree(db)
  expect([again.size, again.root()]).toEqual([600, roots[600]])
})

test('proofs of inclusion and consistency are those of the RFC’s definition', () => {
  for (const index of [0, 1, 255, 256, 519, 520, 599]) {
    const { call = '', hash = '' } = all[index] ?? {}
    expect(tree.leafOf(call)).toEqual({ index, hash })
    expect(tree.inclusion(index, 600)).toEqual(defined.path(index, 600))
  }
  expect(tree.leafOf(callId(RUN, 521))).toBeUndefined()
  for (const [m, n] of [
    [0, 600],
    [1, 2],
    [255, 256],
    [256, 257],
    [256, 600],
    [599, 600],
    [600, 600],
  ] as const)
    expect(tree.consistency(m, n)).toEqual(defined.proof(m, n))
  expect(tree.consistency(2, 1)).toBeUndefined()
  expect(tree.consistency(1, 601)).toBeUndefined()
})

test('tiles have the hashes of their level, at most as many as the log has', () => {
  const hashesAt = (level: number, index: number, width: number) =>
    Buffer.concat(
      Array.from({ length: width }, (_, i) => {
        const begin = (index * 256 + i) * 256 ** level
        return Buffer.from(defined.hash(begin, begin + 256 ** level), 'hex')
      }),
    )
  for (const [level, index, width] of [
    [0, 0, 256],
    [0, 1, 256],
    [0, 2, 88],
    [0, 2, 1],
    [1, 0, 2],
    [1, 0, 1],
  ] as const)
    expect(tree.tile({ level, index, width })).toEqual(hashesAt(level, index, width))
  const bundle = all.slice(512).map(({ hash }) => `0020${hash}`)
  expect(tree.tile({ level: 'entries', index: 2, width: 88 })?.toString('hex')).toBe(bundle.join(''))
  for (const [level, index, width] of [
    [0, 2, 89],
    [0, 2, 256],
    [0, 3, 1],
    [1, 0, 3],
    [2, 0, 1],
    ['entries', 2, 89],
  ] as const)
    expect(tree.tile({ level, index, width })).toBeUndefined()
})
