// Owns the bound of a folder on disk that calls write to: its bytes and its files are counted while a call runs and once more when it has
// ended. No quota of a file system is to be had without root. It follows no link, stops counting where the bound is passed, and takes a
// small share of the time: where a look takes long, the next one is soon only if the disk has lost more than there was room for.

import type { Dirent } from 'node:fs'
import { lstat, opendir, statfs } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Limits } from '../../../shared/plan/plan.ts'
import { isShortage } from '../../host/file-descriptors.ts'
import type { Unlinked } from './unlinked-files.ts'

export type FolderLimits = Pick<Limits, 'workspace_bytes' | 'workspace_inodes'>

const PAUSE_MS = 100
/** A look that takes long is not repeated at once: at most this share of the time goes into looking, and this one where there is haste. */
const SHARE = 1 / 10
const HASTE = 1
const BLOCK = 512
/** For the last look, where this host has nothing to look with. */
const LAST_MS = 2_000
/** Entries of a folder that are asked for together. */
const PART = 256

type Room = { readonly bytes: number; readonly inodes: number }

/**
 * What the folder leaves of its limits. Undefined where it holds more; what can't be counted is more: a tool could hide there whatever it
 * likes. Throws where it is this host that has nothing to count with.
 */
async function roomIn(
  folder: string,
  { workspace_bytes, workspace_inodes = Number.POSITIVE_INFINITY }: FolderLimits,
): Promise<Room | undefined> {
  const folders = [Buffer.from(folder)]
  let [left, room] = [workspace_inodes, workspace_bytes]
  for (let at = folders.pop(); at !== undefined; at = folders.pop()) {
    try {
      for await (const entries of inParts(at)) {
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

/** Names are bytes, and a tool's need be no text: as one character each they are all there. */
const BYTES = 'latin1'
const SLASH = Buffer.from('/')

/** One by one, each would wait for its turn among all that this host does. */
async function* inParts(folder: Buffer): AsyncGenerator<Dirent[]> {
  let part: Dirent[] = []
  for await (const entry of await opendir(folder, { bufferSize: PART, encoding: BYTES })) {
    part.push(entry)
    if (part.length < PART) continue
    yield part
    part = []
  }
  yield part
}

/** Undefined where that is more than it may. Throws where this host has nothing to count with. */
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

/** Of the whole disk, by one question however much lies there. */
async function freeWhere(folder: string): Promise<Room | undefined> {
  try {
    const { bavail, bsize, ffree } = await statfs(folder)
    return { bytes: bavail * bsize, inodes: ffree }
  } catch {
    return undefined // a tool of tier B may have removed its folder
  }
}

/** What it takes on disk: a hole in a file is nothing. */
async function occupied(path: Buffer): Promise<number> {
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

function unlessShort(error: unknown): void {
  if (!isShortage(error)) throw error
}

async function insist(look: () => Promise<void>): Promise<void> {
  for (const until = performance.now() + LAST_MS; performance.now() < until; await sleep(PAUSE_MS)) {
    const told = await look().then(() => true, unlessShort)
    if (told) return
  }
  await look()
}

export type FolderWatch = {
  /** Ends the watching, with a last look. True if the folder holds more than it may. */
  readonly end: () => Promise<boolean>
}

/** `onOver` is told once, as soon as it is seen. What is `unlinked` counts as if it were in the folder. */
export function watchFolder(
  folder: string,
  limits: FolderLimits,
  unlinked: Unlinked | undefined,
  onOver: () => void,
): FolderWatch {
  const ended = new AbortController()
  let over = false
  /** At the last look. */
  let [free, room]: (Room | undefined)[] = []
  const look = async (): Promise<void> => {
    if (over) return
    free = await freeWhere(folder)
    room = await roomLeft(folder, limits, unlinked)
    if (room !== undefined) return
    over = true
    onOver()
  }
  /** Whether the disk has lost more than was left: by whom is only seen by looking. */
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
      if (rested < took / SHARE && (rested < took / HASTE || !(await mayBeFull()))) continue
      await look().catch(unlessShort) // another look may tell
      before = performance.now()
      took = before - since
    }
  })().catch((error) => {
    if (!ended.signal.aborted) throw error
  })
  watching.catch(() => undefined) // `end` tells: until then nobody waits, and what nobody waits for would end the worker
  return {
    end: async () => {
      ended.abort()
      await watching
      await insist(look)
      return over
    },
  }
}
