// How an isolate hands out a call's fuel and takes back its memory, as text of its harness. Fuel comes in slices, between which others have their
// turn, so that a skill may burn for seconds and hold nobody up. How long a slice is follows the clock; what is used and when it ends do not.

import { LIMITS } from '../../../shared/limits.ts'

/**
 * Where nobody can wait (a start function, `cabi_realloc`, what is called from JavaScript) a skill has so much, and must do with it until it has
 * run by itself again, however often it is called before: each key of a list is put where `cabi_realloc` says. Elsewhere it asks for more when
 * its counter is below zero, which waits by JSPI.
 */
export const TANK = `
const SLICE = { first: ${LIMITS.skill_slice_fuel}, least: 100000, most: ${LIMITS.skill_slice_fuel_most}, ms: ${LIMITS.skill_slice_ms}, alone_ms: ${LIMITS.skill_slice_alone_ms}, crowded_ms: 3 }
const ALONE = ${LIMITS.skill_alone_fuel}

/** What is called from JavaScript stands behind a function of ours; engines and other modules want the exports themselves. */
const RAW = new WeakMap()
const raw = (value) => RAW.get(value) ?? value
/** Whose code runs: another's comes in where it waits, and nowhere else. */
let running

/** Where an instance is made, its \`run\` is the last that is to be waited for; when that has returned, what is read is its result. */
const promising = WebAssembly.promising
WebAssembly.promising = (shown) => {
  const tank = running
  const begun = promising(raw(shown))
  tank.run = begun
  return async (...args) => {
    const returned = await begun(...args)
    running = tank
    if (tank.run === begun) tank.longest = ${LIMITS.skill_text_bytes}
    return returned
  }
}

/** What decodes its texts is no code of its own: it is paid before. */
const decode = TextDecoder.prototype.decode
TextDecoder.prototype.decode = function (bytes, options) {
  const length = bytes?.byteLength ?? 0
  if (length > running.longest) throw new Refused('a text of ' + length + ' bytes, where ' + running.longest + ' are the most')
  running.pay(${LIMITS.skill_text_byte_fuel} * length)
  return decode.call(this, bytes, options)
}

/** Where the platform lets us: its own collector comes when JavaScript has filled much, which skills do not. */
let unswept = 0
const sweep = (bytes) => {
  unswept += bytes
  if (unswept < ${LIMITS.skill_sweep_bytes}) return
  unswept = 0
  globalThis.gc?.()
}

class Tank {
  #all
  #left
  #counter = new WebAssembly.Global({ value: 'i64', mutable: true }, 0n)
  #slice = SLICE.first
  #aim = SLICE.ms
  #ask
  #since = Date.now()
  /** When others had their turn last. */
  #rested = Date.now()
  #isAlone = false
  /** What is left of the fuel for where nobody can wait, and what was left of all when it was last touched: who has run by itself has paid since. */
  #room = 0
  #mark
  isEmpty = false
  run
  /** The longest text that is read of it now. */
  longest = ${LIMITS.skill_asked_text_bytes}

  /** \`ask\` waits until it is this call's turn again, and throws where there is none. */
  constructor(all, ask) {
    this.#all = all
    this.#left = all
    this.#ask = ask
    running = this
    this.#fill(Math.min(all, this.#slice))
  }

  get #total() {
    return this.#left + Number(this.#counter.value)
  }
  get used() {
    return this.#all - Math.max(0, this.#total)
  }

  /** What of all that is left is in the counter. */
  #fill(units) {
    this.#left = this.#total - units
    this.#counter.value = BigInt(units)
  }

  #end() {
    this.isEmpty = true
    throw new Refused('fuel')
  }

  /** How deep calls go differs by machine and by compiler, so whoever finds out has burnt all. */
  drain() {
    this.#left = 0
    this.#counter.value = 0n
  }

  pay(units) {
    this.#counter.value -= BigInt(units)
    this.#mark -= units
    if (this.#total < 0) this.#end()
  }

  /** It waited for something else. */
  resumed() {
    running = this
    this.#since = Date.now()
  }

  async #more() {
    if (this.#total < 0) this.#end()
    const before = Date.now()
    const aimed = (this.#slice * this.#aim) / Math.max(1, before - this.#since)
    this.#slice = Math.round(Math.min(SLICE.most, this.#slice * 8, Math.max(SLICE.least, aimed)))
    await this.#ask()
    this.resumed()
    this.#rested = this.#since
    // Who waited long is not alone.
    this.#aim = this.#since - before > SLICE.crowded_ms ? SLICE.ms : Math.min(SLICE.alone_ms, this.#aim * 2)
    this.#fill(Math.min(this.#total, this.#slice))
  }

  /** Between what it asks for: answers that come at once let nobody in. */
  async rest() {
    if (this.#since - this.#rested < SLICE.alone_ms) return
    await this.#ask()
    this.resumed()
    this.#rested = this.#since
  }

  alone(work) {
    if (this.#isAlone) return work()
    const kept = Number(this.#counter.value)
    if (this.#total !== this.#mark) this.#room = ALONE
    const lent = Math.min(this.#total, this.#room)
    this.#fill(lent)
    this.#isAlone = true
    try {
      return work()
    } catch (error) {
      this.isEmpty ||= this.#counter.value < 0n
      throw error
    } finally {
      this.#isAlone = false
      const burnt = lent - Number(this.#counter.value)
      this.#room = Math.max(0, this.#room - burnt)
      this.#fill(kept - burnt)
      this.#mark = this.#total
    }
  }

  instance(module, wanted) {
    const own = (entries) => Object.setPrototypeOf(Object.fromEntries(entries), null) // what is not given is not JavaScript's own
    const given = Object.entries(wanted ?? {}).map(([name, values]) => [name, own(Object.entries(values).map(([field, value]) => [field, raw(value)]))])
    const fuel = { fuel: this.#counter, more: new WebAssembly.Suspending(() => this.#more()) }
    const imports = own([...given, ['countersign', own(Object.entries(fuel))]])
    return new WebAssembly.Instance(module, imports)
  }

  shown(exports) {
    const shown = Object.entries(exports).map(([name, value]) => {
      if (typeof value !== 'function') return [name, value]
      const alone = (...args) => this.alone(() => value(...args))
      RAW.set(alone, value)
      return [name, alone]
    })
    return { exports: Object.fromEntries(shown) }
  }
}
`
