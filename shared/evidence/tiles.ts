// The tiles in which a log serves its tree and its entries (C2SP tlog-tiles): their paths, their
// bytes, and computing with nodes that are read from tiles. Pure. A reader trusts no tile: only what
// is computed from tiles and verified against a signed checkpoint counts.

import { PATTERNS } from '../ids.ts'
import type { Result } from '../result.ts'
import { ok } from '../result.ts'
import { leafHash, nodeHash, type ReadNode } from './merkle.ts'

/** A tile is a subtree of this height, so it has up to 256 hashes of the level below it. */
export const TILE_HEIGHT = 8
export const TILE_WIDTH = 256
const HASH_BYTES = 32
/** An entry in its bundle: its length in two bytes, and the 32 bytes of the journal's hash. */
const ENTRY_BYTES = 2 + HASH_BYTES

/** `level`: `entries` for a bundle of entries. `width`: less than `TILE_WIDTH` if the tile is partial. */
export type Tile = { readonly level: number | 'entries'; readonly index: number; readonly width: number }

/** Three digits in each element, and an `x` in front of all but the last: 1234067 is `x001/x234/067`. */
function indexPath(index: number): string {
  const digits = String(index)
  const padded = digits.padStart(Math.ceil(digits.length / 3) * 3, '0')
  return padded.replace(/\d{3}(?=\d)/g, 'x$&/')
}

export const tilePath = ({ level, index, width }: Tile): string =>
  `${level}/${indexPath(index)}${width === TILE_WIDTH ? '' : `.p/${width}`}`

const PATH = /^(entries|[0-9]{1,2})\/((?:x[0-9]{3}\/){0,3}[0-9]{3})(?:\.p\/([0-9]{1,3}))?$/
const MAX_LEVEL = 63

/** Reads the part of a path after `tile/`; undefined unless it is the one path of a tile. */
export function parseTilePath(path: string): Tile | undefined {
  const [, name = '', elements = '', partial] = PATH.exec(path) ?? []
  const level = name === 'entries' ? ('entries' as const) : Number(name)
  const width = partial === undefined ? TILE_WIDTH : Number(partial)
  const tile: Tile = { level, index: Number(elements.replace(/[x/]/g, '')), width }
  const isTile = width >= 1 && width <= TILE_WIDTH && (level === 'entries' || level <= MAX_LEVEL)
  return isTile && tilePath(tile) === path ? tile : undefined
}

/** How many hashes the tile has in a log of this size: 0 if the log has not reached it. */
export function widthIn(size: number, { level, index }: Omit<Tile, 'width'>): number {
  const nodes = Math.floor(size / (level === 'entries' ? 1 : TILE_WIDTH ** level))
  return Math.min(Math.max(nodes - index * TILE_WIDTH, 0), TILE_WIDTH)
}

/** The bundle of these entries, which are journal hashes in hex. */
export const entryBundle = (entries: readonly string[]): Buffer =>
  Buffer.concat(entries.flatMap((hash) => [Buffer.of(0, HASH_BYTES), Buffer.from(hash, 'hex')]))

/** The tile of these hashes in hex. */
export const hashTile = (hashes: readonly string[]): Buffer => Buffer.from(hashes.join(''), 'hex')

/** The journal hashes of a bundle of `width` entries; undefined if the bytes are not that. */
export function entriesIn(bytes: Uint8Array, width: number): string[] | undefined {
  const hashes = Array.from({ length: width }, (_, i) =>
    Buffer.from(bytes.subarray(i * ENTRY_BYTES + 2, (i + 1) * ENTRY_BYTES)).toString('hex'),
  )
  const isBundle = hashes.every((hash) => PATTERNS.sha256.test(hash))
  return isBundle && entryBundle(hashes).equals(bytes) ? hashes : undefined
}

/** The number of bytes of a tile. */
export const tileBytes = ({ level, width }: Tile): number =>
  width * (level === 'entries' ? ENTRY_BYTES : HASH_BYTES)

/** Returns the bytes of a tile, which are as many as `tileBytes` says. */
export type ReadTile<E> = (tile: Tile) => Promise<Result<Uint8Array, E>>

/**
 * Computes something from the nodes of a log of `size` leaves, such as a proof. `compute` runs twice,
 * because it reads nodes synchronously and tiles are fetched: once to learn which tiles it needs, and
 * again when they are there.
 */
export async function overTiles<T, E>(
  size: number,
  readTile: ReadTile<E>,
  compute: (read: ReadNode) => T,
): Promise<Result<T, E>> {
  const needed = new Map<string, Tile>()
  compute((level, index) => {
    const { tile } = placeOf(level, index, size)
    needed.set(tilePath(tile), tile)
    return ''
  })
  const tiles = new Map<string, Uint8Array>()
  for (const [path, tile] of needed) {
    const bytes = await readTile(tile)
    if (!bytes.ok) return bytes
    tiles.set(path, bytes.value)
  }
  return ok(
    compute((level, index) => {
      const { tile, begin, count } = placeOf(level, index, size)
      const bytes = tiles.get(tilePath(tile)) ?? new Uint8Array()
      return subtreeHash(bytes.subarray(begin * HASH_BYTES, (begin + count) * HASH_BYTES))
    }),
  )
}

/** The tile that has the node, and the hashes in it that the node covers. */
function placeOf(level: number, index: number, size: number) {
  const tileLevel = Math.floor(level / TILE_HEIGHT)
  const count = 2 ** (level % TILE_HEIGHT)
  const first = index * count
  const at = { level: tileLevel, index: Math.floor(first / TILE_WIDTH) }
  return { tile: { ...at, width: widthIn(size, at) }, begin: first % TILE_WIDTH, count }
}

/** The hash over these hashes, a power of two of them. */
function subtreeHash(bytes: Uint8Array): string {
  let row = Array.from({ length: bytes.byteLength / HASH_BYTES }, (_, i) =>
    Buffer.from(bytes.subarray(i * HASH_BYTES, (i + 1) * HASH_BYTES)).toString('hex'),
  )
  while (row.length > 1)
    row = Array.from({ length: row.length / 2 }, (_, i) => nodeHash(row[2 * i] ?? '', row[2 * i + 1] ?? ''))
  return row[0] ?? ''
}

/** The hash of the leaf with this journal hash. */
export const hashOfEntry = (journalHash: string): string => leafHash(Buffer.from(journalHash, 'hex'))
