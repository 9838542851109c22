// Promise: a caller with any number of skill calls delays nobody. Tests the order in which calls
// get slots and turns, not durations: every level keeps room for a newcomer, one skill computes at
// a time, and a newcomer waits for about one slice.

import { describe, expect, test } from 'vitest'
import { ConcurrencySlots } from '../../../../edge/skills/execution/concurrency-slots.ts'
import { type CpuTurn, CpuTurns } from '../../../../edge/skills/execution/cpu-turns.ts'

/** Lets everything that can proceed do so. */
const settled = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 20))

const WAITED = { timeout: 20_000 }
const LONG_MS = 60_000
/** Work of an object that died: it never ends. */
const dead = (): Promise<never> => new Promise(() => undefined)

class Work {
  readonly begun: string[] = []
  readonly #open = new Map<string, () => void>()

  /** Work that records its beginning and runs until `end` is called. */
  readonly of = (name: string) => async (): Promise<string> => {
    this.begun.push(name)
    await new Promise<void>((resolve) => this.#open.set(name, resolve))
    return name
  }

  end(name: string): Promise<void> {
    this.#open.get(name)?.()
    return settled()
  }
}

describe('slots', () => {
  /** Starts `count` calls of a caller written `tenant/agent/skill`. */
  const flood = (slots: ConcurrencySlots, work: Work, caller: string, count: number) => {
    const [tenant = '', who = '', skill = ''] = caller.split('/')
    return Array.from({ length: count }, (_, i) =>
      slots.take([tenant, who, skill], LONG_MS, work.of(`${caller}${i}`)),
    )
  }

  test('W01 on each level no caller takes all slots, and the next caller gets one at once', async () => {
    const [slots, work] = [new ConcurrencySlots(12), new Work()]
    flood(slots, work, 'one/hostile/a', 40)
    await settled()
    expect(work.begun).toEqual(Array.from({ length: 4 }, (_, i) => `one/hostile/a${i}`)) // two of its tenant's half stay free
    const [other] = flood(slots, work, 'one/hostile/b', 40)
    flood(slots, work, 'one/other/a', 40)
    flood(slots, work, 'two/other/a', 40)
    await settled()
    expect(work.begun.slice(4)).toEqual(['one/hostile/b0', 'one/other/a0', 'two/other/a0', 'two/other/a1'])
    flood(slots, work, 'three/other/a', 1)
    await settled()
    expect(work.begun.at(-1)).toBe('three/other/a0')
    await work.end('one/hostile/b0')
    expect(await other).toBe('one/hostile/b0')
  })

  test.each([
    ['agents', (i: number) => `hostile/${i}/a`, 'two/other/a', 6],
    ['skills', (i: number) => `one/hostile/${i}-`, 'one/other/a', 5],
  ])(
    'W01 even if one tenant has more %s than slots, another caller gets a slot at once',
    async (_, hostile, other, held) => {
      const [slots, work] = [new ConcurrencySlots(12), new Work()]
      for (let i = 0; i < 14; i++) flood(slots, work, hostile(i), 2)
      await settled()
      expect(work.begun).toHaveLength(held)
      const [one] = flood(slots, work, other, 1)
      await settled()
      expect(work.begun.at(-1)).toBe(`${other}0`)
      await work.end(`${other}0`)
      expect(await one).toBe(`${other}0`)
    },
  )

  test('W01 with more tenants than slots, none gets a second slot while another has none, and the last slot goes to a tenant without one', async () => {
    const [slots, work] = [new ConcurrencySlots(3), new Work()]
    for (const caller of ['a/x/', 'b/x/', 'a/y/', 'b/y/']) flood(slots, work, caller, 3)
    await settled()
    expect(work.begun).toEqual(['a/x/0', 'b/x/0'])
    for (const tenant of ['c', 'd', 'e']) flood(slots, work, `${tenant}/x/`, 1)
    await settled()
    expect(work.begun).toEqual(['a/x/0', 'b/x/0', 'c/x/0'])
    for (const name of ['a/x/0', 'b/x/0', 'c/x/0']) await work.end(name)
    // Every waiting tenant gets a slot before any gets a second one, however many callers it has.
    expect(work.begun.slice(3)).toEqual(['a/x/1', 'b/x/1', 'd/x/0'])
    await work.end('a/x/1')
    expect(work.begun.at(-1)).toBe('e/x/0')
    for (const name of ['b/x/1', 'd/x/0', 'e/x/0']) await work.end(name)
    expect(work.begun.slice(7)).toEqual(['a/y/0', 'b/y/0'])
  })

  test('waiting callers get slots in turn, each caller’s calls in their order', async () => {
    const [slots, work] = [new ConcurrencySlots(2), new Work()]
    for (const caller of ['a', 'b', 'c']) flood(slots, work, caller, 3)
    await settled()
    expect(work.begun).toEqual(['a0', 'b0'])
    const order = ['a0', 'b0', 'a1', 'b1', 'c0', 'a2', 'b2', 'c1', 'c2']
    for (const name of order) await work.end(name)
    expect(work.begun).toEqual(order)
  })

  test.each([
    [
      '512 skill calls of a tenant may wait (`waiting_skill_calls_per_tenant`)',
      'a/x 200, a/y 200, a/z 111',
      'a/z',
    ],
    [
      '1,024 skill calls may wait (`waiting_skill_calls`)',
      'a/x 200, a/y 200, b/x 200, b/y 200, c/x 223',
      'c/x',
    ],
  ])('W01 %s, and then a caller with its share is refused', async (_, waiting, last) => {
    const slots = new ConcurrencySlots(1)
    const held = Promise.withResolvers<void>()
    const calls = [slots.take(['a', 'x', ''], LONG_MS, () => held.promise)]
    const add = (caller: string, count: number) => {
      const [tenant = '', who = ''] = caller.split('/')
      for (let i = 0; i < count; i++)
        calls.push(slots.take([tenant, who, ''], LONG_MS, async () => undefined))
    }
    for (const [caller = '', count] of waiting.split(', ').map((each) => each.split(' ')))
      add(caller, Number(count))
    expect(slots.isFull(['a', 'x', ''])).toBe(false)
    add(last, 1)
    expect(slots.isFull(['a', 'x', ''])).toBe(true)
    expect(slots.isFull(['new', 'x', ''])).toBe(false)
    held.resolve()
    await Promise.all(calls)
  })

  test('an expired slot goes to others, and its former holder takes none when it comes back', async () => {
    const [slots, work] = [new ConcurrencySlots(2), new Work()]
    const back = slots.take(['a', '', ''], 50, work.of('late'))
    void slots.take(['b', '', ''], 50, dead)
    flood(slots, work, 'c', 2)
    await expect.poll(() => work.begun, WAITED).toEqual(['late', 'c0'])
    flood(slots, work, 'd', 1)
    await expect.poll(() => work.begun, WAITED).toEqual(['late', 'c0', 'd0'])
    await work.end('late')
    expect([await back, work.begun]).toEqual(['late', ['late', 'c0', 'd0']])
    await work.end('c0')
    expect(work.begun.at(-1)).toBe('c1')
  })

  test('a call that fails gives its slot back', async () => {
    const [slots, work] = [new ConcurrencySlots(2), new Work()]
    const failing = slots.take(['a', '', ''], LONG_MS, () => Promise.reject(new Error('no')))
    await expect(failing).rejects.toThrow('no')
    flood(slots, work, 'a', 2)
    await settled()
    expect(work.begun).toEqual(['a0'])
    await work.end('a0')
    expect(work.begun).toEqual(['a0', 'a1'])
  })
})

describe('CPU turns', () => {
  test('a waiter that is called at its very deadline takes its turn, and no turn is lost', async () => {
    for (let moment = 0; moment < 12; moment++) {
      const turns = new CpuTurns(1)
      const held = Promise.withResolvers<void>()
      const holder = turns.take(() => held.promise)
      const last = turns.takeWithin(1_000, async () => 'last')
      const late = turns.takeWithin(-1, async () => 'late')
      for (let i = 0; i < moment; i++) await Promise.resolve()
      held.resolve()
      await Promise.all([holder, late])
      expect([moment, await last, await turns.takeWithin(1_000, async () => 'next')]).toEqual([
        moment,
        'last',
        'next',
      ])
    }
    for (let moment = 0; moment < 12; moment++) {
      const turns = new CpuTurns(1)
      const held = Promise.withResolvers<void>()
      const holder = turns.take(() => held.promise)
      held.resolve()
      for (let i = 0; i < moment % 4; i++) await Promise.resolve()
      const late = turns.takeWithin(-1, async () => 'late')
      await Promise.all([holder, late])
      expect([moment, await turns.takeWithin(1_000, async () => 'next')]).toEqual([moment, 'next'])
    }
  })

  test('an expired turn goes to others, and its former holder takes none when it comes back', async () => {
    const [turns, work] = [new CpuTurns(1, 2_500), new Work()]
    void turns.take(dead)
    const late = turns.take(work.of('late'))
    await expect.poll(() => work.begun, WAITED).toEqual(['late'])
    const next = turns.take(work.of('next'))
    const last = turns.take(work.of('last'))
    await expect.poll(() => work.begun, WAITED).toEqual(['late', 'next'])
    await work.end('late') // its turn has expired, so this must not end the current one
    expect([await late, work.begun]).toEqual(['late', ['late', 'next']])
    await work.end('next')
    expect([await next, work.begun.at(-1)]).toEqual(['next', 'last'])
    await work.end('last')
    await last
  })

  test('a waiter that is called while the process stalls keeps its turn before those behind it', async () => {
    const [turns, work] = [new CpuTurns(1), new Work()]
    const first = turns.take(work.of('first'))
    const others = ['second', 'third'].map((name) => turns.take(work.of(name)))
    await settled()
    const called = first.then(() => {
      for (const until = Date.now() + 1_500; Date.now() < until; );
    })
    await work.end('first')
    await called
    await expect.poll(() => work.begun, WAITED).toEqual(['first', 'second'])
    await work.end('second')
    expect(work.begun).toEqual(['first', 'second', 'third'])
    await work.end('third')
    await Promise.all(others)
  })

  /** Takes this many slices and records each. */
  const burning = (turns: CpuTurns, order: string[], name: string, slices: number): Promise<void> =>
    turns.take(async (turn) => {
      for (let i = 0; i < slices; i++) {
        if (i > 0) await turn.releaseDuring(() => Promise.resolve())
        order.push(name)
      }
    })

  test('W01 a newcomer gets a slice before any busy skill gets two more', async () => {
    const [turns, order] = [new CpuTurns(1), [] as string[]]
    const hostile = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'].map((name) => burning(turns, order, name, 50))
    while (new Set(order).size < 8) await settled() // none of them is a newcomer now
    const before = order.length
    await burning(turns, order, 'other', 1)
    expect(order.indexOf('other') - before).toBeLessThanOrEqual(2)
    await Promise.all(hostile)
    // None of the eight is ever far ahead of another.
    const burnt = new Map<string, number>()
    for (const name of order.filter((one) => one !== 'other')) {
      burnt.set(name, (burnt.get(name) ?? 0) + 1)
      if (burnt.size === 8)
        expect(Math.max(...burnt.values()) - Math.min(...burnt.values())).toBeLessThanOrEqual(5)
    }
    expect(order).toHaveLength(8 * 50 + 1)
  })

  test('many newcomers don’t starve a busy skill', async () => {
    const [turns, order] = [new CpuTurns(1), [] as string[]]
    const long = burning(turns, order, 'long', 4)
    const short = Array.from({ length: 20 }, (_, i) => burning(turns, order, `short${i}`, 1))
    await Promise.all([long, ...short])
    expect(order.lastIndexOf('long')).toBeLessThan(8)
  })

  test('a waiter gives up when its time is over, and leaves the queue', async () => {
    const [turns, work] = [new CpuTurns(1), new Work()]
    const long = turns.take(work.of('long'))
    const late = turns.takeWithin(30, work.of('late'))
    const patient = turns.takeWithin(60_000, work.of('patient'))
    expect(await late).toBeUndefined()
    await work.end('long')
    expect([await long, work.begun]).toEqual(['long', ['long', 'patient']])
    await work.end('patient')
    expect(await patient).toBe('patient')
    const free = turns.takeWithin(0, work.of('free'))
    await settled()
    await work.end('free')
    expect(await free).toBe('free')
  })

  test('one skill has the turn at a time, and ended work keeps none', async () => {
    const turns = new CpuTurns(1)
    let atOnce = 0
    let most = 0
    const one = (turn: CpuTurn): Promise<void> =>
      turn.releaseDuring(async () => {
        atOnce -= 1
        await settled()
      })
    const work = turns.take(async (turn) => {
      most = Math.max(most, ++atOnce)
      await one(turn)
      most = Math.max(most, ++atOnce)
      atOnce -= 1
    })
    const other = turns.take(async () => {
      most = Math.max(most, ++atOnce)
      await Promise.resolve()
      atOnce -= 1
    })
    await Promise.all([work, other])
    expect([most, atOnce]).toEqual([1, 0])
    // It ends while its turn is released, and the turn goes to the next one.
    await turns.take(async (turn) => void turn.releaseDuring(settled))
    expect(await turns.take(() => Promise.resolve('free'))).toBe('free')
  })
})
