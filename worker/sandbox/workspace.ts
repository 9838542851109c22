// Owns the folder of a call in tier B: made fresh, closed to others, and gone afterwards, whatever the tool left in it. Tier C needs none:
// its workspace is memory that goes with the sandbox.

import { chmod, mkdir, mkdtemp, readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'

export async function freshFolder(root: string, cwd: string): Promise<string> {
  const folder = await mkdtemp(join(root, 'call-'))
  if (cwd !== '') await mkdir(join(folder, cwd), { recursive: true })
  return folder
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
