// Promise: the end of every call is in the tenant's log, and anybody can check that with the edge's
// public key alone: the signed head, the proof that an end is included, and that the log only grew.

import { expect, test } from 'vitest'
import { verifyCheckpoint } from '../../shared/evidence/checkpoint.ts'
import type { ReadNode } from '../../shared/evidence/merkle.ts'
import {
  append,
  consistency,
  leafHash,
  root,
  verifyConsistency,
  verifyInclusion,
} from '../../shared/evidence/merkle.ts'
import { bearer, client } from '../../shared/routes/client.ts'
import { sharedStack } from '../support/stack/stack.ts'

const { url, agent_key, keys } = sharedStack()
const agent = client(url, bearer(agent_key))
const anyone = client(url)
const WITHIN_MS = 15_000

/** The value of a successful answer; throws the edge's error otherwise. */
async function value<T>(asked: Promise<{ ok: true; value: T } | { ok: false; error: unknown }>): Promise<T> {
  const answer = await asked
  if (!answer.ok) throw new Error(JSON.stringify(answer.error))
  return answer.value
}

async function entries(): Promise<string[]> {
  const all: string[] = []
  for (;;) {
    const { items } = await value(anyone('logEntries', { query: { from: all.length } }))
    if (items.length === 0) return all
    all.push(...items)
  }
}

/** The log's head, verified by its signature. */
async function head(): Promise<{ readonly size: number; readonly root: string }> {
  const { origin, note } = await value(anyone('logCheckpoint', {}))
  const edge = keys.keys.find(({ role }) => role === 'edge')
  const read = verifyCheckpoint(note, origin, edge?.x ?? '')
  if (!read.ok) throw new Error(read.error)
  return read.value
}

/** Runs a call and waits until its end is in the log; returns its index and leaf. */
async function logged(
  tool: string,
  args: Record<string, unknown>,
): Promise<{ readonly index: number; readonly leaf: string }> {
  const call = await value(agent('proposeCallInNewRun', { body: { tool, args }, wait: 30 }))
  expect(call.ended_at_ms).toBeDefined()
  const journal = await value(agent('readJournal', { params: { run: call.run } }))
  const hash = journal.items.at(-1)?.hash ?? ''
  const deadline = Date.now() + WITHIN_MS
  for (;;) {
    const index = (await entries()).indexOf(hash)
    if (index >= 0) return { index, leaf: leafHash(Buffer.from(hash, 'hex')) }
    if (Date.now() > deadline)
      throw new Error(`the end of ${call.id} is not in the log after ${WITHIN_MS} ms`)
  }
}

function tree(hashes: readonly string[]): ReadNode {
  const nodes = new Map<string, string>()
  const read: ReadNode = (level, index) => nodes.get(`${level}/${index}`) ?? ''
  for (const [size, hash] of hashes.entries())
    for (const node of append(size, leafHash(Buffer.from(hash, 'hex')), read))
      nodes.set(`${node.level}/${node.index}`, node.hash)
  return read
}

test('the ends of a succeeded and of a denied call are included under the signed head, and the log only grew', async () => {
  const before = await head()
  const ends = [await logged('text_stats', { text: 'x' }), await logged('process_run', { command: 'sudo' })]
  const after = await head()
  expect(after.size).toBeGreaterThanOrEqual(before.size + 2)

  for (const { index, leaf } of ends) {
    const { proof, leaf: provenLeaf } = await value(
      anyone('logProof', { query: { index, size: after.size } }),
    )
    expect(provenLeaf).toBe(leaf)
    expect(verifyInclusion({ leaf, index, size: after.size, root: after.root, proof })).toBe(true)
    expect(
      verifyInclusion({ leaf, index: (index + 1) % after.size, size: after.size, root: after.root, proof }),
    ).toBe(false)
  }

  const read = tree((await entries()).slice(0, after.size))
  expect(root(after.size, read)).toBe(after.root)
  expect(root(before.size, read)).toBe(before.root)
  const proof = consistency(before.size, after.size, read)
  expect(
    verifyConsistency({ m: before.size, rootM: before.root, n: after.size, rootN: after.root, proof }),
  ).toBe(true)
})

test('an index outside the log, or a size beyond it, has no proof', async () => {
  const { size } = await head()
  for (const query of [
    { index: size, size },
    { index: 0, size: size + 1_000_000 },
  ])
    expect(await anyone('logProof', { query })).toMatchObject({ ok: false, error: { status: 404 } })
})
