// A program that exhausts its file descriptors and exercises parts of the worker while none are
// left. It prints one line of JSON: how each part reacted, and how many descriptors leaked.

import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, existsSync, mkdtempSync, openSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import { RunFolders } from '../../../worker/calls/run-folders.ts'
import { namelessFile } from '../../../worker/host/file-descriptors.ts'
import type { Equipment } from '../../../worker/sandbox/equipment.ts'
import { occupiedBy, watchFolder } from '../../../worker/sandbox/limits/disk-watch.ts'
import type { Command } from '../../../worker/sandbox/plan/argv.ts'
import { inputPipe, outputPipe, PipeStock } from '../../../worker/sandbox/process/pipes.ts'
import { endMarked, endSandbox, newMark } from '../../../worker/sandbox/process/process-tree.ts'
import { wire } from '../../../worker/sandbox/process/stdio.ts'

const O_PATH = 0o10000000
const MKFIFO = '/usr/bin/mkfifo'
const SCRATCH = '/dev/shm'
const folder = mkdtempSync(join(tmpdir(), 'countersign-short-'))
const LIMITS = { workspace_bytes: 1_000_000, workspace_inodes: 100 }

const fillers: number[] = []
/** Opens descriptors until only `count` are left. */
function leaveFree(count: number): void {
  try {
    for (;;) fillers.push(openSync('/dev/null', 'r'))
  } catch {
    for (const fd of fillers.splice(fillers.length - count)) closeSync(fd)
  }
}
function freeAll(): void {
  for (const fd of fillers.splice(0)) closeSync(fd)
}
const codeOf = (error: NodeJS.ErrnoException): string | undefined => error.code
const openNow = (): number => readdirSync('/proc/self/fd').length

type Exhaustion = { readonly failed: number; readonly leaked: number }

/**
 * Repeats `attempt` with 0 to `most` free descriptors: how often it failed, and how many
 * descriptors it leaked in total.
 */
async function exhaust(
  most: number,
  blanks: number,
  attempt: (blanks: readonly number[]) => () => unknown,
): Promise<Exhaustion> {
  const before = openNow()
  let failed = 0
  for (let count = 0; count <= most; count++) {
    const unopened = pipes(blanks)
    leaveFree(count)
    let end: () => unknown = () => undefined
    try {
      end = attempt(unopened)
    } catch {
      failed += 1
    }
    freeAll()
    await end()
    await setImmediate() // until pending closes are done
  }
  return { failed, leaked: openNow() - before }
}

function pipes(count: number): number[] {
  const paths = Array.from({ length: count }, (_, index) => join(folder, `pipe-${index}`))
  execFileSync(MKFIFO, paths)
  const fds = paths.map((path) => openSync(path, O_PATH))
  for (const path of paths) rmSync(path)
  return fds
}

const streams = ([blank = -1]: readonly number[]) => {
  const { reader, childEnd } = outputPipe(blank)
  return () => {
    closeSync(childEnd)
    return once(reader.destroy(), 'close')
  }
}
await exhaust(3, 1, streams) // warms up what a process opens once and keeps
const output = await exhaust(3, 1, streams)
const release = await exhaust(4, 1, ([blank = -1]) => {
  const { ours, childEnd } = inputPipe(blank)
  return () => [closeSync(ours), closeSync(childEnd)]
})

const filter = { bytes: Buffer.alloc(0), fd: namelessFile(SCRATCH) }
const equipment = {
  scratch: SCRATCH,
  devNull: openSync('/dev/null', 'r'),
  filters: { no_sockets: filter, inet: filter, host: filter },
} as unknown as Equipment // only what stdio.ts uses
const bwrap = { options: Buffer.alloc(1), sockets: 'no_sockets', secrets: ['token'] } as const
const command: Command = {
  profile: 'c_offline',
  program: '',
  args: [],
  env: {},
  cwd: '/',
  groupFds: [],
  bwrap,
}
const cold = await exhaust(
  14,
  2,
  (blanks) =>
    wire(equipment, command, blanks, { gated: false, stdin: Buffer.from('in'), secrets: { token: 'x' } })
      .close,
)
const { secrets: _, ...plain } = bwrap
const gated = await exhaust(
  18,
  3,
  (blanks) =>
    wire(equipment, { ...command, bwrap: { ...plain, secrets: [] } }, blanks, { gated: true }).close,
)

const before = openNow()
const stock = PipeStock.open(MKFIFO, SCRATCH)
const first = await stock.take(90)
leaveFree(60) // enough to start mkfifo, but not to open all its pipes
let refused = 0
for (let n = 0; n < 6; n++) {
  const taken = await stock.take(12).catch(() => [])
  refused += taken.length === 0 ? 1 : 0
  for (const fd of taken) closeSync(fd)
}
for (const fd of first) closeSync(fd)
freeAll()
const afterwards = await stock.take(12)
for (const fd of afterwards) closeSync(fd)
await stock.close()
const stocked = { refused: refused > 0, leaked: openNow() - before }

const shared = join(folder, 'shared')
const folders = new RunFolders(shared)
const RUN = 'run_01JZ0000000000000000000000'
const entered = await folders.enter(RUN, 'new', LIMITS)
writeFileSync(join(shared, RUN, 'work'), 'work')
const watched = watchFolder(join(shared, RUN), LIMITS, undefined, () => undefined)
leaveFree(0)
const counted = await occupiedBy(join(shared, RUN), LIMITS).catch(codeOf)
folders.leave(RUN)
const ending = watched.end()
await folders.sweep()
freeAll()
const disk = { entered: entered.ok, counted, over: await ending, kept: existsSync(join(shared, RUN, 'work')) }
folders.close()

const tool = spawn('/bin/sleep', ['60'], { detached: true, stdio: 'ignore' })
await once(tool, 'spawn')
const { pid = 0 } = tool
leaveFree(0)
let gone: boolean | undefined
let ended: boolean | string | undefined
const sandbox = endSandbox(pid).then((value) => {
  gone = value
})
const marked = endMarked(pid, newMark(), Date.now())
  .catch(codeOf)
  .then((value) => {
    ended = value
  })
for (let turn = 0; turn < 5; turn++) await setImmediate()
const early = [gone ?? null, ended ?? null]
freeAll()
await Promise.all([sandbox, marked])
const killed = tool.signalCode ?? (tool.kill('SIGTERM') && (await once(tool, 'exit'))[1])
const processes = { early, late: [gone, ended], killed }

console.log(JSON.stringify({ output, release, cold, gated, stocked, disk, processes }))
rmSync(folder, { recursive: true })
process.exit(0)
