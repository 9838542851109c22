// Owns the limits of a folder on disk that calls write to: it counts bytes and files while a call
// runs and after its end, because quotas of file systems need root. A scan follows no link, stops
// when a limit is exceeded, and takes a small share of the time: after a long scan the next one is
// soon only if the disk has lost more space than the folder had left.

import type { Dirent } from 'node:fs'
import { lstat, opendir, statfs } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Limits } from '../../../shared/plan/plan.ts'
import { isShortage } from '../../host/file-descriptors.ts'
import type { Unlinked } from './unlinked-files.ts'

export type FolderLimits = Pick<Limits, 'workspace_bytes' | 'workspace_inodes'>

const PAUSE_MS = 100
/**
 * The ratio of scanning to pausing: normally, and when the disk has lost more than the folder had
 * left.
 */
const SHARE = 1 / 10
const URGENT_SHARE = 1
const BLOCK = 512
/** How long the last scan is retried if this host has no free descriptors. */
const LAST_SCAN_WITHIN_MS = 2_000
/** Entries of a folder that are read together. */
const BATCH = 256

type Room = { readonly bytes: number; readonly inodes: number }

/**
 * The rest of the folder's limits. Undefined if they are exceeded, or if something can't be
 * counted, because a tool could hide data there. Throws if this host has no free descriptors.
 */
async function roomIn(
  folder: string,
  { workspace_bytes, workspace_inodes = Number.POSITIVE_INFINITY }: FolderLimits,
): Promise<Room | undefined> {
  const folders = [Buffer.from(folder)]
  let [left, room] = [workspace_inodes, workspace_bytes]
  for (let at = folders.pop(); at !== undefined; at = folders.pop()) {
    try {
      for await (const entries of inBatches(at)) {
        const paths = entries.map(({ name }) => Buffer.concat([at, SLASH, Buffer.from(name, BYTES)]))
        left -= paths.length
        for (const bytes of await Promise.all(paths.map(occupied))) room -= bytes
        if (left < 0 || room < 0) return undefined
        folders.push(...paths.filter((_, index) => entries[index]?.isDirectory()))
      }
    } catch (error) {
      if (isShortage(error)) throw error
      if (!vanished(error)) return undefined
    }
  }
  return { bytes: room, inodes: left }
}

/** File names are bytes and need not be UTF-8; latin1 keeps each byte as one character. */
const BYTES = 'latin1'
const SLASH = Buffer.from('/')

/** Entries in batches: one by one, each would wait for the event loop. */
async function* inBatches(folder: Buffer): AsyncGenerator<Dirent[]> {
  let batch: Dirent[] = []
  for await (const entry of await opendir(folder, { bufferSize: BATCH, encoding: BYTES })) {
    batch.push(entry)
    if (batch.length < BATCH) continue
    yield batch
    batch = []
  }
  yield batch
}

/**
 * The bytes in the folder. Undefined if a limit is exceeded. Throws if this host has no free
 * descriptors.
 */
export async function occupiedBy(folder: string, limits: FolderLimits): Promise<number | undefined> {
  const room = await roomIn(folder, limits)
  return room && limits.workspace_bytes - room.bytes
}

async function roomLeft(
  folder: string,
  limits: FolderLimits,
  unlinked: Unlinked | undefined,
): Promise<Room | undefined> {
  const [room, unnamed] = [await roomIn(folder, limits), await (unlinked?.bytes() ?? 0)]
  if (room === undefined || unnamed === undefined || unnamed > room.bytes) return undefined
  return { ...room, bytes: room.bytes - unnamed }
}

/** The free space of the whole disk, by one system call. */
async function freeWhere(folder: string): Promise<Room | undefined> {
  try {
    const { bavail, bsize, ffree } = await statfs(folder)
    return { bytes: bavail * bsize, inodes: ffree }
  } catch {
    return undefined // a tool of tier B may have removed its folder
  }
}

/** Bytes on disk: holes in a file count nothing. */
async function occupied(path: Buffer): Promise<number> {
  try {
    return (await lstat(path)).blocks * BLOCK
  } catch (error) {
    if (vanished(error)) return 0
    throw error
  }
}

/** Whether it was removed or replaced during the scan. */
const vanished = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && (error.code === 'ENOENT' || error.code === 'ENOTDIR')

function ignoreShortage(error: unknown): void {
  if (!isShortage(error)) throw error
}

async function retryScan(scan: () => Promise<void>): Promise<void> {
  for (
    const until = performance.now() + LAST_SCAN_WITHIN_MS;
    performance.now() < until;
    await sleep(PAUSE_MS)
  ) {
    const isDone = await scan().then(() => true, ignoreShortage)
    if (isDone) return
  }
  await scan()
}

export type FolderWatch = {
  /** Stops watching after a last scan. True if the folder exceeds a limit. */
  readonly end: () => Promise<boolean>
}

/**
 * Calls `onOver` once if a limit is exceeded. Files of `unlinked` count as if they were in the
 * folder.
 */
export function watchFolder(
  folder: string,
  limits: FolderLimits,
  unlinked: Unlinked | undefined,
  onOver: () => void,
): FolderWatch {
  const ended = new AbortController()
  let over = false
  /** At the last scan. */
  let [free, room]: (Room | undefined)[] = []
  const scan = async (): Promise<void> => {
    if (over) return
    free = await freeWhere(folder)
    room = await roomLeft(folder, limits, unlinked)
    if (room !== undefined) return
    over = true
    onOver()
  }
  /**
   * Whether the disk has lost more than the folder had left. Only a scan shows whether the call
   * took it.
   */
  const mayBeFull = async (): Promise<boolean> => {
    const now = await freeWhere(folder)
    if (free === undefined || room === undefined || now === undefined) return false
    return free.bytes - now.bytes > room.bytes || free.inodes - now.inodes > room.inodes
  }
  const watching = (async () => {
    for (let [took, before] = [0, 0]; !over; ) {
      await sleep(PAUSE_MS, undefined, { signal: ended.signal })
      const since = performance.now()
      const rested = since - before
      if (rested < took / SHARE && (rested < took / URGENT_SHARE || !(await mayBeFull()))) continue
      await scan().catch(ignoreShortage) // the next scan may work
      before = performance.now()
      took = before - since
    }
  })().catch((error) => {
    if (!ended.signal.aborted) throw error
  })
  watching.catch(() => undefined) // `end` reports the error; until then it must not count as unhandled
  return {
    end: async () => {
      ended.abort()
      await watching
      await retryScan(scan)
      return over
    },
  }
}
