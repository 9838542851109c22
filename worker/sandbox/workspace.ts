// Owns the folders that the sandbox makes on the host: named after the worker that made them, closed to others, and gone afterwards,
// whatever a tool left in them. In tier C a call's workspace is none of these: it is memory that goes with the sandbox.

import { chmod, mkdir, mkdtemp, readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'

/** call: the workspace of a call in tier B. canary: that of a program which tries the sandbox. */
type Kind = 'call' | 'pipes' | 'relay' | 'canary' | 'input' | 'output'

const LEFT_OVER = /^(?:call|pipes|relay|canary|input|output)-([0-9]+)-/

export const ownFolder = (root: string, kind: Kind): Promise<string> => mkdtemp(join(root, `${kind}-${process.pid}-`))

export async function callFolder(root: string, cwd: string): Promise<string> {
  const folder = await ownFolder(root, 'call')
  if (cwd !== '') await mkdir(join(folder, cwd), { recursive: true })
  return folder
}

/** What workers left that were killed. One that still runs may share the root (`doctor` beside `run`) and keeps its own. */
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

export async function removeFolder(folder: string): Promise<void> {
  try {
    await rm(folder, { recursive: true, force: true })
  } catch {
    await open(folder) // a folder without permissions can't be emptied
    await rm(folder, { recursive: true, force: true })
  }
}

async function open(folder: string): Promise<void> {
  await chmod(folder, 0o700)
  for (const entry of await readdir(folder, { withFileTypes: true })) if (entry.isDirectory()) await open(join(folder, entry.name))
}
