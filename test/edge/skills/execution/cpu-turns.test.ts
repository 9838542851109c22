// Promise: who calls skills without end holds nobody up. In what order calls are let in and have their turn is settled here, not how long it
// takes: a caller with any number of calls leaves room for the next one, one skill burns at a time, and who has just come waits for one slice.

import { describe, expect, test } from 'vitest'
import { ConcurrencySlots } from '../../../../edge/skills/execution/concurrency-slots.ts'
import { CpuTurns, type Turn } from '../../../../edge/skills/execution/cpu-turns.ts'

/** Everything that can go on goes on. */
const settled = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 20))

const WAITED = { timeout: 20_000 }
const LONG_MS = 60_000
/** What an object that died in the middle left: nobody ends it. */
const dead = (): Promise<never> => new Promise(() => undefined)

class Work {
  readonly begun: string[] = []
  readonly #open = new Map<string, () => void>()

  /** Begins when it may, and goes on until it is ended. */
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

describe('places', () => {
  /** Each named `tenant/agent/skill`. */
  const flood = (places: ConcurrencySlots, work: Work, caller: string, count: number) => {
    const [tenant = '', who = '', skill = ''] = caller.split('/')
    return Array.from({ length: count }, (_, i) =>
      places.take([tenant, who, skill], LONG_MS, work.of(`${caller}${i}`)),
    )
  }

  test('W01 one caller never has them all, and the next one waits for nobody, on each level', async () => {
    const [places, work] = [new ConcurrencySlots(12), new Work()]
    flood(places, work, 'one/hostile/a', 40)
    await settled()
    expect(work.begun).toEqual(Array.from({ length: 4 }, (_, i) => `one/hostile/a${i}`)) // of its tenant's half, two stay free
    const [other] = flood(places, work, 'one/hostile/b', 40)
    flood(places, work, 'one/other/a', 40)
    flood(places, work, 'two/other/a', 40)
    await settled()
    expect(work.begun.slice(4)).toEqual(['one/hostile/b0', 'one/other/a0', 'two/other/a0', 'two/other/a1'])
    flood(places, work, 'three/other/a', 1)
    await settled()
    expect(work.begun.at(-1)).toBe('three/other/a0')
    await work.end('one/hostile/b0')
    expect(await other).toBe('one/hostile/b0')
  })

  test.each([
    ['agents', (i: number) => `hostile/${i}/a`, 'two/other/a', 6],
    ['skills', (i: number) => `one/hostile/${i}-`, 'one/other/a', 5],
  ])(
    'W01 of more %s than places, whoever is none of them waits for nobody',
    async (_, hostile, other, held) => {
      const [places, work] = [new ConcurrencySlots(12), new Work()]
      for (let i = 0; i < 14; i++) flood(places, work, hostile(i), 2)
      await settled()
      expect(work.begun).toHaveLength(held)
      const [one] = flood(places, work, other, 1)
      await settled()
      expect(work.begun.at(-1)).toBe(`${other}0`)
      await work.end(`${other}0`)
      expect(await one).toBe(`${other}0`)
    },
  )

  test('W01 with more tenants than places, none has a second while one has none, and the last goes to none who holds one', async () => {
    const [places, work] = [new ConcurrencySlots(3), new Work()]
    for (const caller of ['a/x/', 'b/x/', 'a/y/', 'b/y/']) flood(places, work, caller, 3)
    await settled()
    expect(work.begun).toEqual(['a/x/0', 'b/x/0'])
    for (const tenant of ['c', 'd', 'e']) flood(places, work, `${tenant}/x/`, 1)
    await settled()
    expect(work.begun).toEqual(['a/x/0', 'b/x/0', 'c/x/0'])
    for (const name of ['a/x/0', 'b/x/0', 'c/x/0']) await work.end(name)
    // Of those that wait, each tenant's turn comes before anybody's second, however many there are in it.
    expect(work.begun.slice(3)).toEqual(['a/x/1', 'b/x/1', 'd/x/0'])
    await work.end('a/x/1')
    expect(work.begun.at(-1)).toBe('e/x/0')
    for (const name of ['b/x/1', 'd/x/0', 'e/x/0']) await work.end(name)
    expect(work.begun.slice(7)).toEqual(['a/y/0', 'b/y/0'])
  })

  test('those that wait are let in by turns, each in its own order', async () => {
    const [places, work] = [new ConcurrencySlots(2), new Work()]
    for (const caller of ['a', 'b', 'c']) flood(places, work, caller, 3)
    await settled()
    expect(work.begun).toEqual(['a0', 'b0'])
    const order = ['a0', 'b0', 'a1', 'b1', 'c0', 'a2', 'b2', 'c1', 'c2']
    for (const name of order) await work.end(name)
    expect(work.begun).toEqual(order)
  })

  test('what the dead hold is given to others when its time is over, and who comes back from there takes nobody’s', async () => {
    const [places, work] = [new ConcurrencySlots(2), new Work()]
    const back = places.take(['a', '', ''], 50, work.of('late'))
    void places.take(['b', '', ''], 50, dead)
    flood(places, work, 'c', 2)
    await expect.poll(() => work.begun, WAITED).toEqual(['late', 'c0'])
    flood(places, work, 'd', 1)
    await expect.poll(() => work.begun, WAITED).toEqual(['late', 'c0', 'd0'])
    await work.end('late')
    expect([await back, work.begun]).toEqual(['late', ['late', 'c0', 'd0']])
    await work.end('c0')
    expect(work.begun.at(-1)).toBe('c1')
  })

  test('what ends badly gives its place back', async () => {
    const [places, work] = [new ConcurrencySlots(2), new Work()]
    const failing = places.take(['a', '', ''], LONG_MS, () => Promise.reject(new Error('no')))
    await expect(failing).rejects.toThrow('no')
    flood(places, work, 'a', 2)
    await settled()
    expect(work.begun).toEqual(['a0'])
    await work.end('a0')
    expect(work.begun).toEqual(['a0', 'a1'])
  })
})

describe('turns', () => {
  test('who is called at the very moment at which they are late has their turn, and loses nobody’s', async () => {
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

  test('what the dead hold is given to others when its time is over, and who comes back from there takes nobody’s', async () => {
    const [turns, work] = [new CpuTurns(1, 2_500), new Work()]
    void turns.take(dead)
    const late = turns.take(work.of('late'))
    await expect.poll(() => work.begun, WAITED).toEqual(['late'])
    const next = turns.take(work.of('next'))
    const last = turns.take(work.of('last'))
    await expect.poll(() => work.begun, WAITED).toEqual(['late', 'next'])
    await work.end('late') // its turn is over: the present one is not ended by that
    expect([await late, work.begun]).toEqual(['late', ['late', 'next']])
    await work.end('next')
    expect([await next, work.begun.at(-1)]).toEqual(['next', 'last'])
    await work.end('last')
    await last
  })

  test('who is called while all are held up comes before those behind them', async () => {
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

  /** Burns as many slices, and notes each. */
  const burning = (turns: CpuTurns, order: string[], name: string, slices: number): Promise<void> =>
    turns.take(async (turn) => {
      for (let i = 0; i < slices; i++) {
        if (i > 0) await turn.releaseDuring(() => Promise.resolve())
        order.push(name)
      }
    })

  test('W01 who has just come burns a slice before one of those that burn on has its next but one', async () => {
    const [turns, order] = [new CpuTurns(1), [] as string[]]
    const hostile = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'].map((name) => burning(turns, order, name, 50))
    while (new Set(order).size < 8) await settled() // nobody of them has just come any more
    const before = order.length
    await burning(turns, order, 'other', 1)
    expect(order.indexOf('other') - before).toBeLessThanOrEqual(2)
    await Promise.all(hostile)
    // Nobody of the eight is ever far ahead of another.
    const burnt = new Map<string, number>()
    for (const name of order.filter((one) => one !== 'other')) {
      burnt.set(name, (burnt.get(name) ?? 0) + 1)
      if (burnt.size === 8)
        expect(Math.max(...burnt.values()) - Math.min(...burnt.values())).toBeLessThanOrEqual(5)
    }
    expect(order).toHaveLength(8 * 50 + 1)
  })

  test('many that come do not keep those waiting that burn on', async () => {
    const [turns, order] = [new CpuTurns(1), [] as string[]]
    const long = burning(turns, order, 'long', 4)
    const short = Array.from({ length: 20 }, (_, i) => burning(turns, order, `short${i}`, 1))
    await Promise.all([long, ...short])
    expect(order.lastIndexOf('long')).toBeLessThan(8)
  })

  test('who waits for its first turn waits no longer than its time lasts, and takes nobody’s place', async () => {
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

  test('one has its turn at a time, and who has ended keeps none', async () => {
    const turns = new CpuTurns(1)
    let atOnce = 0
    let most = 0
    const one = (turn: Turn): Promise<void> =>
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
    // It ends while it stands aside: the turn is the next one's.
    await turns.take(async (turn) => void turn.releaseDuring(settled))
    expect(await turns.take(() => Promise.resolve('free'))).toBe('free')
  })
})
