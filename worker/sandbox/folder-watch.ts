// Owns the bound of a folder on disk that calls write to: its bytes and its files are counted while a call runs and once more when it has
// ended. No quota of a file system is to be had without root. It follows no link, stops counting where the bound is passed, and takes a
// small share of the time. What is written between two looks is bounded by the size of one file alone.

import { lstat, opendir } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Limits } from '../../shared/plan.ts'
import type { Unlinked } from './unlinked.ts'

export type FolderLimits = Pick<Limits, 'workspace_bytes' | 'workspace_inodes'>

const PAUSE_MS = 100
/** A look that takes long is not repeated at once: at most this share of the time goes into looking. */
const SHARE = 1 / 10
const BLOCK = 512

/** What the folder takes. Undefined where that is more; what can't be counted is more: a tool could hide there whatever it likes. */
export async function occupiedBy(
  folder: string,
  { workspace_bytes, workspace_inodes = Number.POSITIVE_INFINITY }: FolderLimits,
): Promise<number | undefined> {
  const folders = [folder]
  let [left, room] = [workspace_inodes, workspace_bytes]
  for (let at = folders.pop(); at !== undefined; at = folders.pop()) {
    try {
      for await (const entry of await opendir(at, { bufferSize: 256 })) {
        left -= 1
        const path = join(at, entry.name)
        room -= await occupied(path)
        if (left < 0 || room < 0) return undefined
        if (entry.isDirectory()) folders.push(path)
      }
    } catch (error) {
      if (!vanished(error)) return undefined
    }
  }
  return workspace_bytes - room
}

async function fits(folder: string, limits: FolderLimits, unlinked: Unlinked | undefined): Promise<boolean> {
  const [named, unnamed] = [await occupiedBy(folder, limits), await (unlinked?.bytes() ?? 0)]
  return named !== undefined && unnamed !== undefined && named + unnamed <= limits.workspace_bytes
}

/** What it takes on disk: a hole in a file is nothing. */
async function occupied(path: string): Promise<number> {
  try {
    return (await lstat(path)).blocks * BLOCK
  } catch (error) {
    if (vanished(error)) return 0
    throw error
  }
}

/** Removed meanwhile, or something else by now. */
const vanished = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && (error.code === 'ENOENT' || error.code === 'ENOTDIR')

export type FolderWatch = {
  /** Ends the watching, with a last look. True if the folder holds more than it may. */
  readonly end: () => Promise<boolean>
}

/** `onOver` is told once, as soon as it is seen. What is `unlinked` counts as if it were in the folder. */
export function watchFolder(folder: string, limits: FolderLimits, unlinked: Unlinked | undefined, onOver: () => void): FolderWatch {
  const ended = new AbortController()
  let over = false
  const look = async (): Promise<void> => {
    if (over || (await fits(folder, limits, unlinked))) return
    over = true
    onOver()
  }
  const watching = (async () => {
    for (let pause = PAUSE_MS; !over; ) {
      await sleep(pause, undefined, { signal: ended.signal })
      const since = performance.now()
      await look()
      pause = Math.max(PAUSE_MS, (performance.now() - since) / SHARE)
    }
  })().catch((error) => {
    if (!ended.signal.aborted) throw error
  })
  watching.catch(() => undefined) // `end` tells: until then nobody waits, and what nobody waits for would end the worker
  return {
    end: async () => {
      ended.abort()
      await watching
      await look()
      return over
    },
  }
}
