// Owns the folders that calls of one run share on this host (`workspace: "run"`): made at the run's first call, removed when no call of
// it has been here for a while. Nobody tells a worker that a run is over, so idleness has to. A run that comes back later is told that its
// folder is gone; it never finds an empty one in its place.

import { existsSync, mkdirSync, readdirSync, renameSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { PATTERNS } from '../shared/ids.ts'
import { err, ok, type Result } from '../shared/result.ts'
import type { Grant } from '../shared/statement.ts'
import { removeFolder } from './sandbox/workspace.ts'

const IDLE_MS = 60 * 60_000
const SWEEP_MS = 60_000
/** What is being removed has no run's name any more: nobody enters it. */
const GONE = 'gone-'

export type NoFolder = 'lost' | { readonly reason: string }

export class RunFolders {
  readonly #root: string
  readonly #idle_ms: number
  /** Calls that are in each folder now, and when the last one left. */
  readonly #runs = new Map<string, { inside: number; left_ms: number }>()
  /** Folders to be removed; one that resists is tried again at each sweep. */
  readonly #gone = new Set<string>()
  #removing: Promise<void> = Promise.resolve()
  readonly #sweeping: NodeJS.Timeout

  constructor(root: string, idle_ms = IDLE_MS) {
    this.#root = root
    this.#idle_ms = idle_ms
    mkdirSync(root, { recursive: true, mode: 0o700 })
    for (const run of readdirSync(root))
      if (run.startsWith(GONE)) this.#gone.add(join(root, run))
      else if (PATTERNS.run.test(run)) this.#runs.set(run, { inside: 0, left_ms: statSync(join(root, run)).mtimeMs })
    void this.#remove()
    this.#sweeping = setInterval(() => void this.sweep(), SWEEP_MS)
    this.#sweeping.unref()
  }

  /** The run's folder, which stays at least until `leave`. One that was `kept` for the run is not made anew. */
  enter(run: string, expected: Grant['folder']): Result<string, NoFolder> {
    const folder = join(this.#root, run)
    if (expected === 'kept' && !existsSync(folder)) return err('lost')
    try {
      mkdirSync(folder, { recursive: true, mode: 0o700 })
    } catch (error) {
      return err({ reason: error instanceof Error && 'code' in error ? String(error.code) : String(error) })
    }
    const known = this.#runs.get(run) ?? { inside: 0, left_ms: 0 }
    known.inside += 1
    this.#runs.set(run, known)
    return ok(folder)
  }

  leave(run: string): void {
    const known = this.#runs.get(run)
    if (known === undefined) return
    known.inside -= 1
    known.left_ms = Date.now()
  }

  /** It never throws: what a disk can do, and what a tool left, is no reason for a worker to end. */
  async sweep(now_ms = Date.now()): Promise<void> {
    for (const [run, { inside, left_ms }] of this.#runs) {
      if (inside > 0 || now_ms - left_ms < this.#idle_ms) continue
      this.#runs.delete(run)
      const gone = join(this.#root, `${GONE}${run}-${now_ms}`)
      try {
        renameSync(join(this.#root, run), gone)
      } catch {
        continue // somebody else removed it; or it is found again in the next life
      }
      this.#gone.add(gone)
    }
    await this.#remove()
  }

  /** One removal after the other: two in one folder would be in each other's way. */
  #remove(): Promise<void> {
    this.#removing = this.#removing.then(async () => {
      for (const folder of this.#gone) if (await removeFolder(folder)) this.#gone.delete(folder)
    })
    return this.#removing
  }

  close(): void {
    clearInterval(this.#sweeping)
  }
}
