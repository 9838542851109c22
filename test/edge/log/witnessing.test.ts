// Promise: the edge shows each new head to its witnesses, keeps what they cosign, and notices when one
// of them has seen another log. No witness delays another one, or the log.

import { createHash } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, expect, onTestFinished, test, vi } from 'vitest'
import { StateFolder } from '../../../cli/witness/state-folder.ts'
import { Witness } from '../../../cli/witness/witness.ts'
import { ROOT } from '../../../infra/state.ts'
import { verifyCheckpoint } from '../../../shared/evidence/checkpoint.ts'
import { cosignedBy, verifierKey } from '../../../shared/evidence/cosignature.ts'
import { verifyInclusion } from '../../../shared/evidence/merkle.ts'
import { hashOfEntry } from '../../../shared/evidence/tiles.ts'
import { WitnessSettings, type WitnessState } from '../../../shared/evidence/witnesses.ts'
import { callId } from '../../../shared/ids.ts'
import { LIMITS } from '../../../shared/limits.ts'
import { newSigner } from '../../support/grown-log.ts'
import { newDatabase } from '../../support/stack/object-storage.ts'

type New<T> = new (on: object) => T
type Tree = {
  readonly inclusion: (index: number, size: number) => string[]
  readonly append: (size: number, run: string, ends: readonly object[]) => number
  size: number
}
type Edge = {
  grown: () => void
  ring: () => Promise<void>
  note: () => string
  cosignedHead: (index: number) => { size: number; note: string }
  states: () => WitnessState[]
}
const modules = join(ROOT, 'edge/log')
const { LogTree } = (await import(/* @vite-ignore */ `${modules}/tree-store.ts`)) as { LogTree: New<Tree> }
const { WitnessStore } = (await import(/* @vite-ignore */ `${modules}/witness-store.ts`)) as {
  WitnessStore: New<object>
}
const { Witnessing } = (await import(/* @vite-ignore */ `${modules}/witnessing.ts`)) as {
  Witnessing: New<Edge>
}

const ORIGIN = 'edge.example/default'
const RUN = 'run_01KA5XJ3M0000000000000000A'
const edgeKey = newSigner()
const hashOf = (n: number, kind: string) => createHash('sha256').update(`${kind} ${n}`).digest('hex')

afterEach(() => void vi.useRealTimers())

async function newWitness(name: string): Promise<Witness> {
  const folder = mkdtempSync(join(tmpdir(), 'witness-'))
  const state = await StateFolder.open(folder)
  if (!state.ok) throw new Error(state.error.detail)
  onTestFinished(() => {
    state.value.close()
    rmSync(folder, { recursive: true, force: true })
  })
  return new Witness(name, [{ origin: 'edge.example/', keys: [edgeKey.x] }], state.value)
}

type Answer = Response | Promise<Response>

/** A log with witnesses, whose requests go to `answer` instead of the network. */
class ShownLog {
  readonly db = newDatabase('log')
  readonly tree = new LogTree(this.db)
  readonly requests: string[] = []
  readonly alarms: number[] = []
  edge: Edge
  answer: (witness: Witness, body: string) => Answer = (witness, body) => {
    const { status, body: text, type } = witness.addCheckpoint(body, Date.now())
    return new Response(text, {
      status,
      ...(type === undefined ? {} : { headers: { 'content-type': type } }),
    })
  }
  readonly #witnesses: readonly Witness[]

  constructor(witnesses: readonly Witness[]) {
    vi.useFakeTimers({ toFake: ['Date'], now: 1_795_000_000_000 })
    this.#witnesses = witnesses
    this.edge = this.start()
  }

  /** The object starts again on its storage. */
  start(): Edge {
    const at = (i: number) => `https://w${i}.example/prefix/`
    const settings = this.#witnesses.map(({ key }, i) => ({ url: at(i), key: verifierKey(key) }))
    const fetch = async (to: string, init: { body: string; redirect: string }): Promise<Response> => {
      this.requests.push(init.body.split('\n', 1)[0] ?? '')
      expect(init.redirect).toBe('manual')
      const witness = this.#witnesses.find((_, i) => to === `${at(i)}add-checkpoint`)
      if (witness === undefined) throw new Error(`nobody is at ${to}`)
      return this.answer(witness, init.body)
    }
    this.edge = new Witnessing({
      storage: { setAlarm: async (time: number) => void this.alarms.push(time) },
      store: new WitnessStore(this.db),
      tree: this.tree,
      origin: ORIGIN,
      signer: edgeKey,
      settings: WitnessSettings.parse(settings),
      network: { outside: { fetch }, standIns: undefined },
    })
    return this.edge
  }

  grow(count: number, kind = 'leaf'): void {
    for (let i = 0; i < count; i++) {
      const n = this.tree.size
      const end = { seq: n + 1, call: callId(RUN, n + 1), hash: hashOf(n, kind), agent: '', tool: '' }
      const ends = [{ ...end, state: 'denied', at: 1, took: 1, shadow: null }]
      this.tree.size = this.tree.append(n, RUN, ends)
      this.edge.grown()
    }
  }

  /** Fires the alarm when it is due. */
  async ring(): Promise<void> {
    vi.setSystemTime(Math.max(this.alarms.at(-1) ?? 0, Date.now()))
    await this.edge.ring()
  }

  cosigned(note = this.edge.note()): string[] {
    return cosignedBy(
      note,
      this.#witnesses.map(({ key }) => key),
    ).map(({ name }) => name)
  }
}

test('a head is sent once in `witness_delay_ms` at most, and served with its cosignatures', async () => {
  const log = new ShownLog([await newWitness('w0'), await newWitness('w1')])
  expect(log.alarms).toEqual([])
  log.grow(5)
  expect(log.alarms).toEqual([Date.now() + LIMITS.witness_delay_ms])
  expect(log.cosigned()).toEqual([])
  await log.ring()
  expect(log.requests).toEqual(['old 0', 'old 0'])
  expect(log.cosigned()).toEqual(['w0', 'w1'])
  expect(verifyCheckpoint(log.edge.note(), ORIGIN, edgeKey.x)).toMatchObject({ value: { size: 5 } })
  expect(log.alarms).toHaveLength(1)
  log.grow(300)
  expect(log.cosigned()).toEqual([])
  await log.ring()
  expect(log.requests.slice(2)).toEqual(['old 5', 'old 5'])
  expect(log.cosigned()).toEqual(['w0', 'w1'])
})

test('a call is proven under the head that most witnesses have cosigned', async () => {
  const log = new ShownLog([await newWitness('w0'), await newWitness('w1')])
  log.grow(5)
  await log.ring()
  log.grow(2)
  const { size, note } = log.edge.cosignedHead(3)
  expect([size, log.cosigned(note)]).toEqual([5, ['w0', 'w1']])
  const { value: head } = verifyCheckpoint(note, ORIGIN, edgeKey.x) as { value: { root: string } }
  const leaf = hashOfEntry(hashOf(3, 'leaf'))
  const proof = log.tree.inclusion(3, size)
  expect(verifyInclusion({ leaf, index: 3, size, root: head.root, proof })).toBe(true)
  expect(log.edge.cosignedHead(5).size).toBe(7)
})

test('a witness that fails is asked again after longer and longer pauses, up to a day (`witness_pause_max_ms`), and delays no other witness', async () => {
  const log = new ShownLog([await newWitness('w0'), await newWitness('w1')])
  const { answer } = log
  log.answer = (witness, body) =>
    witness.key.name === 'w0' ? new Response('', { status: 503 }) : answer(witness, body)
  log.grow(3)
  await log.ring()
  expect(log.cosigned()).toEqual(['w1'])
  expect(log.edge.states()[0]).toMatchObject({ cosigned: null, failing: 'it answered with status 503' })
  const pauses: number[] = []
  for (let i = 0; i < 18; i++) {
    pauses.push((log.alarms.at(-1) ?? 0) - Date.now())
    await log.ring()
  }
  expect(pauses.slice(0, 3)).toEqual([2_000, 4_000, 8_000])
  expect(pauses.slice(-2)).toEqual([86_400_000, 86_400_000])
  log.answer = answer
  await log.ring()
  expect(log.cosigned()).toEqual(['w0', 'w1'])
  expect(log.edge.states()[0]).toMatchObject({ failing: null })
})

test('a log that has grown asks a witness that fails within `witness_pause_grown_ms`, and then no sooner than before', async () => {
  const log = new ShownLog([await newWitness('w0')])
  const { answer } = log
  log.answer = () => new Response('', { status: 503 })
  log.grow(3)
  for (let i = 0; i < 18; i++) await log.ring()
  const pause = () => (log.alarms.at(-1) ?? 0) - Date.now()
  expect(pause()).toBe(86_400_000)
  log.start() // and was not in memory when it grew
  log.grow(1)
  expect(pause()).toBe(300_000)
  vi.setSystemTime(Date.now() + 60_000)
  log.grow(1)
  expect(pause()).toBe(240_000)
  await log.ring()
  expect(pause()).toBe(86_400_000)
  log.answer = answer
  log.grow(1)
  await log.ring()
  expect(log.cosigned()).toEqual(['w0'])
})

test('an answer with a foreign, changed or missing cosignature counts as a failure', async () => {
  const [own, other] = [await newWitness('w0'), await newWitness('w0')]
  const log = new ShownLog([own])
  log.grow(3)
  const answers: ((body: string) => string)[] = [
    (body) => other.addCheckpoint(body, Date.now()).body,
    () => '',
    () => 'x'.repeat(LIMITS.witness_answer_bytes * 2),
    () => log.edge.note().split('\n\n')[1] ?? '',
  ]
  for (const answer of answers) {
    log.answer = (_, body) => new Response(answer(body))
    await log.ring()
    expect(log.edge.states()[0]?.failing).toBe('its answer has no valid cosignature with its key')
    expect(log.cosigned()).toEqual([])
  }
})

test('at most `witness_answer_bytes` of an answer are read, for at most `witness_answer_ms`', async () => {
  const log = new ShownLog([await newWitness('w0')])
  log.grow(1)
  let sent = 0
  const endless = new ReadableStream({
    pull(out) {
      out.enqueue(new Uint8Array(1024).fill(10))
      sent += 1024
    },
  })
  log.answer = () => new Response(endless)
  await log.ring()
  expect(sent).toBeLessThan(2 * LIMITS.witness_answer_bytes + 1024)
  const timeout = vi.spyOn(AbortSignal, 'timeout')
  onTestFinished(() => timeout.mockRestore())
  log.answer = () => Promise.reject(new Error('connect ECONNREFUSED 10.0.0.1'))
  await log.ring()
  expect(timeout).toHaveBeenCalledWith(LIMITS.witness_answer_ms)
  expect(log.edge.states()[0]?.failing).toBe('it can’t be reached')
})

test('a witness that knows another head of the log gets a proof from that head', async () => {
  const witness = await newWitness('w0')
  const [log, restored] = [new ShownLog([witness]), new ShownLog([witness])]
  log.grow(4)
  await log.ring()
  restored.grow(9) // the same leaves; this object does not know what the witness has cosigned
  await restored.ring()
  expect(restored.requests).toEqual(['old 0', 'old 4'])
  expect(restored.cosigned()).toEqual(['w0'])
})

test('a log that was rolled back or forked is reported once, and still grows', async () => {
  const errors = vi.spyOn(console, 'error').mockImplementation(() => undefined)
  onTestFinished(() => errors.mockRestore())
  const witness = await newWitness('w0')
  const [log, yesterday] = [new ShownLog([witness]), new ShownLog([witness])]
  yesterday.grow(4)
  await yesterday.ring()
  log.grow(10)
  await log.ring()
  expect(log.cosigned()).toEqual(['w0'])

  vi.setSystemTime(Date.now() + LIMITS.witness_fresh_ms + 1)
  yesterday.start() // and no call is made
  await yesterday.ring()
  expect(yesterday.edge.states()[0]?.refused).toMatchObject({
    reason: 'rolled_back',
    detail: 'the log was rolled back: it has 4 leaves, and the witness has cosigned 10',
  })
  yesterday.grow(2, 'other')
  await yesterday.ring()
  expect(errors).toHaveBeenCalledTimes(1)
  yesterday.grow(20, 'other')
  await yesterday.ring()
  expect(yesterday.edge.states()[0]?.refused?.reason).toBe('forked')
  expect(yesterday.edge.states()[0]?.cosigned?.size).toBe(4)
  expect(errors).toHaveBeenCalledTimes(2)
  expect(String(errors.mock.calls)).toContain(
    'witness w0 of the log edge.example/default: the log was forked',
  )
})

test('an object that starts again within `witness_fresh_ms` of the last answer does not ask again', async () => {
  const log = new ShownLog([await newWitness('w0')])
  log.grow(4)
  await log.ring()
  log.start()
  expect(log.alarms).toHaveLength(1)
  vi.setSystemTime(Date.now() + LIMITS.witness_fresh_ms + 1_001)
  log.start()
  expect(log.alarms).toHaveLength(2)
  await log.ring()
  expect(log.requests).toEqual(['old 0', 'old 4'])
  expect(log.cosigned()).toEqual(['w0'])
})

test('an address in a private network is not requested (N14)', async () => {
  const log = new ShownLog([await newWitness('w0')])
  const key = verifierKey((await newWitness('w1')).key)
  const settings = WitnessSettings.parse([{ url: 'https://10.0.0.1', key }])
  const fetch = vi.fn()
  log.edge = new Witnessing({
    storage: { setAlarm: async () => undefined },
    store: new WitnessStore(log.db),
    tree: log.tree,
    origin: ORIGIN,
    signer: edgeKey,
    settings,
    network: { outside: { fetch }, standIns: undefined },
  })
  log.grow(1)
  await log.ring()
  vi.setSystemTime(Date.now() + 5_000)
  await log.edge.ring()
  expect(fetch).not.toHaveBeenCalled()
  expect(log.edge.states()[0]?.failing).toContain('is an IP address')
})

test('a setting that names a witness twice, or more than `witnesses`, is refused', async () => {
  const key = () => verifierKey({ name: 'w', x: newSigner().x })
  const url = 'https://w.example'
  const some = (count: number) => Array.from({ length: count }, () => ({ url, key: key() }))
  const accepts = (value: unknown) => WitnessSettings.safeParse(value).success
  expect(accepts(some(LIMITS.witnesses))).toBe(true)
  expect(accepts(some(LIMITS.witnesses + 1))).toBe(false)
  const [one = { url, key: key() }] = some(1)
  expect(accepts([one, one])).toBe(false)
  expect(accepts([{ ...one, key: `${one.key}x` }])).toBe(false)
  const long = (chars: number) => [{ ...one, url: url.padEnd(chars, '/') }]
  expect(accepts(long(LIMITS.witness_url_chars))).toBe(true)
  expect(accepts(long(LIMITS.witness_url_chars + 1))).toBe(false)
})
