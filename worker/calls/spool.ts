// `<home>/spool`: a journal of the calls that this worker started and of the settlements that the
// edge has not acknowledged yet. It survives any death of the process. The file is a list of lines:
//   {"begun":CALL,"fence":N,"at_ms":T}   written just before the tool's process starts. If a later
//                                        start finds it without a settlement, the call's end is
//                                        unknown and it never runs again (L2). That start adds
//                                        `"reported":true`, so that only it reports the call.
//   {"settled":{…}}                      the whole settlement, written before it is sent. A later
//                                        start sends it again.
//   {"over":CALL,"fence":N}              the edge acknowledged the call up to this fence.
// The file is truncated once every call is over, and rewritten with the live entries if it grows
// without that. One file rather than one per call: ext4 takes 0.8 ms to create a file where
// hundreds come and go each second. No fsync: a write survives the death of this process anyway,
// and after a power loss the call ends `indeterminate` by its lease, so no call pays for the disk's
// latency. One process owns the folder (serve.ts ensures it). Disk errors are returned, never
// thrown.

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
const SpooledSettlement = z.strictObject({ call: CallId, deadline_ms: z.int(), settlement: Settlement })
export type SpooledSettlement = z.infer<typeof SpooledSettlement>

const Line = z.union([
  z.strictObject({ begun: CallId, fence: z.int(), at_ms: z.int(), reported: z.literal(true).optional() }),
  z.strictObject({ settled: SpooledSettlement }),
  /** Older spools have no fence here; such a line covers every fence. */
  z.strictObject({ over: CallId, fence: z.int().optional() }),
])
export type Line = z.infer<typeof Line>

/**
 * Beyond these bounds no call is claimed: an edge that accepts no results gets no more work done.
 */
export type SpoolBounds = {
  readonly settlements: number
  readonly bytes: number
  /** The file is rewritten once it is longer than this and at least half of it is obsolete. */
  readonly file_bytes: number
}
export const SPOOL_BOUNDS: SpoolBounds = {
  settlements: 1_000,
  bytes: 256 * 1024 * 1024,
  file_bytes: 64 * 1024 * 1024,
}

/** Longer than any grant lasts: a call that began earlier can't be granted again. */
const BEGUN_KEPT_MS = 2 * MAX_LIMITS.timeout_ms

export type SpoolContents = {
  /** Settlements to send. */
  readonly settled: SpooledSettlement[]
  /**
   * Calls that an earlier process began and that have no recorded end, except those that an earlier
   * start reported.
   */
  readonly lost: string[]
  /** The file to which unreadable lines were moved. */
  readonly unreadable: string | undefined
}

/** Room for the first lines of a few calls, and for one large settlement. */
const ROOM_TO_BEGIN = 4_096
const ROOM_TO_END = LIMITS.body_bytes

const UNREADABLE = 'unreadable'

/** The position of a line in the file. */
type Span = { readonly at: number; readonly length: number }
/** A call that is not over. It has no settlement while it runs, or if its end is unknown. */
type LiveCall = {
  readonly fence: number
  readonly at_ms: number
  readonly settlement: (Span & { readonly fence: number }) | undefined
  /** An earlier start found it begun without an end and reported it. */
  readonly reported?: true
}

export class Spool {
  readonly #dir: string
  readonly #bounds: SpoolBounds
  readonly #live = new Map<string, LiveCall>()
  #fd = -1
  /** The position of the next line. A line that a full disk left incomplete is overwritten. */
  #end = 0
  /** The end of the reserved space. It holds blanks, which a reader takes for an incomplete line. */
  #room = 0
  /** The error of the last write, if it failed. */
  #refused: string | undefined
  #listener: (refused: string | undefined) => void = () => undefined

  constructor(dir: string, bounds: SpoolBounds = SPOOL_BOUNDS) {
    this.#dir = dir
    this.#bounds = bounds
  }

  /** Opens the spool and returns what an earlier process left in it. */
  open(now_ms: number): Result<SpoolContents, string> {
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
      return err(`the spool \`${this.#dir}\` can’t be used (${reason(error)}); ${remedyFor(reason(error))}`)
    }
  }

  /** Counts what waits, without changing anything: another process may own the spool. */
  inspect(): { readonly settlements: number; readonly bytes: number; readonly unreadable: boolean } {
    if (existsSync(this.#path)) this.#read()
    const { length: settlements } = this.#settlements
    return {
      settlements,
      bytes: bytesOf(this.#settlements),
      unreadable: existsSync(join(this.#dir, UNREADABLE)),
    }
  }

  #read(): {
    readonly settled: ReadonlyMap<string, SpooledSettlement>
    readonly unreadable: readonly Buffer[]
  } {
    const settled = new Map<string, SpooledSettlement>()
    const unreadable: Buffer[] = []
    const bytes = readFileSync(this.#path)
    // An incomplete last line was being written when the process died; nothing relied on it yet.
    for (let newline = bytes.indexOf('\n'); newline >= 0; newline = bytes.indexOf('\n', this.#end)) {
      const span = { at: this.#end, length: newline + 1 - this.#end }
      const line = parseLine(bytes.toString('utf8', span.at, newline))
      if (line === undefined) unreadable.push(bytes.subarray(span.at, newline + 1))
      else this.#note(line, span)
      if (line !== undefined && 'settled' in line) settled.set(line.settled.call, line.settled)
      this.#end = newline + 1
    }
    return { settled, unreadable }
  }

  /**
   * Calls `listener` with the reason when writing starts to fail, and with undefined when it works
   * again.
   */
  watch(listener: (refused: string | undefined) => void): void {
    this.#listener = listener
  }

  /**
   * Reserves room for the begun line of a call that is about to be claimed. After a failed write,
   * reserves room for a settlement, too.
   */
  prepare(): Result<void, string> {
    if (this.#refused === undefined && this.#end + ROOM_TO_BEGIN <= this.#room) return ok(undefined)
    const bytes = Buffer.alloc(this.#refused === undefined ? ROOM_TO_BEGIN : ROOM_TO_END, ' ')
    try {
      writeAt(this.#fd, bytes, this.#end)
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
    if ((before === undefined) !== (why === undefined)) this.#listener(why)
  }

  #cut(end: number): void {
    try {
      ftruncateSync(this.#fd, end)
      this.#end = end
      this.#room = end
    } catch {
      // lines after `#end` will be overwritten; those before it say that every call is over
    }
  }

  /**
   * Records that the call is about to run under this fence. False if it already began here under
   * this fence or a later one.
   */
  begin(call: string, fence: number): Result<boolean, string> {
    const before = this.#live.get(call)
    if (before !== undefined && before.fence >= fence) return ok(false)
    // Only calls of idempotent tools are granted again.
    const added = this.#add({ begun: call, fence, at_ms: Date.now() })
    return added.ok ? ok(true) : added
  }

  /** Stores the whole settlement until `drop`, or fails. */
  keep(settled: SpooledSettlement): Result<void, string> {
    return this.#add({ settled })
  }

  /** Forgets the call up to this fence. A later execution of the same call stays. */
  drop(call: string, fence: number): void {
    if (!this.#live.has(call)) return
    this.#forget({ over: call, fence })
    // If this write fails, the next process sends it again and the edge replies that it has it.
    this.#add({ over: call, fence })
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

  get #settlements(): Span[] {
    return [...this.#live.values()].flatMap(({ settlement }) => settlement ?? [])
  }

  #add(line: Line): Result<void, string> {
    const bytes = encoded(line)
    try {
      if (this.#end > this.#bounds.file_bytes && this.#end > 2 * bytesOf(this.#settlements)) this.#rewrite()
      writeAt(this.#fd, bytes, this.#end)
    } catch (error) {
      this.#refuse(reason(error))
      return err(reason(error))
    }
    this.#note(line, { at: this.#end, length: bytes.byteLength })
    this.#end += bytes.byteLength
    return ok(undefined)
  }

  #note(line: Line, span: Span): void {
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
            settlement: { ...span, fence: line.settled.settlement.fence },
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

  /**
   * Writes the live entries to a new file and renames it over the old one, which stays complete
   * until then.
   */
  #rewrite(): void {
    const draft = `${this.#path}.new`
    const fd = openSync(draft, constants.O_RDWR | constants.O_CREAT | constants.O_TRUNC, 0o600)
    const moved = new Map<string, LiveCall>()
    let end = 0
    try {
      const add = (bytes: Buffer): Span => {
        writeAt(fd, bytes, end)
        end += bytes.byteLength
        return { at: end - bytes.byteLength, length: bytes.byteLength }
      }
      for (const [call, live] of this.#live) {
        const { fence, at_ms, settlement } = live
        add(encoded({ begun: call, fence, at_ms, ...reportedIn(live) }))
        moved.set(call, {
          ...live,
          settlement: settlement && { ...add(readSpan(this.#fd, settlement)), fence: settlement.fence },
        })
      }
      renameSync(draft, this.#path)
    } catch (error) {
      closeSync(fd)
      rmSync(draft, { force: true }) // the disk may be full
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
const bytesOf = (places: readonly Span[]): number => places.reduce((sum, { length }) => sum + length, 0)

function writeAt(fd: number, bytes: Buffer, position: number): void {
  for (let done = 0; done < bytes.byteLength; )
    done += writeSync(fd, bytes, done, bytes.byteLength - done, position + done)
}

function readSpan(fd: number, { at, length }: Span): Buffer {
  const bytes = Buffer.alloc(length)
  for (let done = 0; done < length; ) {
    const read = readSync(fd, bytes, done, length - done, at + done)
    if (read === 0) throw new Error('the spool file was truncated from outside')
    done += read
  }
  return bytes
}

function parseLine(text: string): Line | undefined {
  try {
    return Line.safeParse(JSON.parse(text)).data
  } catch {
    return undefined
  }
}

const reason = (error: unknown): string =>
  error instanceof Error && 'code' in error ? String(error.code) : String(error)
