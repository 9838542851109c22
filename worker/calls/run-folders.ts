// Owns the folders that calls of one run share on this host (`workspace: "run"`): made at the run's first call, removed when no call of
// it has been here for a while, earlier where others need the room, and at once where it holds more than any of its calls may use. Nobody
// tells a worker that a run is over, so idleness has to. A run that comes back later is told that its folder is gone; it never finds an
// empty one in its place.

import { existsSync, lstatSync, lutimesSync, mkdirSync, readdirSync, renameSync } from 'node:fs'
import { statfs } from 'node:fs/promises'
import { join } from 'node:path'
import type { Grant } from '../../shared/evidence/statement.ts'
import { PATTERNS } from '../../shared/ids.ts'
import { LIMITS, MAX_LIMITS } from '../../shared/limits.ts'
import { err, ok, type Result } from '../../shared/result.ts'
import { removeFolder } from '../host/owned-folders.ts'
import { type FolderLimits, occupiedBy } from '../sandbox/limits/disk-watch.ts'

const SWEEP_MS = 60_000
/** What is being removed has no run's name any more: nobody enters it. */
const GONE = 'gone-'

/** `bytes`: of all folders together. `free_bytes`: what stays free on their disk. `rest_ms`: how long one stays, whoever needs its room. */
type Bounds = {
  readonly bytes: number
  readonly free_bytes: number
  readonly idle_ms: number
  readonly rest_ms: number
}

const BOUNDS: Bounds = {
  bytes: LIMITS.run_folders_bytes,
  free_bytes: LIMITS.disk_free_bytes,
  idle_ms: 60 * 60_000,
  rest_ms: 5 * 60_000,
}

type RunFolder = {
  /** Calls that are in it now. */
  inside: number
  /** When the last one left, by a clock that nobody sets: a step of the host's would make all folders old at once. */
  left_ms: number
  /** What it takes; while calls are in it, what they may make of it. */
  bytes: number
  /** How much of that may be still to come. */
  grows: number
  /** What the most generous of its calls may have there. */
  most: FolderLimits
}

export type NoFolder = 'lost' | 'full' | { readonly reason: string }

export class RunFolders {
  readonly #root: string
  readonly #bounds: Bounds
  readonly #runs = new Map<string, RunFolder>()
  /** Folders to be removed; one that resists is tried again at each sweep. */
  readonly #gone = new Set<string>()
  /** Runs in whose folder something of a call may still write. */
  readonly #tainted = new Set<string>()
  #working: Promise<void> = Promise.resolve()
  readonly #sweeping: NodeJS.Timeout

  /** `tainted`: the folders in which a process outlived the previous worker. */
  constructor(root: string, bounds: Partial<Bounds> = {}, tainted: ReadonlySet<string> = new Set()) {
    this.#root = root
    this.#bounds = { ...BOUNDS, ...bounds }
    mkdirSync(root, { recursive: true, mode: 0o700 })
    for (const name of readdirSync(root))
      if (name.startsWith(GONE)) this.#gone.add(join(root, name))
      else if (PATTERNS.run.test(name)) this.#adopt(name)
    for (const run of tainted) this.taint(run)
    void this.#remove()
    this.#sweeping = setInterval(() => void this.sweep(), SWEEP_MS)
    this.#sweeping.unref()
  }

  /** Of a former life: what its calls might have there nobody knows any more. */
  #adopt(run: string): void {
    const { mtimeMs } = lstatSync(join(this.#root, run))
    const left_ms = performance.now() - Math.max(0, Date.now() - mtimeMs)
    const known = { inside: 0, left_ms, bytes: 0, grows: 0, most: MAX_LIMITS }
    this.#runs.set(run, known)
    this.#measure(run, known)
  }

  /** The run's folder, which stays at least until `leave`. One that was `kept` for the run is not made anew. */
  async enter(
    run: string,
    expected: Grant['folder'],
    limits: FolderLimits,
  ): Promise<Result<string, NoFolder>> {
    const folder = join(this.#root, run)
    if (!this.#clear(run)) return err('lost')
    if (expected === 'kept' && !existsSync(folder)) return err('lost')
    const known = this.#runs.get(run) ?? { inside: 0, left_ms: 0, bytes: 0, grows: 0, most: limits }
    known.inside += 1
    known.grows = Math.max(known.grows, limits.workspace_bytes - known.bytes)
    known.bytes = Math.max(known.bytes, limits.workspace_bytes)
    known.most = larger(known.most, limits)
    this.#runs.set(run, known)
    try {
      const room = await this.#makeRoom(limits)
      if (room) {
        mkdirSync(folder, { recursive: true, mode: 0o700 })
        touch(folder)
      } else this.leave(run)
      return room ? ok(folder) : err('full')
    } catch (error) {
      this.leave(run)
      return err({ reason: error instanceof Error && 'code' in error ? String(error.code) : String(error) })
    }
  }

  leave(run: string): void {
    const known = this.#runs.get(run)
    if (known === undefined) return
    known.inside -= 1
    known.left_ms = performance.now()
    touch(join(this.#root, run))
    if (known.inside === 0) this.#measure(run, known)
  }

  /** A process of a call may still write there, so no call enters the folder again. */
  taint(run: string): void {
    this.#tainted.add(run)
    this.#clear(run)
  }

  /** Whether a folder of that name is safe to enter: what can't be taken away stays closed. */
  #clear(run: string): boolean {
    if (!this.#tainted.has(run)) return true
    if (existsSync(join(this.#root, run))) this.#drop(run)
    if (existsSync(join(this.#root, run))) return false
    return this.#tainted.delete(run)
  }

  /** It never throws: what a disk can do, and what a tool left, is no reason for a worker to end. */
  async sweep(now_ms = performance.now()): Promise<void> {
    for (const [run] of this.#resting(this.#bounds.idle_ms, now_ms)) this.#drop(run)
    await this.#remove()
  }

  /** Those that were left that long ago, the longest first. */
  #resting(since_ms: number, now_ms = performance.now()): [string, RunFolder][] {
    const resting = [...this.#runs].filter(
      ([, { inside, left_ms }]) => inside === 0 && now_ms - left_ms >= since_ms,
    )
    return resting.sort(([, one], [, other]) => one.left_ms - other.left_ms)
  }

  /** The longest unused go first, as many as it takes. False where that is not enough; then none goes. */
  async #makeRoom(limits: FolderLimits): Promise<boolean> {
    for (let short = await this.#shortage(limits); short > 0; short = await this.#shortage(limits)) {
      const resting = this.#resting(this.#bounds.rest_ms)
      if (sum(resting.map(([, { bytes }]) => bytes)) < short) return false
      for (const [run, { bytes }] of resting) {
        if (short <= 0) break
        this.#drop(run)
        short -= bytes
      }
      await this.#remove()
    }
    return true
  }

  /** How many bytes too few there are, with all that calls may still write to the folders that they are in. */
  async #shortage({ workspace_inodes = 0 }: FolderLimits): Promise<number> {
    const { bavail, bsize, files, ffree } = await statfs(this.#root)
    const runs = [...this.#runs.values()]
    const ofDisk = this.#bounds.free_bytes + sum(runs.map(({ grows }) => grows)) - bavail * bsize
    const inodes = files > 0 && ffree < workspace_inodes ? 1 : 0 // some file systems don't count them
    return Math.max(sum(runs.map(({ bytes }) => bytes)) - this.#bounds.bytes, ofDisk, inodes)
  }

  /** What it takes now that nobody is in it. One that none of its calls could use any more makes room at once. */
  #measure(run: string, known: RunFolder): void {
    const current = (): boolean => known.inside === 0 && this.#runs.get(run) === known
    void this.#inTurn(async () => {
      if (!current()) return
      const bytes = await occupiedBy(join(this.#root, run), known.most).catch(() => known.bytes) // nothing to count with: what it may be
      if (!current()) return
      known.bytes = bytes ?? 0
      known.grows = 0
      if (bytes === undefined) this.#drop(run)
    }).then(() => this.#remove())
  }

  #drop(run: string): void {
    this.#runs.delete(run)
    const gone = join(this.#root, `${GONE}${run}-${Date.now()}`)
    try {
      renameSync(join(this.#root, run), gone)
      this.#gone.add(gone)
    } catch {
      // Somebody else removed it; or it is found again in the next life.
    }
  }

  #remove(): Promise<void> {
    return this.#inTurn(async () => {
      for (const folder of this.#gone) if (await removeFolder(folder)) this.#gone.delete(folder)
    })
  }

  /** One walk after the other: they would be in each other's way, and together in everybody's. */
  #inTurn(walk: () => Promise<void>): Promise<void> {
    this.#working = this.#working.then(walk)
    return this.#working
  }

  close(): void {
    clearInterval(this.#sweeping)
  }
}

/** For the next life, which finds no more than the folder: what its calls change deeper in it does not make it younger. */
function touch(folder: string): void {
  try {
    lutimesSync(folder, new Date(), new Date())
  } catch {
    // it is gone, or the next life takes it for older than it is
  }
}

const sum = (all: readonly number[]): number => all.reduce((one, other) => one + other, 0)

const larger = (one: FolderLimits, other: FolderLimits): FolderLimits => ({
  workspace_bytes: Math.max(one.workspace_bytes, other.workspace_bytes),
  workspace_inodes: Math.max(
    one.workspace_inodes ?? Number.POSITIVE_INFINITY,
    other.workspace_inodes ?? Number.POSITIVE_INFINITY,
  ),
})
