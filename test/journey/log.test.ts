// Promise: the end of every call is in the tenant's log, and anybody can check that with the edge's
// public key alone: the signed head, the proof that an end is included, and that the log only grew.

import { expect, test } from 'vitest'
import { verifyCheckpoint } from '../../shared/evidence/checkpoint.ts'
import {
  consistency,
  leafHash,
  root,
  verifyConsistency,
  verifyInclusion,
} from '../../shared/evidence/merkle.ts'
import { overTiles, type Tile, tilePath } from '../../shared/evidence/tiles.ts'
import { bearer, client } from '../../shared/routes/client.ts'
import type { Call } from '../../shared/wire/calls.ts'
import { eventually } from '../support/eventually.ts'
import { refusalOf, unwrap } from '../support/fixtures.ts'
import { logHashes, logHead } from '../support/log-reader.ts'
import { MerkleDefinition } from '../support/merkle-definition.ts'
import { sharedStack } from '../support/stack/stack.ts'

const { url, agent_key, keys } = sharedStack()
const agent = client(url, bearer(agent_key))
const anyone = client(url)
const tenant = 'default'
const { origin } = await logHead(anyone)

/** Reads a checkpoint that the edge has signed. */
function verified(note: string): { readonly size: number; readonly root: string } {
  const edge = keys.keys.find(({ role }) => role === 'edge')
  const read = verifyCheckpoint(note, origin, edge?.x ?? '')
  if (!read.ok) throw new Error(read.error)
  return read.value
}
const head = async () => verified(unwrap(await anyone('logCheckpoint', { params: { tenant } })))
const readTile = (tile: Tile) => anyone('logTile', { params: { tenant, tile: tilePath(tile) } })

/** Runs a call until its end is in the log; returns the proof of that. */
async function logged(tool: string, args: Record<string, unknown>) {
  const call: Call = unwrap(await agent('proposeCallInNewRun', { body: { tool, args }, wait: 30 }))
  expect(call.ended_at_ms).toBeDefined()
  const journal = unwrap(await agent('readJournal', { params: { run: call.run } }))
  const proven = await eventually(`the end of ${call.id} is in the log`, async () => {
    const answer = await anyone('logProof', { params: { tenant, call: call.id } })
    return answer.ok ? answer.value : undefined
  })
  expect(proven.hash).toBe(journal.items.at(-1)?.hash)
  return proven
}

test('the ends of a succeeded and of a denied call are included under the signed head, and the log only grew', async () => {
  const before = await head()
  const ends = [await logged('text_stats', { text: 'x' }), await logged('process_run', { command: 'sudo' })]
  const after = await head()
  expect(after.size).toBeGreaterThanOrEqual(before.size + 2)

  for (const { index, hash, proof, checkpoint } of ends) {
    const signed = verified(checkpoint)
    const leaf = leafHash(Buffer.from(hash, 'hex'))
    expect(verifyInclusion({ leaf, index, ...signed, proof })).toBe(true)
    expect(verifyInclusion({ leaf, index: index + 1, ...signed, proof })).toBe(false)
  }

  const entries = (await logHashes(anyone)).slice(0, after.size)
  const defined = new MerkleDefinition(entries.map((hash) => Buffer.from(hash, 'hex')))
  expect(defined.hash(0, after.size)).toBe(after.root)
  expect(defined.hash(0, before.size)).toBe(before.root)
  expect(unwrap(await overTiles(after.size, readTile, (read) => root(after.size, read)))).toBe(after.root)
  const proof = unwrap(
    await overTiles(after.size, readTile, (read) => consistency(before.size, after.size, read)),
  )
  expect(
    verifyConsistency({ m: before.size, rootM: before.root, n: after.size, rootN: after.root, proof }),
  ).toBe(true)
})

test('caches may keep a tile for ever, and a checkpoint not at all', async () => {
  const tile = await fetch(new URL('/log/default/tile/0/000.p/1', url))
  expect([tile.status, tile.headers.get('content-type'), tile.headers.get('cache-control')]).toEqual([
    200,
    'application/octet-stream',
    'public, max-age=31536000, immutable',
  ])
  expect((await tile.arrayBuffer()).byteLength).toBe(32)
  const checkpoint = await fetch(new URL('/log/default/checkpoint', url))
  expect([checkpoint.headers.get('content-type'), checkpoint.headers.get('cache-control')]).toEqual([
    'text/plain; charset=utf-8',
    'no-store',
  ])
})

test('a tile that the log has not reached, or a call that it does not have, is not found', async () => {
  const tiles = [
    '0/x999/999',
    '1/x999/000.p/1',
    '63/000.p/1',
    'entries/x999/999',
    '0/000.p/256',
    'x/000',
    '0/%2e%2e%2f0/000',
  ]
  for (const tile of tiles)
    expect([tile, refusalOf(await anyone('logTile', { params: { tenant, tile } }))]).toEqual([
      tile,
      '404 not_found',
    ])
  const call = 'call_01KA5XJ3M0000000000000000A_1'
  expect(refusalOf(await anyone('logProof', { params: { tenant, call } }))).toBe('404 not_found')
})
