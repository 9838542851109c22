// Owns what the sandbox makes on the host: programs of ours, and folders, named after the worker that made them, closed to others, and gone afterwards,
// whatever a tool left in them. In tier C a call's workspace is none of these: it is memory that goes with the sandbox.

import { randomUUID } from 'node:crypto'
import { renameSync, writeFileSync } from 'node:fs'
import { chmod, mkdir, mkdtemp, readdir, rename, rm, unlink } from 'node:fs/promises'
import { join } from 'node:path'

/** call: the workspace of a call in tier B. canary: that of a program which tries the sandbox. countersign-pipes: where others have theirs, too. */
type Kind = 'call' | 'relay' | 'canary' | 'input' | 'output' | 'countersign-pipes'

const LEFT_OVER = /^(?:call|relay|canary|input|output|countersign-pipes)-([0-9]+)-/

export const ownFolder = (root: string, kind: Kind): Promise<string> =>
  mkdtemp(join(root, `${kind}-${process.pid}-`))

/** Under a name of its own first: another worker of the same home (`doctor` beside `run`) may be executing it. */
export function writeProgram(path: string, bytes: Buffer): void {
  writeFileSync(`${path}.${process.pid}`, bytes, { mode: 0o500 })
  renameSync(`${path}.${process.pid}`, path)
}

export async function callFolder(root: string, cwd: string): Promise<string> {
  const folder = await ownFolder(root, 'call')
  try {
    if (cwd !== '') await mkdir(join(folder, cwd), { recursive: true })
  } catch (error) {
    await removeFolder(folder)
    throw error
  }
  return folder
}

/**
 * What workers left that were killed, and what could not be removed then. One that still runs may share the root (`doctor` beside
 * `run`) and keeps its own.
 */
export async function removeLeftOvers(root: string): Promise<void> {
  const left = (await readdir(root)).filter((name) => isOver(Number(LEFT_OVER.exec(name)?.[1])))
  await Promise.all(left.map((name) => removeFolder(join(root, name))))
}

/** Whether the number is no process's; of anything that is no number it is not said. */
export function isOver(pid: number): boolean {
  if (!(pid > 0)) return false
  try {
    process.kill(pid, 0)
    return false
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'ESRCH'
  }
}

/** Whether the folder is gone. It never throws: what a tool nests, names or closes is no reason for a worker to end. */
export async function removeFolder(folder: string): Promise<boolean> {
  const remove = (): Promise<void> => rm(folder, { recursive: true, force: true })
  try {
    await remove().catch(async () => {
      await flatten(folder)
      await remove()
    })
    return true
  } catch {
    return false
  }
}

/**
 * A folder without permissions can't be emptied, and one that lies deeper than a path may be long can't be named. So each is opened and
 * moved up beside the first ones, until none holds another. Names are bytes: a tool's need be no text. No process of the tool is left.
 */
async function flatten(folder: string): Promise<void> {
  const root = Buffer.from(folder)
  const folders = [root]
  for (let at = folders.pop(); at !== undefined; at = folders.pop()) {
    await chmod(at, 0o700)
    for (const entry of await readdir(at, { withFileTypes: true, encoding: 'buffer' })) {
      const path = Buffer.concat([at, SLASH, entry.name])
      if (!entry.isDirectory()) {
        await unlink(path)
        continue
      }
      await chmod(path, 0o700) // to be moved, it has to be writable too
      const up = at === root ? path : Buffer.from(join(folder, randomUUID()))
      if (up !== path) await rename(path, up)
      folders.push(up)
    }
  }
}

const SLASH = Buffer.from('/')
