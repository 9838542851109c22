// Fuel accounting inside an isolate, as source text of its harness. Fuel is handed out in slices,
// and other skills take their turn between slices, so that a skill may compute for seconds without
// delaying anybody. The length of a slice follows the clock; how much fuel a call uses, and where
// it runs out, does not.

import { LIMITS } from '../../../shared/limits.ts'

/**
 * Code that can't suspend (a start function, `cabi_realloc`, anything called from JavaScript) has
 * one fixed budget, which is refilled only when the skill has run suspendable code again, however
 * often such code is called in between (the edge calls `cabi_realloc` for each key of a list).
 * Suspendable code asks for more through JSPI when its counter is below zero.
 */
export const FUEL_ACCOUNTING = `
const SLICE = { first: ${LIMITS.skill_slice_fuel}, least: 100000, most: ${LIMITS.skill_slice_fuel_most}, ms: ${LIMITS.skill_slice_ms}, alone_ms: ${LIMITS.skill_slice_alone_ms}, crowded_ms: 3 }
const SYNC_BUDGET = ${LIMITS.skill_alone_fuel}

/**
 * JavaScript calls exports through a wrapper; engines and other modules need the original export.
 */
const RAW = new WeakMap()
const raw = (value) => RAW.get(value) ?? value
/** The account of the call whose code runs now. It changes only where a call waits. */
let running

/**
 * \`run\` is the last export that jco makes promising. When it has returned, the texts that are
 * decoded are its result, which may be longer than the texts of host calls.
 */
const promising = WebAssembly.promising
WebAssembly.promising = (wrapped) => {
  const account = running
  const run = promising(raw(wrapped))
  account.run = run
  return async (...args) => {
    const returned = await run(...args)
    running = account
    if (account.run === run) account.textLimit = ${LIMITS.skill_text_bytes}
    return returned
  }
}

/** Decoding a text runs no code of the skill, so it is charged here, before the work is done. */
const decode = TextDecoder.prototype.decode
TextDecoder.prototype.decode = function (bytes, options) {
  const length = bytes?.byteLength ?? 0
  if (length > running.textLimit) throw new Refused('a text has ' + length + ' bytes; the limit is ' + running.textLimit)
  running.pay(${LIMITS.skill_text_byte_fuel} * length)
  return decode.call(this, bytes, options)
}

/**
 * Collects garbage where the platform exposes it. The engine starts its collector by the size of
 * the JavaScript heap, and the memories of skills don't count towards that.
 */
let uncollected = 0
const collectGarbage = (bytes) => {
  uncollected += bytes
  if (uncollected < ${LIMITS.skill_sweep_bytes}) return
  uncollected = 0
  globalThis.gc?.()
}

class FuelAccount {
  #granted
  /** Fuel outside the counter. */
  #reserve
  #counter = new WebAssembly.Global({ value: 'i64', mutable: true }, 0n)
  #slice = SLICE.first
  #targetMs = SLICE.ms
  #waitForTurn
  #since = Date.now()
  /** When other skills had a turn last. */
  #yieldedAt = Date.now()
  #isSync = false
  /**
   * The rest of the budget for code that can't suspend, and the total when that code ran last: a
   * different total shows that suspendable code has paid since.
   */
  #syncBudget = 0
  #totalAfterSync
  isEmpty = false
  run
  /** The longest text that may be decoded now. */
  textLimit = ${LIMITS.skill_asked_text_bytes}

  /** \`waitForTurn\` resolves when it is this call's turn again, and throws if the call is over. */
  constructor(granted, waitForTurn) {
    this.#granted = granted
    this.#reserve = granted
    this.#waitForTurn = waitForTurn
    running = this
    this.#fill(Math.min(granted, this.#slice))
  }

  get #total() {
    return this.#reserve + Number(this.#counter.value)
  }
  get used() {
    return this.#granted - Math.max(0, this.#total)
  }

  /** Puts this much of the remaining fuel into the counter and the rest into the reserve. */
  #fill(units) {
    this.#reserve = this.#total - units
    this.#counter.value = BigInt(units)
  }

  #exhausted() {
    this.isEmpty = true
    throw new Refused('fuel')
  }

  /** For a stack overflow: its depth differs by machine, so the call is charged all its fuel. */
  drain() {
    this.#reserve = 0
    this.#counter.value = 0n
  }

  pay(units) {
    this.#counter.value -= BigInt(units)
    this.#totalAfterSync -= units
    if (this.#total < 0) this.#exhausted()
  }

  /** Call it after each wait, before the skill's code continues. */
  resumed() {
    running = this
    this.#since = Date.now()
  }

  async #more() {
    if (this.#total < 0) this.#exhausted()
    const before = Date.now()
    const target = (this.#slice * this.#targetMs) / Math.max(1, before - this.#since)
    this.#slice = Math.round(Math.min(SLICE.most, this.#slice * 8, Math.max(SLICE.least, target)))
    await this.#waitForTurn()
    this.resumed()
    this.#yieldedAt = this.#since
    // A long wait shows that others compete for turns; otherwise slices may grow.
    this.#targetMs = this.#since - before > SLICE.crowded_ms ? SLICE.ms : Math.min(SLICE.alone_ms, this.#targetMs * 2)
    this.#fill(Math.min(this.#total, this.#slice))
  }

  /** Yields between host calls, because answers that arrive at once let no other skill run. */
  async yieldIfDue() {
    if (this.#since - this.#yieldedAt < SLICE.alone_ms) return
    await this.#waitForTurn()
    this.resumed()
    this.#yieldedAt = this.#since
  }

  /** Runs code that can't suspend, on its own budget. */
  runSync(work) {
    if (this.#isSync) return work()
    const before = Number(this.#counter.value)
    if (this.#total !== this.#totalAfterSync) this.#syncBudget = SYNC_BUDGET
    const lent = Math.min(this.#total, this.#syncBudget)
    this.#fill(lent)
    this.#isSync = true
    try {
      return work()
    } catch (error) {
      this.isEmpty ||= this.#counter.value < 0n
      throw error
    } finally {
      this.#isSync = false
      const used = lent - Number(this.#counter.value)
      this.#syncBudget = Math.max(0, this.#syncBudget - used)
      this.#fill(before - used)
      this.#totalAfterSync = this.#total
    }
  }

  instance(module, wanted) {
    // Without a prototype, so that a missing import is not found on Object.prototype.
    const record = (entries) => Object.setPrototypeOf(Object.fromEntries(entries), null)
    const unwrap = (values) => record(Object.entries(values).map(([field, value]) => [field, raw(value)]))
    const given = Object.entries(wanted ?? {}).map(([name, values]) => [name, unwrap(values)])
    const fuel = { fuel: this.#counter, more: new WebAssembly.Suspending(() => this.#more()) }
    const imports = record([...given, ['countersign', record(Object.entries(fuel))]])
    return new WebAssembly.Instance(module, imports)
  }

  /** Wraps exported functions, so that a call from JavaScript runs on the budget for such code. */
  wrapExports(exports) {
    const wrapped = Object.entries(exports).map(([name, value]) => {
      if (typeof value !== 'function') return [name, value]
      const wrapper = (...args) => this.runSync(() => value(...args))
      RAW.set(wrapper, value)
      return [name, wrapper]
    })
    return { exports: Object.fromEntries(wrapped) }
  }
}
`
