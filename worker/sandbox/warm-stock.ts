// Warm sandboxes: set up before their call is known, each for one shape (everything of a call that
// the set-up fixes). Each serves one call and waits at the gate, behind all of the sandbox's
// restrictions. The stock holds as many as were requested within the last second. They are made
// while the worker is idle, because a call that finds none starts cold at no extra cost. Stale ones
// are dropped.

import { availableParallelism } from 'node:os'
import type { ProcessPlan as Plan } from '../../shared/plan/plan.ts'
import { type CallSetup, setUpCall } from './call-setup.ts'
import type { Equipment } from './equipment.ts'
import { type AdmittedPlan, rlimitsOf, warmCommand } from './plan/argv.ts'
import { obstacles } from './plan/host-programs.ts'
import { parseStatus } from './plan/verdict.ts'
import { endSandbox, killGroup } from './process/process-tree.ts'
import { type StartedProcess, start } from './process/start.ts'
import { deliveryOf, gate, gateInput } from './warm-gate.ts'

/** A released sandbox, and the delivery that it was given. */
type ReleasedSandbox = {
  readonly setting: CallSetup
  readonly started: StartedProcess
  readonly delivery: Buffer
}

/** Each takes 3 MB of anonymous memory: bubblewrap's two processes, and perl. */
const READY_MAX = 16
/** Bounds the number of shapes; the least recently requested is evicted. */
const SHAPES_MAX = 64
/** Each request within this time is worth one warm sandbox. */
const DEMAND_MS = 1_000
/**
 * Shapes not requested for this long lose their sandboxes, and no sandbox waits longer: the host
 * may have changed.
 */
const STALE_MS = 20_000
/** The pause before the next sandbox is made. */
const PAUSE_MS = 2
/**
 * The pause while the worker is busy: most calls end sooner, and starting a sandbox would delay
 * them; a longer call leaves the worker idle.
 */
const BUSY_PAUSE_MS = 30
/** With this many calls in progress, making a sandbox would slow all of them. */
const CORES = availableParallelism()

type Shape = { readonly admitted: AdmittedPlan; requests: number[]; readonly waiting: WarmSandbox[] }
type WarmSandbox = {
  readonly setting: CallSetup
  readonly started: StartedProcess
  readonly since: number
  gone: boolean
}

/** bubblewrap sets this variable itself when it starts the tool, so the gate must not. */
const SET_BY_BWRAP = 'PWD'

export class WarmStock {
  readonly #equipment: Equipment
  readonly #gate: readonly string[] | undefined
  readonly #shapes = new Map<string, Shape>()
  #making: Promise<void> | undefined
  #timer: NodeJS.Timeout | undefined
  #inProgress = 0
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

  /**
   * Releases a warm sandbox into this call. Undefined if none is ready, or if the call's shape
   * can't be prepared.
   */
  take(admitted: AdmittedPlan, stdin: Uint8Array | undefined): ReleasedSandbox | undefined {
    const shape = this.#shapeOf(admitted)
    if (shape === undefined) return undefined
    shape.requests.push(performance.now())
    this.#scheduleTending()
    for (let next = shape.waiting.shift(); next !== undefined; next = shape.waiting.shift()) {
      const released = this.#release(next, admitted, stdin)
      if (released !== undefined) return released
    }
    return undefined
  }

  #release(
    warm: WarmSandbox,
    { plan }: AdmittedPlan,
    stdin: Uint8Array | undefined,
  ): ReleasedSandbox | undefined {
    const { [SET_BY_BWRAP]: _, ...env } = plan.executor.env
    const delivery = deliveryOf(rlimitsOf(plan, this.#equipment.host), env, plan.executor.argv)
    if (!warm.gone && performance.now() - warm.since <= this.#stale_ms) {
      try {
        warm.started.wired.release(gateInput(delivery, stdin))
        return { setting: warm.setting, started: warm.started, delivery }
      } catch {
        // The release failed, so nothing ran (L2).
      }
    }
    void discard(warm)
    return undefined
  }

  /**
   * Makes a warm sandbox for this call now and releases it: for the probe, which tests this way.
   */
  async madeFor(admitted: AdmittedPlan, stdin: Uint8Array | undefined): Promise<ReleasedSandbox | undefined> {
    if (!this.#canPrepare(admitted)) return undefined
    const shape: Shape = { admitted, requests: [], waiting: [] }
    await this.#prepare(shape)
    const [warm] = shape.waiting
    return warm === undefined ? undefined : this.#release(warm, admitted, stdin)
  }

  /**
   * Whether a warm sandbox waits for such a call; undefined if its shape can't be prepared. The
   * question counts as a request.
   */
  readyFor(admitted: AdmittedPlan): boolean | undefined {
    const shape = this.#shapeOf(admitted)
    if (shape === undefined) return undefined
    if (shape.waiting.some(({ gone }) => !gone)) return true
    if (shape.requests.length === 0) {
      shape.requests.push(performance.now())
      this.#scheduleTending()
    }
    return false
  }

  #scheduleTending(): void {
    if (this.#closed) return
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => void this.#tend(), this.#isBusy ? BUSY_PAUSE_MS : PAUSE_MS)
  }

  get #isBusy(): boolean {
    return this.#inProgress > 0 && this.#inProgress + 1 >= CORES
  }

  /** Counts a call in progress; returns the function that ends it. */
  callStarted(): () => void {
    this.#inProgress += 1
    if (this.#shapes.size > 0) this.#scheduleTending()
    let isOver = false
    return () => {
      if (isOver) return
      isOver = true
      this.#inProgress -= 1
      if (this.#shapes.size === 0 || this.#closed || this.#isBusy) return
      clearTimeout(this.#timer)
      setImmediate(() => void this.#tend()) // at once: the agent needs time before its next call
    }
  }

  async close(): Promise<void> {
    this.#closed = true
    clearTimeout(this.#timer)
    await this.#making
    for (const { waiting } of this.#shapes.values()) await Promise.all(waiting.splice(0).map(discard))
  }

  #canPrepare({ plan, profile }: AdmittedPlan): boolean {
    return this.#gate !== undefined && !this.#closed && profile === 'c_offline' && isPlain(plan)
  }

  #shapeOf(admitted: AdmittedPlan): Shape | undefined {
    const { plan } = admitted
    if (this.#gate === undefined || !this.#canPrepare(admitted)) return undefined
    const { bwrap } = warmCommand(admitted, this.#equipment.host, {}, this.#gate)
    const { memory_bytes, pids } = plan.limits // the limits of its cgroup
    const key = `${memory_bytes} ${pids} ${bwrap?.options}`
    const existing = this.#shapes.get(key)
    if (existing !== undefined) return existing
    const executor = { ...plan.executor, argv: [], env: {} } // a shape holds nothing of a call
    const shape: Shape = { admitted: { ...admitted, plan: { ...plan, executor } }, requests: [], waiting: [] }
    this.#shapes.set(key, shape)
    if (this.#shapes.size > SHAPES_MAX) this.#evictOne()
    return shape
  }

  #evictOne(): void {
    const [oldest] = [...this.#shapes].toSorted(([, a], [, b]) => lastRequest(a) - lastRequest(b))
    if (oldest === undefined) return
    this.#shapes.delete(oldest[0])
    for (const warm of oldest[1].waiting.splice(0)) void discard(warm)
  }

  /**
   * The least recently requested of the shapes with more sandboxes than recent requests; it gives
   * one up.
   */
  #leastWanted(now: number): Shape | undefined {
    const idle = [...this.#shapes.values()].filter(
      ({ requests, waiting }) => waiting.length > requests.filter((at) => now - at < DEMAND_MS).length,
    )
    return idle.toSorted((a, b) => lastRequest(a) - lastRequest(b))[0]
  }

  /** Drops stale sandboxes and makes at most one; the next after another pause. */
  async #tend(): Promise<void> {
    if (this.#making !== undefined || this.#closed) return
    const now = performance.now()
    for (const [key, shape] of this.#shapes) {
      while (shape.waiting[0] !== undefined && now - shape.waiting[0].since > this.#stale_ms)
        void discard(shape.waiting.shift())
      const last = shape.requests.at(-1) ?? 0
      shape.requests = shape.requests.filter((at) => now - at < DEMAND_MS || at === last)
      if (now - last <= this.#stale_ms) continue
      this.#shapes.delete(key)
      for (const warm of shape.waiting.splice(0)) void discard(warm)
    }
    const all = [...this.#shapes.values()].reduce((sum, { waiting }) => sum + waiting.length, 0)
    const [wanted] = [...this.#shapes.values()]
      .filter(({ requests, waiting }) => waiting.length < Math.min(requests.length, READY_MAX))
      .toSorted((a, b) => lastRequest(b) - lastRequest(a))
    const idle = wanted === undefined || all < READY_MAX ? undefined : this.#leastWanted(now)
    const room =
      all < READY_MAX ||
      (idle !== undefined && wanted !== undefined && lastRequest(idle) < lastRequest(wanted))
    if (wanted !== undefined && room) {
      void discard(idle?.waiting.shift())
      this.#making = this.#prepare(wanted).finally(() => {
        this.#making = undefined
      })
      await this.#making
      this.#scheduleTending()
    } else if (this.#shapes.size > 0) {
      this.#timer = setTimeout(() => void this.#tend(), Math.min(DEMAND_MS, this.#stale_ms)).unref()
    }
  }

  async #prepare({ admitted, waiting }: Shape): Promise<void> {
    const settled = await setUpCall(this.#equipment, admitted, {})
    if (!settled.ok) return // the next call starts cold and reports the fault
    const setting = settled.value
    try {
      const command = warmCommand(admitted, this.#equipment.host, setting.place, this.#gate ?? [])
      const started = await start(this.#equipment, command, { gated: true })
      const warm: WarmSandbox = { setting, started, since: performance.now(), gone: false }
      const gone = (): void => {
        warm.gone = true
      }
      started.ended.then(gone, gone)
      if (this.#closed) await discard(warm)
      else waiting.push(warm)
    } catch {
      await setting.tearDown() // no descriptors or memory: the next call starts cold
    }
  }
}

/** A shape without requests is new and counts as the most recent. */
const lastRequest = ({ requests }: Shape): number => requests.at(-1) ?? Number.POSITIVE_INFINITY

/**
 * Whether the gate can deliver all that the plan needs. Any other field excludes the plan, even one
 * that is unknown here.
 */
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

async function discard(warm: WarmSandbox | undefined): Promise<void> {
  if (warm === undefined) return
  const { setting, started } = warm
  if (started.pid !== undefined && !warm.gone) killGroup(started.pid)
  await started.ended
  started.wired.closeLifeline()
  const { child } = parseStatus(started.wired.status())
  started.wired.close()
  await setting.place.group?.empty()
  if (child !== undefined) await endSandbox(child)
  await setting.tearDown()
}
