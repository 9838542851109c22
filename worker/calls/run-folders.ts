// The folders that calls of one run share on this worker (`workspace: "run"`). A folder is created
// at the run's first call and removed when idle, earlier if others need its room, and at once if it
// grew beyond what any of its calls may use. Workers never learn that a run is over, so idleness
// decides. A run whose folder was removed gets `lost`, never a new empty folder.

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
/** A folder to be removed is renamed with this prefix first, so that no call enters it. */
const GONE = 'gone-'

/**
 * `bytes`: all folders together. `free_bytes`: left free on their disk. `rest_ms`: an idle folder
 * stays at least this long, even if others need its room.
 */
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
  /** The number of calls that use it now. */
  inside: number
  /**
   * When the last call left, by the monotonic clock: a step of the wall clock would make every
   * folder old at once.
   */
  left_ms: number
  /** Its size; while calls use it, the size that they may let it reach. */
  bytes: number
  /** The part of `bytes` that its calls have not written yet. */
  grows: number
  /** The largest limits that any of its calls had. */
  most: FolderLimits
}

export type NoFolder = 'lost' | 'full' | { readonly reason: string }

export class RunFolders {
  readonly #root: string
  readonly #bounds: Bounds
  readonly #runs = new Map<string, RunFolder>()
  /** Folders to be removed; each sweep retries those that could not be. */
  readonly #gone = new Set<string>()
  /** Runs in whose folder a left-over process of a call may still write. */
  readonly #tainted = new Set<string>()
  #working: Promise<void> = Promise.resolve()
  readonly #sweeping: NodeJS.Timeout

  /** `tainted`: folders in which a process outlived the previous worker process. */
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

  /** Registers a folder that an earlier process left; the limits of its calls are unknown. */
  #adopt(run: string): void {
    const { mtimeMs } = lstatSync(join(this.#root, run))
    const left_ms = performance.now() - Math.max(0, Date.now() - mtimeMs)
    const entry = { inside: 0, left_ms, bytes: 0, grows: 0, most: MAX_LIMITS }
    this.#runs.set(run, entry)
    this.#measure(run, entry)
  }

  /**
   * Returns the run's folder, which stays at least until `leave`. If the edge expects it to be
   * `kept`, it is not created again.
   */
  async enter(
    run: string,
    expected: Grant['folder'],
    limits: FolderLimits,
  ): Promise<Result<string, NoFolder>> {
    const folder = join(this.#root, run)
    if (!this.#clear(run)) return err('lost')
    if (expected === 'kept' && !existsSync(folder)) return err('lost')
    const entry = this.#runs.get(run) ?? { inside: 0, left_ms: 0, bytes: 0, grows: 0, most: limits }
    entry.inside += 1
    entry.grows = Math.max(entry.grows, limits.workspace_bytes - entry.bytes)
    entry.bytes = Math.max(entry.bytes, limits.workspace_bytes)
    entry.most = larger(entry.most, limits)
    this.#runs.set(run, entry)
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
    const entry = this.#runs.get(run)
    if (entry === undefined) return
    entry.inside -= 1
    entry.left_ms = performance.now()
    touch(join(this.#root, run))
    if (entry.inside === 0) this.#measure(run, entry)
  }

  /** Closes the folder to further calls, because a process of a call may still write there. */
  taint(run: string): void {
    this.#tainted.add(run)
    this.#clear(run)
  }

  /**
   * Whether the run's folder is safe to use. A tainted folder that can't be moved away stays
   * closed.
   */
  #clear(run: string): boolean {
    if (!this.#tainted.has(run)) return true
    if (existsSync(join(this.#root, run))) this.#drop(run)
    if (existsSync(join(this.#root, run))) return false
    return this.#tainted.delete(run)
  }

  /**
   * Removes idle folders. It never throws, so that neither a bad disk nor a tool's files end the
   * worker.
   */
  async sweep(now_ms = performance.now()): Promise<void> {
    for (const [run] of this.#idle(this.#bounds.idle_ms, now_ms)) this.#drop(run)
    await this.#remove()
  }

  /** Folders idle for at least `since_ms`, the longest idle first. */
  #idle(since_ms: number, now_ms = performance.now()): [string, RunFolder][] {
    const idle = [...this.#runs].filter(
      ([, { inside, left_ms }]) => inside === 0 && now_ms - left_ms >= since_ms,
    )
    return idle.sort(([, one], [, other]) => one.left_ms - other.left_ms)
  }

  /**
   * Removes the longest idle folders until there is room. False, and none is removed, if that can't
   * suffice.
   */
  async #makeRoom(limits: FolderLimits): Promise<boolean> {
    for (let short = await this.#shortage(limits); short > 0; short = await this.#shortage(limits)) {
      const idle = this.#idle(this.#bounds.rest_ms)
      if (sum(idle.map(([, { bytes }]) => bytes)) < short) return false
      for (const [run, { bytes }] of idle) {
        if (short <= 0) break
        this.#drop(run)
        short -= bytes
      }
      await this.#remove()
    }
    return true
  }

  /** The bytes missing, if every call writes all that it may. */
  async #shortage({ workspace_inodes = 0 }: FolderLimits): Promise<number> {
    const { bavail, bsize, files, ffree } = await statfs(this.#root)
    const runs = [...this.#runs.values()]
    const diskShortage = this.#bounds.free_bytes + sum(runs.map(({ grows }) => grows)) - bavail * bsize
    const inodes = files > 0 && ffree < workspace_inodes ? 1 : 0 // some file systems don't count inodes
    return Math.max(sum(runs.map(({ bytes }) => bytes)) - this.#bounds.bytes, diskShortage, inodes)
  }

  /** Measures a folder that no call uses. Removes it if it outgrew the limits of all its calls. */
  #measure(run: string, entry: RunFolder): void {
    const current = (): boolean => entry.inside === 0 && this.#runs.get(run) === entry
    void this.#oneAtATime(async () => {
      if (!current()) return
      // If it can't be measured, assume its maximum.
      const bytes = await occupiedBy(join(this.#root, run), entry.most).catch(() => entry.bytes)
      if (!current()) return
      entry.bytes = bytes ?? 0
      entry.grows = 0
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
      // It was removed already, or the next process finds it again.
    }
  }

  #remove(): Promise<void> {
    return this.#oneAtATime(async () => {
      for (const folder of this.#gone) if (await removeFolder(folder)) this.#gone.delete(folder)
    })
  }

  /** Runs one walk of the disk at a time, to spare it for the calls. */
  #oneAtATime(walk: () => Promise<void>): Promise<void> {
    this.#working = this.#working.then(walk)
    return this.#working
  }

  close(): void {
    clearInterval(this.#sweeping)
  }
}

/**
 * Records the time of use in the folder's mtime, for the next process: writes deeper in it don't
 * change that.
 */
function touch(folder: string): void {
  try {
    lutimesSync(folder, new Date(), new Date())
  } catch {
    // it is gone, or the next process takes it for older than it is
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
