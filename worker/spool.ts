// Owns `<home>/spool`: one file for each call from just before its process starts until the edge has acknowledged its settlement.
//   begun    the file holds the fence alone. Found after a crash, it says: this ran here, nobody saw the end, never run it again (L2).
//   settled  the file holds the settlement, whole, written before it is sent. Found after a crash, it is sent.
// No fsync: a write survives the death of this process in any case, and only a loss of power undoes it. Then the call ends `indeterminate`
// by its lease, which is the truth, and every call is spared the disk's latency.
// It sends nothing (see settling.ts), and throws for nothing that a disk can do.

import {
  chmodSync,
  closeSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  unlinkSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { join } from 'node:path'
import { z } from 'zod'
import { PATTERNS } from '../shared/ids.ts'
import { MAX_LIMITS } from '../shared/limits.ts'
import { err, ok, type Result } from '../shared/result.ts'
import { Settlement } from '../shared/wire.ts'

const Begun = z.strictObject({ fence: z.int().min(1) })
const Settled = z.strictObject({ call: z.string().regex(PATTERNS.call), deadline_ms: z.int(), settlement: Settlement })
export type Spooled = z.infer<typeof Settled>

/** Past these, nothing new is claimed: an edge that takes no results gets no more work done. */
export type SpoolBounds = { readonly files: number; readonly bytes: number }
export const SPOOL_BOUNDS: SpoolBounds = { files: 1_000, bytes: 256 * 1024 * 1024 }

/** The longest that a grant can last, and then some: an older `begun` can't be granted again. */
const BEGUN_KEPT_MS = 2 * MAX_LIMITS.timeout_ms

const SUFFIX = '.json'

export class Spool {
  readonly #dir: string
  readonly #bounds: SpoolBounds
  /** Bytes of each settled call that lies here. */
  readonly #settled = new Map<string, number>()
  #bytes = 0

  constructor(dir: string, bounds: SpoolBounds = SPOOL_BOUNDS) {
    this.#dir = dir
    this.#bounds = bounds
  }

  /** What a former life left: settlements to send, and names of files that could not be read and were put aside. */
  open(now_ms: number): Result<{ left: Spooled[]; lost: string[]; unreadable: string[] }, string> {
    const left: Spooled[] = []
    const lost: string[] = []
    const unreadable: string[] = []
    try {
      mkdirSync(this.#dir, { recursive: true, mode: 0o700 })
      chmodSync(this.#dir, 0o700)
      for (const name of readdirSync(this.#dir)) {
        const path = join(this.#dir, name)
        const call = name.slice(0, -SUFFIX.length)
        if (!name.endsWith(SUFFIX) || !PATTERNS.call.test(call)) {
          if (name.endsWith('.new')) rmSync(path, { force: true }) // half written when we died: the settlement was never sent
          continue
        }
        const text = readFileSync(path)
        const kept = parsed(text.toString('utf8'))
        if (kept.kind === 'settled' && kept.spooled.call === call) {
          left.push(kept.spooled)
          this.#note(call, text.byteLength)
        } else if (kept.kind === 'begun') {
          if (now_ms - statSync(path).mtimeMs > BEGUN_KEPT_MS) rmSync(path, { force: true })
          else lost.push(call)
        } else {
          renameSync(path, `${path}.unreadable`)
          unreadable.push(name)
        }
      }
      return ok({ left, lost, unreadable })
    } catch (error) {
      return err(`the spool \`${this.#dir}\` can't be used (${reason(error)}); let it belong to the user that runs the worker`)
    }
  }

  /** Notes that the call is about to run under this fence. `false`: it ran here before, under this fence or a later one. */
  begin(call: string, fence: number): Result<boolean, string> {
    const path = this.#path(call)
    try {
      const file = openSync(path, 'wx', 0o600)
      writeSync(file, `{"fence":${fence}}`)
      closeSync(file)
      return ok(true)
    } catch (error) {
      return reason(error) === 'EEXIST' ? this.#beginAgain(call, fence) : err(reason(error))
    }
  }

  /** Only a call whose tool is idempotent is granted again, under a higher fence. */
  #beginAgain(call: string, fence: number): Result<boolean, string> {
    let before: Kept
    try {
      before = parsed(readFileSync(this.#path(call), 'utf8'))
    } catch (error) {
      return err(reason(error))
    }
    const ranUnder = before.kind === 'begun' ? before.fence : before.kind === 'settled' ? before.spooled.settlement.fence : Infinity
    if (ranUnder >= fence) return ok(false)
    const written = this.#write(call, `{"fence":${fence}}`)
    return written.ok ? ok(true) : written
  }

  /** Keeps a settlement until `drop`. Whole or not at all. */
  keep(spooled: Spooled): Result<void, string> {
    const text = JSON.stringify(spooled)
    const written = this.#write(spooled.call, text)
    if (written.ok) this.#note(spooled.call, Buffer.byteLength(text))
    return written
  }

  drop(call: string): void {
    this.#bytes -= this.#settled.get(call) ?? 0
    this.#settled.delete(call)
    remove(this.#path(call))
  }

  get size(): { files: number; bytes: number } {
    return { files: this.#settled.size, bytes: this.#bytes }
  }

  get full(): boolean {
    return this.#settled.size >= this.#bounds.files || this.#bytes >= this.#bounds.bytes
  }

  #path(call: string): string {
    return join(this.#dir, `${call}${SUFFIX}`)
  }

  #note(call: string, bytes: number): void {
    this.#bytes += bytes - (this.#settled.get(call) ?? 0)
    this.#settled.set(call, bytes)
  }

  #write(call: string, text: string): Result<void, string> {
    const path = this.#path(call)
    const draft = `${path}.new`
    try {
      writeFileSync(draft, text, { mode: 0o600 })
      renameSync(draft, path)
      return ok(undefined)
    } catch (error) {
      remove(draft)
      return err(reason(error))
    }
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

type Kept = { kind: 'begun'; fence: number } | { kind: 'settled'; spooled: Spooled } | { kind: 'unreadable' }

/** An empty file is a `begun` whose fence did not get written: we died between two system calls. */
function parsed(text: string): Kept {
  if (text === '') return { kind: 'begun', fence: Number.MAX_SAFE_INTEGER }
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    return { kind: 'unreadable' }
  }
  const begun = Begun.safeParse(value)
  if (begun.success) return { kind: 'begun', fence: begun.data.fence }
  const settled = Settled.safeParse(value)
  return settled.success ? { kind: 'settled', spooled: settled.data } : { kind: 'unreadable' }
}

const reason = (error: unknown): string => (error instanceof Error && 'code' in error ? String(error.code) : String(error))
