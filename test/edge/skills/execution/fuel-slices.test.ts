// Promise: the fuel accounting inside an isolate hands out fuel in slices of a bounded length, and
// charges for texts before it decodes them. The accounting is source text; it runs here with a
// clock, a decoder and a WebAssembly of its own.

import { expect, test } from 'vitest'
import { FUEL_ACCOUNTING } from '../../../../edge/skills/execution/isolate-fuel.ts'

type Account = {
  readonly used: number
  pay: (units: number) => void
  instance: (
    module: unknown,
    wanted: object,
  ) => { countersign: { fuel: { value: bigint }; more: { work: () => Promise<void> } } }
}
type Accounting = {
  FuelAccount: new (granted: number, waitForTurn: () => Promise<void>) => Account
  collectGarbage: (bytes: number) => void
}

function accounting() {
  const clock = { now: 0, others_ms: 0 }
  const collected = { times: 0 }
  class Decoder {
    decode(bytes: Uint8Array): string {
      return Buffer.from(bytes).toString()
    }
  }
  class Instance {
    constructor(_module: unknown, imports: object) {
      Object.assign(this, imports) // an instance shows what it would have got
    }
  }
  class Global {
    value: bigint
    constructor(_type: unknown, value: bigint) {
      this.value = value
    }
  }
  class Suspending {
    readonly work: () => Promise<void>
    constructor(work: () => Promise<void>) {
      this.work = work
    }
  }
  const wasm = { promising: (run: unknown) => run, Global, Instance, Suspending }
  const names = ['WebAssembly', 'TextDecoder', 'Date', 'globalThis', 'Refused']
  const build = new Function(...names, `${FUEL_ACCOUNTING}\nreturn { FuelAccount, collectGarbage }`)
  const parts = build(
    wasm,
    Decoder,
    { now: () => clock.now },
    { gc: () => void collected.times++ },
    Error,
  ) as Accounting
  const waitForTurn = async (): Promise<void> => {
    clock.now += clock.others_ms
  }
  const account = new parts.FuelAccount(1_000_000_000, waitForTurn)
  const { fuel, more } = account.instance(null, {}).countersign
  /** Uses up a slice in this many milliseconds, and returns the next slice. */
  const next = async (ms: number): Promise<number> => {
    clock.now += ms
    fuel.value = 0n
    await more.work()
    return Number(fuel.value)
  }
  return { clock, collected, account, next, wasm, decoder: new Decoder(), ...parts }
}

test('W01 a slice of fuel takes 2 ms while others wait (`skill_slice_ms`) and 10 ms alone (`skill_slice_alone_ms`)', async () => {
  const crowded = accounting()
  crowded.clock.others_ms = 50
  const slices: number[] = []
  for (let i = 0; i < 4; i++) slices.push(await crowded.next(1)) // as fast as 500,000 units a millisecond at first
  expect(slices[0]).toBe(1_000_000) // 2 ms
  const alone = accounting()
  let slice = 500_000
  for (let i = 0; i < 6; i++) slice = await alone.next(slice / 500_000)
  expect(slice).toBe(5_000_000) // 10 ms
})

test('W01 no slice has more than 10 million units of fuel (`skill_slice_fuel_most`)', async () => {
  const { next } = accounting()
  let slice = 0
  for (let i = 0; i < 12; i++) slice = await next(0)
  expect(slice).toBe(10_000_000)
})

test('W07 a text passed to the host has at most 128 KiB (`skill_asked_text_bytes`), a result 1 MiB (`skill_text_bytes`)', async () => {
  const { wasm, decoder } = accounting()
  const decode = (bytes: number) => () => decoder.decode(Buffer.alloc(bytes)).length
  expect(decode(131_072)()).toBe(131_072)
  expect(decode(131_073)).toThrow('a text has 131073 bytes; the limit is 131072')
  const run = wasm.promising(async () => undefined) as () => Promise<void>
  await run()
  expect(decode(1_048_576)()).toBe(1_048_576)
  expect(decode(1_048_577)).toThrow('a text has 1048577 bytes; the limit is 1048576')
})

test('W12 each byte of a decoded text costs 10 units of fuel (`skill_text_byte_fuel`)', () => {
  const { account, decoder } = accounting()
  const before = account.used
  decoder.decode(Buffer.alloc(1_000))
  expect(account.used - before).toBe(10_000)
})

test('W03 garbage is collected when ended calls have left 64 MiB (`skill_sweep_bytes`)', () => {
  const { collected, collectGarbage } = accounting()
  collectGarbage(67_108_863)
  expect(collected.times).toBe(0)
  collectGarbage(1)
  expect(collected.times).toBe(1)
  collectGarbage(67_108_863)
  expect(collected.times).toBe(1)
})
