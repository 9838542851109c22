// Owns the programs and folders that the sandbox makes on the host. A folder's name contains the
// pid of its worker, other users can't enter it, and it is removed afterwards, whatever a tool left
// in it. A tier C workspace is not one of these folders: it is in memory and ends with the sandbox.

import { randomUUID } from 'node:crypto'
import { renameSync, writeFileSync } from 'node:fs'
import { chmod, mkdir, mkdtemp, readdir, rename, rm, unlink } from 'node:fs/promises'
import { join } from 'node:path'

/**
 * call: the workspace of a tier B call. canary: the workspace of a canary. countersign-pipes: in a
 * folder that other programs use too, hence the longer name.
 */
type Kind = 'call' | 'relay' | 'canary' | 'input' | 'output' | 'countersign-pipes'

const LEFT_OVER = /^(?:call|relay|canary|input|output|countersign-pipes)-([0-9]+)-/

export const ownFolder = (root: string, kind: Kind): Promise<string> =>
  mkdtemp(join(root, `${kind}-${process.pid}-`))

/**
 * Writes a temporary file and renames it: another worker with the same home (`doctor` beside `run`)
 * may be executing the old one.
 */
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
 * Removes the folders of workers that have ended. A worker that still runs may share the root
 * (`doctor` beside `run`) and keeps its folders.
 */
export async function removeLeftOvers(root: string): Promise<void> {
  const left = (await readdir(root)).filter((name) => isOver(Number(LEFT_OVER.exec(name)?.[1])))
  await Promise.all(left.map((name) => removeFolder(join(root, name))))
}

/** Whether no process has this pid; false for anything that is not a pid. */
export function isOver(pid: number): boolean {
  if (!(pid > 0)) return false
  try {
    process.kill(pid, 0)
    return false
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'ESRCH'
  }
}

/**
 * Removes the folder and returns whether it is gone. Never throws, because no tool may end the
 * worker by how it nests, names or locks its files.
 */
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
 * Makes a tree removable: gives permissions to each folder, and moves nested folders up to the top,
 * because a path longer than the kernel's limit can't be named. Names are read as bytes, because a
 * tool's need not be valid UTF-8. No process of the tool is left by then.
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
      await chmod(path, 0o700) // a folder must be writable to be moved
      const up = at === root ? path : Buffer.from(join(folder, randomUUID()))
      if (up !== path) await rename(path, up)
      folders.push(up)
    }
  }
}

const SLASH = Buffer.from('/')
