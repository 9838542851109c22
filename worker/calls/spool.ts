// Owns `<home>/spool`: what this worker has begun and what it has not been thanked for, over any death of its process. It is one file, to
// which lines are added:
//   {"begun":CALL,"fence":N,"at_ms":T}   just before the process starts. Found after a crash without its settlement, it says: this ran here,
//                                        its end is unknown, never run it again (L2). `"reported":true` is added at the start that finds it,
//                                        so that only that start reports it.
//   {"settled":{…}}                      the settlement, whole, before it is sent. Found after a crash, it is sent.
//   {"over":CALL,"fence":N}              the edge has acknowledged it; what is of a later fence stays.
// Once all are over the file is empty again, and where that never happens it is written anew with what still matters. No file is made for a
// call: ext4 looks at all that were removed of late before it makes one (0.8 ms where hundreds come and go each second). No fsync: a write
// survives the death of this process in any case, and only a loss of power undoes it; then the call ends `indeterminate` by its lease, which
// is the truth, and every call is spared the disk's latency.
// One process owns the folder (serve.ts sees to that). It sends nothing, and throws for nothing that a disk can do.

import {
  appendFileSync,
  chmodSync,
  closeSync,
  constants,
  existsSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  readFileSync,
  readSync,
  renameSync,
  rmSync,
  writeSync,
} from 'node:fs'
import { join } from 'node:path'
import { z } from 'zod'
import { PATTERNS } from '../../shared/ids.ts'
import { LIMITS, MAX_LIMITS } from '../../shared/limits.ts'
import { err, ok, type Result } from '../../shared/result.ts'
import { Settlement } from '../../shared/wire/workers.ts'
import { remedyFor } from '../host/errno-remedies.ts'

const CallId = z.string().regex(PATTERNS.call)
const Spooled = z.strictObject({ call: CallId, deadline_ms: z.int(), settlement: Settlement })
export type Spooled = z.infer<typeof Spooled>

const Line = z.union([
  z.strictObject({ begun: CallId, fence: z.int(), at_ms: z.int(), reported: z.literal(true).optional() }),
  z.strictObject({ settled: Spooled }),
  /** Without a fence in spools of before: under any. */
  z.strictObject({ over: CallId, fence: z.int().optional() }),
])
export type Line = z.infer<typeof Line>

/** Past these, nothing new is claimed: an edge that takes no results gets no more work done. */
export type SpoolBounds = {
  readonly settlements: number
  readonly bytes: number
  /** The file is written anew when it is longer, and twice as long as what matters of it. */
  readonly file_bytes: number
}
export const SPOOL_BOUNDS: SpoolBounds = {
  settlements: 1_000,
  bytes: 256 * 1024 * 1024,
  file_bytes: 64 * 1024 * 1024,
}

/** The longest that a grant can last, and then some: what was begun before that can't be granted again. */
const BEGUN_KEPT_MS = 2 * MAX_LIMITS.timeout_ms

export type Left = {
  /** To be sent. */
  readonly settled: Spooled[]
  /** Calls that an earlier process began and that have no recorded end, except those that an earlier start reported. */
  readonly lost: string[]
  /** The file that holds what could not be read. */
  readonly unreadable: string | undefined
}

/** For the beginnings of a few calls, and for the end of one that says much. */
const ROOM_TO_BEGIN = 4_096
const ROOM_TO_END = LIMITS.body_bytes

const UNREADABLE = 'unreadable'

/** Where a line stands in the file. */
type Place = { readonly at: number; readonly length: number }
/** `settlement`: none while it runs, as far as is known. */
type Live = {
  readonly fence: number
  readonly at_ms: number
  readonly settlement: (Place & { readonly fence: number }) | undefined
  /** A start found it begun without an end, and reported it. */
  readonly reported?: true
}

export class Spool {
  readonly #dir: string
  readonly #bounds: SpoolBounds
  readonly #live = new Map<string, Live>()
  #fd = -1
  /** Where the next line is written: what a full disk left half written is written over. */
  #end = 0
  /** How far the disk has given room: blanks stand there, which are half a line. */
  #room = 0
  /** Why the disk did not take what was last written. */
  #refused: string | undefined
  #told: (refused: string | undefined) => void = () => undefined

  constructor(dir: string, bounds: SpoolBounds = SPOOL_BOUNDS) {
    this.#dir = dir
    this.#bounds = bounds
  }

  /** Reads what a former life left. */
  open(now_ms: number): Result<Left, string> {
    try {
      mkdirSync(this.#dir, { recursive: true, mode: 0o700 })
      chmodSync(this.#dir, 0o700)
      this.#fd = openSync(this.#path, constants.O_RDWR | constants.O_CREAT, 0o600)
      const { settled, unreadable } = this.#read()
      for (const [call, { settlement, at_ms }] of this.#live)
        if (settlement === undefined && now_ms - at_ms > BEGUN_KEPT_MS) this.#live.delete(call)
      const aside = join(this.#dir, UNREADABLE)
      if (unreadable.length > 0) appendFileSync(aside, Buffer.concat(unreadable), { mode: 0o600 })
      const lost = [...this.#live].filter(
        ([, { settlement, reported }]) => settlement === undefined && reported === undefined,
      )
      for (const [call, live] of lost) this.#live.set(call, { ...live, reported: true })
      if (this.#end > 0) this.#rewrite()
      return ok({
        settled: [...settled].flatMap(([call, one]) =>
          this.#live.get(call)?.settlement?.fence === one.settlement.fence ? [one] : [],
        ),
        lost: lost.map(([call]) => call),
        unreadable: unreadable.length > 0 ? aside : undefined,
      })
    } catch (error) {
      return err(`the spool \`${this.#dir}\` can't be used (${reason(error)}); ${remedyFor(reason(error))}`)
    }
  }

  /** What waits there, for whoever looks on while another process owns it. */
  look(): { readonly settlements: number; readonly bytes: number; readonly unreadable: boolean } {
    if (existsSync(this.#path)) this.#read()
    const { length: settlements } = this.#settlements
    return {
      settlements,
      bytes: bytesOf(this.#settlements),
      unreadable: existsSync(join(this.#dir, UNREADABLE)),
    }
  }

  #read(): { readonly settled: ReadonlyMap<string, Spooled>; readonly unreadable: readonly Buffer[] } {
    const settled = new Map<string, Spooled>()
    const unreadable: Buffer[] = []
    const bytes = readFileSync(this.#path)
    // Behind the last end of a line stands what was half written when we died: nothing was done on its word.
    for (let newline = bytes.indexOf('\n'); newline >= 0; newline = bytes.indexOf('\n', this.#end)) {
      const place = { at: this.#end, length: newline + 1 - this.#end }
      const line = parsed(bytes.toString('utf8', place.at, newline))
      if (line === undefined) unreadable.push(bytes.subarray(place.at, newline + 1))
      else this.#note(line, place)
      if (line !== undefined && 'settled' in line) settled.set(line.settled.call, line.settled)
      this.#end = newline + 1
    }
    return { settled, unreadable }
  }

  /** `told` when the disk begins to refuse lines, with its reason, and when it takes them again. */
  watch(told: (refused: string | undefined) => void): void {
    this.#told = told
  }

  /**
   * Before a call is claimed: whether its beginning can be noted. The room for that is taken now. After the disk refused a line, it has to
   * have room for an end too.
   */
  prepare(): Result<void, string> {
    if (this.#refused === undefined && this.#end + ROOM_TO_BEGIN <= this.#room) return ok(undefined)
    const bytes = Buffer.alloc(this.#refused === undefined ? ROOM_TO_BEGIN : ROOM_TO_END, ' ')
    try {
      fill(this.#fd, bytes, this.#end)
    } catch (error) {
      this.#cut(this.#end)
      this.#refuse(reason(error))
      return err(reason(error))
    }
    this.#room = this.#end + bytes.byteLength
    this.#refuse(undefined)
    return ok(undefined)
  }

  get refused(): boolean {
    return this.#refused !== undefined
  }

  #refuse(why: string | undefined): void {
    const before = this.#refused
    this.#refused = why
    if ((before === undefined) !== (why === undefined)) this.#told(why)
  }

  #cut(end: number): void {
    try {
      ftruncateSync(this.#fd, end)
      this.#end = end
      this.#room = end
    } catch {
      // what is behind `#end` is written over; before it, lines say that all are over
    }
  }

  /** Notes that the call is about to run under this fence. `false`: it was begun here before, under this fence or a later one. */
  begin(call: string, fence: number): Result<boolean, string> {
    const before = this.#live.get(call)
    if (before !== undefined && before.fence >= fence) return ok(false)
    const added = this.#add({ begun: call, fence, at_ms: Date.now() }) // only a call whose tool is idempotent is granted again
    return added.ok ? ok(true) : added
  }

  /** Keeps a settlement until `drop`. Whole or not at all. */
  keep(settled: Spooled): Result<void, string> {
    return this.#add({ settled })
  }

  /** The call is over for us, under this fence: nothing of it stays, unless it was begun again under a later one. */
  drop(call: string, fence: number): void {
    if (!this.#live.has(call)) return
    this.#forget({ over: call, fence })
    this.#add({ over: call, fence }) // where that can't be written the next life sends it again, and the edge says that it has it
    if (this.#live.size > 0) return
    this.#cut(0)
  }

  get full(): boolean {
    return (
      this.#settlements.length >= this.#bounds.settlements || bytesOf(this.#settlements) >= this.#bounds.bytes
    )
  }

  get #path(): string {
    return join(this.#dir, 'journal')
  }

  get #settlements(): Place[] {
    return [...this.#live.values()].flatMap(({ settlement }) => settlement ?? [])
  }

  #add(line: Line): Result<void, string> {
    const bytes = encoded(line)
    try {
      if (this.#end > this.#bounds.file_bytes && this.#end > 2 * bytesOf(this.#settlements)) this.#rewrite()
      fill(this.#fd, bytes, this.#end)
    } catch (error) {
      this.#refuse(reason(error))
      return err(reason(error))
    }
    this.#note(line, { at: this.#end, length: bytes.byteLength })
    this.#end += bytes.byteLength
    return ok(undefined)
  }

  #note(line: Line, place: Place): void {
    if ('over' in line) {
      this.#forget(line)
      return
    }
    const call = 'begun' in line ? line.begun : line.settled.call
    const { fence = 0, at_ms = 0, settlement } = this.#live.get(call) ?? {}
    this.#live.set(
      call,
      'begun' in line
        ? { fence: Math.max(fence, line.fence), at_ms: line.at_ms, settlement, ...reportedIn(line) }
        : {
            fence: Math.max(fence, line.settled.settlement.fence),
            at_ms,
            settlement: { ...place, fence: line.settled.settlement.fence },
          },
    )
  }

  #forget({
    over,
    fence: until = Number.POSITIVE_INFINITY,
  }: {
    readonly over: string
    readonly fence?: number | undefined
  }): void {
    const { fence = 0, at_ms = 0, settlement } = this.#live.get(over) ?? {}
    if (fence <= until) this.#live.delete(over)
    else if (settlement !== undefined && settlement.fence <= until)
      this.#live.set(over, { fence, at_ms, settlement: undefined })
  }

  /** What still matters, in a file of its own: the one before is whole until that is. */
  #rewrite(): void {
    const draft = `${this.#path}.new`
    const fd = openSync(draft, constants.O_RDWR | constants.O_CREAT | constants.O_TRUNC, 0o600)
    const moved = new Map<string, Live>()
    let end = 0
    try {
      const add = (bytes: Buffer): Place => {
        fill(fd, bytes, end)
        end += bytes.byteLength
        return { at: end - bytes.byteLength, length: bytes.byteLength }
      }
      for (const [call, live] of this.#live) {
        const { fence, at_ms, settlement } = live
        add(encoded({ begun: call, fence, at_ms, ...reportedIn(live) }))
        moved.set(call, {
          ...live,
          settlement: settlement && { ...add(contentOf(this.#fd, settlement)), fence: settlement.fence },
        })
      }
      renameSync(draft, this.#path)
    } catch (error) {
      closeSync(fd)
      rmSync(draft, { force: true }) // its room is what others lack
      throw error
    }
    closeSync(this.#fd)
    for (const [call, live] of moved) this.#live.set(call, live)
    this.#fd = fd
    this.#end = end
    this.#room = end
  }
}

const reportedIn = ({ reported }: { readonly reported?: true | undefined }) =>
  reported === undefined ? {} : { reported }
const encoded = (line: Line): Buffer => Buffer.from(`${JSON.stringify(line)}\n`)
const bytesOf = (places: readonly Place[]): number => places.reduce((sum, { length }) => sum + length, 0)

function fill(fd: number, bytes: Buffer, position: number): void {
  for (let done = 0; done < bytes.byteLength; )
    done += writeSync(fd, bytes, done, bytes.byteLength - done, position + done)
}

function contentOf(fd: number, { at, length }: Place): Buffer {
  const bytes = Buffer.alloc(length)
  for (let done = 0; done < length; ) {
    const read = readSync(fd, bytes, done, length - done, at + done)
    if (read === 0) throw new Error('the spool is shorter than it was')
    done += read
  }
  return bytes
}

function parsed(text: string): Line | undefined {
  try {
    return Line.safeParse(JSON.parse(text)).data
  } catch {
    return undefined
  }
}

const reason = (error: unknown): string =>
  error instanceof Error && 'code' in error ? String(error.code) : String(error)
