// Owns `<home>/spool`: what this worker has begun and what it has not been thanked for, over any death of its process.
// <call>.<fence>.begun   made just before the process starts. Found after a crash, it says: this ran here, nobody saw the end, never run
// it
//                          again (L2).
//   <call>.json            the settlement, whole, made before it is sent. Found after a crash, it is sent.
// Both go when the edge has acknowledged. No fsync: a write survives the death of this process in any case, and only a loss of power undoes
// it; then the call ends `indeterminate` by its lease, which is the truth, and every call is spared the disk's latency. For the same reason
// no file is renamed over another: ext4 writes such a file out at once, and removing it then waits for the disk (2 ms against 0.02).
// One process owns the folder (serve.ts sees to that). It sends nothing, and throws for nothing that a disk can do.

import {
  chmodSync,
  closeSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { z } from 'zod'
import { PATTERNS } from '../shared/ids.ts'
import { MAX_LIMITS } from '../shared/limits.ts'
import { err, ok, type Result } from '../shared/result.ts'
import { Settlement } from '../shared/worker-wire.ts'

const Spooled = z.strictObject({ call: z.string().regex(PATTERNS.call), deadline_ms: z.int(), settlement: Settlement })
export type Spooled = z.infer<typeof Spooled>

/** Past these, nothing new is claimed: an edge that takes no results gets no more work done. */
export type SpoolBounds = { readonly files: number; readonly bytes: number }
export const SPOOL_BOUNDS: SpoolBounds = { files: 1_000, bytes: 256 * 1024 * 1024 }

/** The longest that a grant can last, and then some: what was begun before that can't be granted again. */
const BEGUN_KEPT_MS = 2 * MAX_LIMITS.timeout_ms

const BEGUN = /^(call_[0-9A-Z]+_[0-9]+)\.([0-9]+)\.begun$/
const SETTLED = /^(call_[0-9A-Z]+_[0-9]+)\.json$/

export type Left = {
  /** To be sent. */
  readonly settled: Spooled[]
  /** Begun by a former life, and no end seen. */
  readonly lost: string[]
  /** Put aside under another name. */
  readonly unreadable: string[]
}

export class Spool {
  readonly #dir: string
  readonly #bounds: SpoolBounds
  /** The highest fence under which each call was begun here. */
  readonly #begun = new Map<string, number>()
  /** Bytes of each settlement that lies here. */
  readonly #settled = new Map<string, number>()
  #bytes = 0

  constructor(dir: string, bounds: SpoolBounds = SPOOL_BOUNDS) {
    this.#dir = dir
    this.#bounds = bounds
  }

  /** Reads what a former life left. */
  open(now_ms: number): Result<Left, string> {
    const left: Left = { settled: [], lost: [], unreadable: [] }
    try {
      mkdirSync(this.#dir, { recursive: true, mode: 0o700 })
      chmodSync(this.#dir, 0o700)
      for (const name of readdirSync(this.#dir)) this.#adopt(name, now_ms, left)
    } catch (error) {
      return err(`the spool \`${this.#dir}\` can't be used (${reason(error)}); let it belong to the user that runs the worker`)
    }
    return ok({ ...left, lost: [...this.#begun.keys()].filter((call) => !this.#settled.has(call)) })
  }

  #adopt(name: string, now_ms: number, left: Left): void {
    const path = join(this.#dir, name)
    const [, begun = '', fence] = BEGUN.exec(name) ?? []
    const [, call] = SETTLED.exec(name) ?? []
    if (fence !== undefined) {
      if (now_ms - statSync(path).mtimeMs > BEGUN_KEPT_MS) remove(path)
      else this.#begun.set(begun, Math.max(Number(fence), this.#begun.get(begun) ?? 0))
    } else if (call !== undefined) {
      const text = readFileSync(path)
      const spooled = parsed(text.toString('utf8'))
      if (spooled?.call === call) {
        left.settled.push(spooled)
        this.#note(call, text.byteLength)
        this.#begun.set(call, Math.max(spooled.settlement.fence, this.#begun.get(call) ?? 0))
      } else {
        renameSync(path, `${path}.unreadable`)
        left.unreadable.push(name)
      }
    } else if (name.endsWith('.new')) remove(path) // half written when we died: that settlement was never sent
  }

  /** Notes that the call is about to run under this fence. `false`: it was begun here before, under this fence or a later one. */
  begin(call: string, fence: number): Result<boolean, string> {
    const before = this.#begun.get(call)
    if (before !== undefined && before >= fence) return ok(false)
    try {
      closeSync(openSync(this.#begunPath(call, fence), 'wx', 0o600))
    } catch (error) {
      return err(reason(error))
    }
    // Only a call whose tool is idempotent is granted again, under a higher fence.
    if (before !== undefined) remove(this.#begunPath(call, before))
    this.#begun.set(call, fence)
    return ok(true)
  }

  /** Keeps a settlement until `drop`. Whole or not at all. */
  keep(spooled: Spooled): Result<void, string> {
    const text = JSON.stringify(spooled)
    const path = this.#settledPath(spooled.call)
    const draft = `${path}.new`
    try {
      writeFileSync(draft, text, { mode: 0o600 })
      renameSync(draft, path)
    } catch (error) {
      remove(draft)
      return err(reason(error))
    }
    this.#note(spooled.call, Buffer.byteLength(text))
    return ok(undefined)
  }

  /** The call is over for us: nothing of it stays. */
  drop(call: string): void {
    const fence = this.#begun.get(call)
    if (fence !== undefined) remove(this.#begunPath(call, fence))
    this.#begun.delete(call)
    const bytes = this.#settled.get(call)
    if (bytes === undefined) return
    remove(this.#settledPath(call))
    this.#bytes -= bytes
    this.#settled.delete(call)
  }

  get full(): boolean {
    return this.#settled.size >= this.#bounds.files || this.#bytes >= this.#bounds.bytes
  }

  readonly #begunPath = (call: string, fence: number): string => join(this.#dir, `${call}.${fence}.begun`)
  readonly #settledPath = (call: string): string => join(this.#dir, `${call}.json`)

  #note(call: string, bytes: number): void {
    this.#bytes += bytes - (this.#settled.get(call) ?? 0)
    this.#settled.set(call, bytes)
  }
}

/** What can't be removed stays: the next life sends it again, and the edge says that it has it. */
function remove(path: string): void {
  try {
    unlinkSync(path)
  } catch {
    // not there, or a disk that refuses
  }
}

function parsed(text: string): Spooled | undefined {
  try {
    return Spooled.safeParse(JSON.parse(text)).data
  } catch {
    return undefined
  }
}

const reason = (error: unknown): string => (error instanceof Error && 'code' in error ? String(error.code) : String(error))
