// Promise: proofs and roots that are computed from tiles are those of RFC 9162, for logs around the
// widths of tiles, and a tile has exactly one path.

import { createHash } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { consistency, inclusion, root } from '../../../shared/evidence/merkle.ts'
import {
  entriesIn,
  entryBundle,
  overTiles,
  parseTilePath,
  type Tile,
  tileBytes,
  tilePath,
  widthIn,
} from '../../../shared/evidence/tiles.ts'
import { ok } from '../../../shared/result.ts'
import { MerkleDefinition } from '../../support/merkle-definition.ts'

const SIZES = [0, 1, 2, 255, 256, 257, 511, 512, 513, 65_535, 65_536, 65_537]
const LARGEST = 65_537
const entries = Array.from({ length: LARGEST }, (_, i) => createHash('sha256').update(`entry ${i}`).digest())
const tree = new MerkleDefinition(entries)

/** The tile as the specification defines it. */
function definedTile({ level, index, width }: Tile): Buffer {
  if (level === 'entries')
    return Buffer.concat(
      entries.slice(index * 256, index * 256 + width).flatMap((entry) => [Buffer.of(0, 32), entry]),
    )
  const span = 256 ** level
  const hashes = Array.from({ length: width }, (_, i) => {
    const begin = (index * 256 + i) * span
    return tree.hash(begin, begin + span)
  })
  return Buffer.from(hashes.join(''), 'hex')
}

/** Computes over the tiles of a log of this size, each of which may be read once. */
async function over<T>(size: number, compute: Parameters<typeof overTiles<T, never>>[2]): Promise<T> {
  const seen = new Set<string>()
  const read = async (tile: Tile) => {
    const path = tilePath(tile)
    if (seen.has(path)) throw new Error(`${path} is read twice`)
    seen.add(path)
    const span = tile.level === 'entries' ? 1 : 256 ** tile.level
    const full = Math.floor(size / span)
    if (tile.width < 1 || tile.index * 256 + tile.width > full)
      throw new Error(`${path} is not in a log of ${size}`)
    if (tile.width < 256 && tile.index * 256 + tile.width !== full)
      throw new Error(`${path} is not a tile of a log of ${size}`)
    return ok(definedTile(tile))
  }
  const done = await overTiles(size, read, compute)
  if (!done.ok) throw new Error('no tile is refused')
  return done.value
}

describe('what is computed from tiles', () => {
  test.each(SIZES)('the root of %i leaves is the definition’s', async (size) => {
    expect(await over(size, (read) => root(size, read))).toBe(tree.hash(0, size))
  })

  test.each(SIZES)('proofs of inclusion in %i leaves are the definition’s', async (size) => {
    const around = [0, 1, 254, 255, 256, 257, 65_535, 65_536, size - 2, size - 1]
    for (const index of new Set(around.filter((index) => index >= 0 && index < size)))
      expect(await over(size, (read) => inclusion(index, size, read))).toEqual(tree.path(index, size))
  })

  test.each(SIZES)('proofs that %i leaves continue fewer are the definition’s', async (size) => {
    for (const m of [...SIZES, 100, 300].filter((m) => m <= size))
      expect(await over(size, (read) => consistency(m, size, read))).toEqual(tree.proof(m, size))
  })

  test('a tile that can’t be read ends the computation with its error', async () => {
    const refusal = { ok: false, error: 'gone' } as const
    expect(
      await overTiles(
        300,
        async () => refusal,
        (read) => root(300, read),
      ),
    ).toEqual(refusal)
  })
})

describe('paths', () => {
  test.each([
    ['0/000', { level: 0, index: 0, width: 256 }],
    ['0/000.p/1', { level: 0, index: 0, width: 1 }],
    ['1/999.p/255', { level: 1, index: 999, width: 255 }],
    ['2/x001/000', { level: 2, index: 1_000, width: 256 }],
    ['entries/x001/x234/067', { level: 'entries', index: 1_234_067, width: 256 }],
    ['63/x001/x234/067.p/8', { level: 63, index: 1_234_067, width: 8 }],
  ] as const)('%s is the path of one tile', (path, tile) => {
    expect(tilePath(tile)).toBe(path)
    expect(parseTilePath(path)).toEqual(tile)
  })

  test.each([
    '',
    '0',
    '0/',
    '0/0',
    '0/00',
    '0/0000',
    '0/x000',
    '0/x000/000',
    '0/001/000',
    '0/x001/x000',
    '00/000',
    '64/000',
    '-1/000',
    '1.0/000',
    '0/000.p/0',
    '0/000.p/01',
    '0/000.p/256',
    '0/000.p',
    '0/000.p/',
    '0/000/p/1',
    '0/000 ',
    ' 0/000',
    '0/000\n',
    '0//000',
    'entry/000',
    'Entries/000',
    '0/x001/x001/x001/x001/001',
    '0/../000',
    '٠/000',
  ])('`%s` is the path of no tile', (path) => {
    expect(parseTilePath(path)).toBeUndefined()
  })

  test('the widths of the tiles of 70,000 leaves are those of the specification’s example', () => {
    const widths = ([level, index]: readonly [Tile['level'], number]) => widthIn(70_000, { level, index })
    const places = [
      ['entries', 273],
      [0, 272],
      [0, 273],
      [0, 274],
      [1, 0],
      [1, 1],
      [1, 2],
      [2, 0],
      [2, 1],
      [3, 0],
    ] as const
    expect(places.map(widths)).toEqual([112, 256, 112, 0, 256, 17, 0, 1, 0, 0])
  })
})

describe('bundles of entries', () => {
  const hashes = entries.slice(0, 3).map((entry) => entry.toString('hex'))
  const bundle = Buffer.concat(entries.slice(0, 3).flatMap((entry) => [Buffer.of(0, 32), entry]))

  test('a bundle has a length and the 32 bytes of a journal hash for each entry', () => {
    expect(entryBundle(hashes)).toEqual(bundle)
    expect(entriesIn(bundle, 3)).toEqual(hashes)
    expect(tileBytes({ level: 'entries', index: 0, width: 3 })).toBe(bundle.length)
    expect(tileBytes({ level: 1, index: 0, width: 3 })).toBe(96)
  })

  test('a bundle with other lengths or another number of entries is refused', () => {
    const changed = (at: number, to: number) => {
      const bytes = Buffer.from(bundle)
      bytes[at] = to
      return bytes
    }
    for (const bytes of [
      bundle.subarray(1),
      bundle.subarray(0, -1),
      Buffer.concat([bundle, Buffer.of(0)]),
      changed(0, 1),
      changed(35, 31),
      Buffer.alloc(0),
    ])
      expect(entriesIn(bytes, 3)).toBeUndefined()
    expect(entriesIn(bundle, 2)).toBeUndefined()
    expect(entriesIn(bundle, 4)).toBeUndefined()
  })
})
