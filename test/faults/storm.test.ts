// Promise: `kill -9` of worker, Redis and workerd at random moments, while 300 calls run, loses none and runs none twice (L2, L4, L5).
// Whether a call ran is told by the line that its process appends to a file of its run on the worker's host, which only the test reads.

import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Call } from '../../shared/wire/calls.ts'
import { attested, endsIn, journalOf, logHolds } from '../support/auditor.ts'
import { HurtStack, insist, must } from '../support/stack/hurt-stack.ts'

const CALLS = 300
const RUNS = 8
const PROPOSED_WITHIN_MS = 40_000
const STRIKES = 5
/** Another seed is another storm: `STORM_SEED=7 npm test -- test/faults/storm`. */
const SEED = Number(process.env['STORM_SEED'] ?? 1)
const INDETERMINATE_WITHIN_MS = 20_000

/** mulberry32: the same storm every time. */
function dice(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

type Part = 'worker' | 'redis' | 'edge'
type Struck = { readonly parts: readonly Part[]; readonly at: number; back: number }

let hurt: HurtStack
beforeAll(async () => {
  hurt = await HurtStack.start()
})
afterAll(() => hurt?.stop())

/** What a client is told to run, and how: `key` is its name for the call, and the mark that the call leaves. */
type Wanted = {
  readonly key: string
  readonly run: string
  readonly tool: string
  readonly args: Record<string, string>
  readonly at: number
}

function wanted(n: number, runs: readonly string[], random: () => number): Wanted {
  const key = `call-${String(n).padStart(3, '0')}`
  const run = runs[n % runs.length] ?? ''
  const at = random() * PROPOSED_WITHIN_MS
  const kind = n % 10
  if (kind < 3) return { key, run, at, tool: 'text.stats', args: { text: `${key}\n` } }
  const mark = `${key}\n`
  if (kind < 5) return { key, run, at, tool: 'mark.quickly', args: { mark } }
  if (kind < 8)
    return { key, run, at, tool: 'mark.slowly', args: { mark, seconds: (0.2 + random()).toFixed(2) } }
  return { key, run, at, tool: 'mark.asking', args: { mark } }
}

/** Proposes under its key until somebody acknowledges it. */
async function acknowledged({ key, run, tool, args, at }: Wanted): Promise<Call> {
  await sleep(at)
  const body = { tool, args }
  const headers = { 'idempotency-key': key }
  return must(
    await insist(() => hurt.agent('proposeCall', { params: { run }, body, headers, wait: 1 }), 90_000),
  )
}

/** Approves whatever waits, until told that the storm is over. */
async function approveAll(over: AbortSignal): Promise<number> {
  let approved = 0
  while (!over.aborted) {
    const pending = await insist(
      () => hurt.operator('listApprovals', { query: { status: 'pending' } }),
      90_000,
    )
    for (const { id } of must(pending).items) {
      const answer = await insist(
        () => hurt.operator('answerApproval', { params: { id }, body: { decision: 'approve' } }),
        90_000,
      )
      // The answer was taken and we did not hear of it, or the inbox is behind: both are no loss.
      if (!answer.ok && answer.error.code !== 'already_answered')
        throw new Error(JSON.stringify(answer.error))
      approved += 1
    }
    await sleep(100)
  }
  return approved
}

async function strikeAll(random: () => number): Promise<Struck[]> {
  const single = (['worker', 'redis', 'edge'] as const).flatMap((part) =>
    Array.from({ length: STRIKES - 1 }, (): Part[] => [part]),
  )
  const order = single.map((parts) => ({ parts, at: random() })).toSorted((a, b) => a.at - b.at)
  const strikes: Part[][] = [
    ...order.map(({ parts }) => parts),
    ['worker', 'edge'],
    ['worker', 'redis', 'edge'],
    ['redis', 'edge'],
  ]
  const struck: Struck[] = []
  for (const parts of strikes) {
    await sleep(300 + random() * 2_500)
    const strike: Struck = { parts, at: Date.now(), back: 0 }
    struck.push(strike)
    const back = await Promise.all(parts.map((part) => hurt.stack[part].restart()))
    for (const started of back) if (!started.ok) throw new Error(started.error)
    strike.back = Date.now()
  }
  return struck
}

test(`Q04 seed ${SEED}: 300 calls under kill -9 of worker, Redis and workerd: each ends once, none ran twice, all is attested`, async () => {
  const random = dice(SEED)
  const runs = await Promise.all(Array.from({ length: RUNS }, () => hurt.run()))
  const all = Array.from({ length: CALLS }, (_, n) => wanted(n, runs, random))
  const over = new AbortController()
  const approving = approveAll(over.signal)
  const [struck, calls] = await Promise.all([strikeAll(random), Promise.all(all.map(acknowledged))])

  const ended = await Promise.all(calls.map((call) => hurt.ended(call, 60_000)))
  over.abort()
  expect(await approving).toBeGreaterThanOrEqual(CALLS / 5)
  for (const part of ['worker', 'redis', 'edge'] as const) {
    expect(struck.filter(({ parts }) => parts.includes(part)).length).toBeGreaterThanOrEqual(STRIKES)
  }

  // None lost, none made twice by asking again.
  expect(new Set(ended.map(({ id }) => id)).size).toBe(CALLS)
  const journals = new Map(
    await Promise.all(runs.map(async (run) => [run, await journalOf(hurt, run)] as const)),
  )
  const entries = [...journals.values()].flat()
  expect(new Set(entries.map(({ call }) => call)).size).toBe(CALLS)

  // Each ended once, in the journal and in the log, and is attested.
  const ends = endsIn(entries)
  expect(ends.map(({ call }) => call).toSorted()).toEqual(ended.map(({ id }) => id).toSorted())
  await logHolds(hurt, ends)
  for (const call of ended) await attested(hurt, call)

  // None ran twice; what succeeded ran; what is unknown is said to be unknown.
  const marks = runs.flatMap((run) => hurt.marks(run))
  const ran = new Map([...Map.groupBy(marks, (mark) => mark)].map(([mark, lines]) => [mark, lines.length]))
  expect([...ran].filter(([, times]) => times > 1)).toEqual([])
  const outcomes = ended.map(({ state }, n) => ({ ...all[n], state, ran: ran.get(all[n]?.key ?? '') ?? 0 }))
  expect(outcomes.filter(({ state }) => state !== 'succeeded' && state !== 'indeterminate')).toEqual([])
  const marking = outcomes.filter(({ tool }) => tool !== 'text.stats')
  expect(marking.filter(({ state, ran: times }) => state === 'succeeded' && times !== 1)).toEqual([])
  expect(outcomes.filter(({ tool, state }) => tool === 'text.stats' && state !== 'succeeded')).toEqual([]) // idempotent: tried again

  // Unknown only where the worker died with the call, and known to be unknown in time.
  const lost = ended.filter(({ state }) => state === 'indeterminate')
  for (const { id, ended_at_ms = 0 } of lost) {
    const claimed = entries.findLast(({ call, kind }) => call === id && kind === 'claimed')?.at_ms ?? 0
    const deadly = struck.find(
      ({ parts, at, back }) => parts.includes('worker') && claimed <= back && at <= ended_at_ms,
    )
    expect(deadly, `${id} was claimed at ${claimed} and lost, and no worker died`).toBeDefined()
    // An edge that was away meanwhile gives each lease anew.
    const since = struck
      .filter(({ parts, back }) => parts.includes('edge') && back <= ended_at_ms)
      .map(({ back }) => back)
    expect(ended_at_ms - Math.max(deadly?.at ?? 0, ...since)).toBeLessThan(INDETERMINATE_WITHIN_MS)
  }
  console.log(
    `${struck.length} strikes; ${ended.length - lost.length} succeeded, ${lost.length} indeterminate; ${marks.length} marks`,
  )
}, 180_000)
