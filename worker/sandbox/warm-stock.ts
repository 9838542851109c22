// Owns the sandboxes that were set up before their call is known. Each is for one shape (whatever of a call is fixed by its set-up), serves
// one call, and goes with it; it waits behind its whole wall, at the gate. There are as many as were asked for within the last second.
// They are made while no call waits for it, because a call that finds none starts a cold one and loses nothing by it. What is old is dropped.

import { availableParallelism } from 'node:os'
import type { ProcessPlan as Plan } from '../../shared/plan/plan.ts'
import { type Setting, settle } from './call-setup.ts'
import type { Equipment } from './equipment.ts'
import { type Admitted, rlimitsOf, waitingFor } from './plan/argv.ts'
import { obstacles } from './plan/host-programs.ts'
import { parseStatus } from './plan/verdict.ts'
import { endSandbox, killGroup } from './process/process-tree.ts'
import { type Started, start } from './process/start.ts'
import { deliveryOf, gate, packed } from './warm-gate.ts'

/** A released sandbox, and what it was handed. */
type Released = { readonly setting: Setting; readonly started: Started; readonly delivery: Buffer }

/** bubblewrap's own two processes and perl: 3 MB of memory each that is no file's. */
const READY_MAX = 16
/** Whoever asks for ever other shapes has the oldest forgotten. */
const SHAPES_MAX = 64
/** Who is asked for again within this time is worth another one. */
const DEMAND_MS = 1_000
/** A shape that nobody asked for this long has none waiting, and none waits longer: hosts change. */
const STALE_MS = 20_000
/** Between two of them. */
const REST_MS = 2
/** A call that runs for so long leaves this process nothing to do; most are over sooner, and would wait for what is begun meanwhile. */
const LONG_MS = 30
/** With as many calls on their way as there are cores, one more sandbox would be in the way of all of them. */
const CORES = availableParallelism()

type Shape = { readonly admitted: Admitted; asked: number[]; readonly waiting: Waiting[] }
type Waiting = { readonly setting: Setting; readonly started: Started; readonly since: number; gone: boolean }

/** bubblewrap sets it when it starts the tool; handed over at the gate it would be another. */
const BWRAPS_OWN = 'PWD'

export class PreparedStock {
  readonly #equipment: Equipment
  readonly #gate: readonly string[] | undefined
  readonly #shapes = new Map<string, Shape>()
  #making: Promise<void> | undefined
  #timer: NodeJS.Timeout | undefined
  #underWay = 0
  #closed = false
  readonly #stale_ms: number

  constructor(equipment: Equipment, { stale_ms = STALE_MS } = {}) {
    const { host } = equipment
    this.#equipment = equipment
    this.#stale_ms = stale_ms
    this.#gate =
      host.machine === undefined || obstacles(host, 'prepared').length > 0
        ? undefined
        : gate(host.programs.perl, host.machine)
  }

  /** One that becomes this call, running already; none where none is ready, or where the call is of no shape that can wait. */
  take(admitted: Admitted, stdin: Uint8Array | undefined): Released | undefined {
    const shape = this.#shapeOf(admitted)
    if (shape === undefined) return undefined
    shape.asked.push(performance.now())
    this.#rest()
    for (let next = shape.waiting.shift(); next !== undefined; next = shape.waiting.shift()) {
      const released = this.#release(next, admitted, stdin)
      if (released !== undefined) return released
    }
    return undefined
  }

  #release(one: Waiting, { plan }: Admitted, stdin: Uint8Array | undefined): Released | undefined {
    const { [BWRAPS_OWN]: _, ...env } = plan.executor.env
    const delivery = deliveryOf(rlimitsOf(plan, this.#equipment.host), env, plan.executor.argv)
    if (!one.gone && performance.now() - one.since <= this.#stale_ms) {
      try {
        one.started.wired.release(packed(delivery, stdin))
        return { setting: one.setting, started: one.started, delivery }
      } catch {
        // It was not released, so nothing ran (L2).
      }
    }
    void discard(one)
    return undefined
  }

  /** One for this call alone, set up now, whatever else goes on: for whoever tries the way itself. */
  async madeFor(admitted: Admitted, stdin: Uint8Array | undefined): Promise<Released | undefined> {
    if (!this.#mayWait(admitted)) return undefined
    const own: Shape = { admitted, asked: [], waiting: [] }
    await this.#prepare(own)
    const [one] = own.waiting
    return one === undefined ? undefined : this.#release(one, admitted, stdin)
  }

  /** Whether one waits for such a call; undefined where none ever will. To ask is demand, too. */
  readyFor(admitted: Admitted): boolean | undefined {
    const shape = this.#shapeOf(admitted)
    if (shape === undefined) return undefined
    if (shape.waiting.some(({ gone }) => !gone)) return true
    if (shape.asked.length === 0) {
      shape.asked.push(performance.now())
      this.#rest()
    }
    return false
  }

  #rest(): void {
    if (this.#closed) return
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => void this.#tend(), this.#isBusy ? LONG_MS : REST_MS)
  }

  get #isBusy(): boolean {
    return this.#underWay > 0 && this.#underWay + 1 >= CORES
  }

  /** A call is on its way through this process, whatever becomes of it; until it says that all of it has been done. */
  begun(): () => void {
    this.#underWay += 1
    if (this.#shapes.size > 0) this.#rest()
    let isOver = false
    return () => {
      if (isOver) return
      isOver = true
      this.#underWay -= 1
      if (this.#shapes.size === 0 || this.#closed || this.#isBusy) return
      clearTimeout(this.#timer)
      setImmediate(() => void this.#tend()) // at once: whoever is told of its end thinks before the next call comes
    }
  }

  async close(): Promise<void> {
    this.#closed = true
    clearTimeout(this.#timer)
    await this.#making
    for (const { waiting } of this.#shapes.values()) await Promise.all(waiting.splice(0).map(discard))
  }

  #mayWait({ plan, profile }: Admitted): boolean {
    return this.#gate !== undefined && !this.#closed && profile === 'c_offline' && isPlain(plan)
  }

  #shapeOf(admitted: Admitted): Shape | undefined {
    const { plan } = admitted
    if (this.#gate === undefined || !this.#mayWait(admitted)) return undefined
    const { bwrap } = waitingFor(admitted, this.#equipment.host, {}, this.#gate)
    const { memory_bytes, pids } = plan.limits // of its cgroup
    const key = `${memory_bytes} ${pids} ${bwrap?.options}`
    const known = this.#shapes.get(key)
    if (known !== undefined) return known
    const executor = { ...plan.executor, argv: [], env: {} } // what is kept is no call's
    const shape: Shape = { admitted: { ...admitted, plan: { ...plan, executor } }, asked: [], waiting: [] }
    this.#shapes.set(key, shape)
    if (this.#shapes.size > SHAPES_MAX) this.#forgetOne()
    return shape
  }

  #forgetOne(): void {
    const [oldest] = [...this.#shapes].toSorted(([, a], [, b]) => lastAsked(a) - lastAsked(b))
    if (oldest === undefined) return
    this.#shapes.delete(oldest[0])
    for (const one of oldest[1].waiting.splice(0)) void discard(one)
  }

  /** Of shapes that have more than was asked for of late, the one that nobody asked for the longest: it makes room. */
  #leastWanted(now: number): Shape | undefined {
    const idle = [...this.#shapes.values()].filter(
      ({ asked, waiting }) => waiting.length > asked.filter((at) => now - at < DEMAND_MS).length,
    )
    return idle.toSorted((a, b) => lastAsked(a) - lastAsked(b))[0]
  }

  /** One step; the next one after another rest. */
  async #tend(): Promise<void> {
    if (this.#making !== undefined || this.#closed) return
    const now = performance.now()
    for (const [key, shape] of this.#shapes) {
      while (shape.waiting[0] !== undefined && now - shape.waiting[0].since > this.#stale_ms)
        void discard(shape.waiting.shift())
      const last = shape.asked.at(-1) ?? 0
      shape.asked = shape.asked.filter((at) => now - at < DEMAND_MS || at === last)
      if (now - last <= this.#stale_ms) continue
      this.#shapes.delete(key)
      for (const one of shape.waiting.splice(0)) void discard(one)
    }
    const all = [...this.#shapes.values()].reduce((sum, { waiting }) => sum + waiting.length, 0)
    const [lacking] = [...this.#shapes.values()]
      .filter(({ asked, waiting }) => waiting.length < Math.min(asked.length, READY_MAX))
      .toSorted((a, b) => lastAsked(b) - lastAsked(a))
    const idle = lacking === undefined || all < READY_MAX ? undefined : this.#leastWanted(now)
    const room =
      all < READY_MAX || (idle !== undefined && lacking !== undefined && lastAsked(idle) < lastAsked(lacking))
    if (lacking !== undefined && room) {
      void discard(idle?.waiting.shift())
      this.#making = this.#prepare(lacking).finally(() => {
        this.#making = undefined
      })
      await this.#making
      this.#rest()
    } else if (this.#shapes.size > 0) {
      this.#timer = setTimeout(() => void this.#tend(), Math.min(DEMAND_MS, this.#stale_ms)).unref()
    }
  }

  async #prepare({ admitted, waiting }: Shape): Promise<void> {
    const settled = await settle(this.#equipment, admitted, {})
    if (!settled.ok) return // the call that comes goes the cold way and says so
    const setting = settled.value
    try {
      const command = waitingFor(admitted, this.#equipment.host, setting.place, this.#gate ?? [])
      const started = await start(this.#equipment, command, { gated: true })
      const one: Waiting = { setting, started, since: performance.now(), gone: false }
      const gone = (): void => {
        one.gone = true
      }
      started.ended.then(gone, gone)
      if (this.#closed) await discard(one)
      else waiting.push(one)
    } catch {
      await setting.leave() // no descriptors, no memory: the same
    }
  }
}

/** A new one is about to be. */
const lastAsked = ({ asked }: Shape): number => asked.at(-1) ?? Number.POSITIVE_INFINITY

/** What a plan may hold beyond this is nothing that a gate could be handed; a field that is not known here is no exception. */
function isPlain({
  tier: _tier,
  executor: _executor,
  egress: _egress,
  limits: _limits,
  cgroup: _cgroup,
  ...other
}: Plan): boolean {
  const { workspace, secrets, ...more } = other
  return (
    workspace === 'call' && secrets.length === 0 && Object.values(more).every((value) => value === undefined)
  )
}

async function discard(one: Waiting | undefined): Promise<void> {
  if (one === undefined) return
  const { setting, started } = one
  if (started.pid !== undefined && !one.gone) killGroup(started.pid)
  await started.ended
  started.wired.letGo()
  const { child } = parseStatus(started.wired.status())
  started.wired.close()
  await setting.place.group?.empty()
  if (child !== undefined) await endSandbox(child)
  await setting.leave()
}
