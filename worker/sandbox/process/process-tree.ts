// Owns the end of a call's processes: that none is left. In tier C the kernel does it, by the PID namespace, and this file waits for the
// proof. In tier B there is no namespace, so processes are found by a mark that they can't take off by chance.

import { randomBytes } from 'node:crypto'
import { closeSync, openSync, readdirSync, readlinkSync, readSync, statSync } from 'node:fs'
import { setImmediate as immediate, setTimeout as sleep } from 'node:timers/promises'
import { isShortage } from '../../host/file-descriptors.ts'

const WAIT_MS = 2_000
/** A sandbox that has ended is empty within this time, almost always; a timer would take longer. */
const SPIN_MS = 0.3
const PAUSE_MS = 1

/** SIGKILL for a session leader's process group; for what was in it when it was just started, too. */
export function killGroup(pid: number): void {
  send(-pid, 'SIGKILL')
}

function send(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal)
  } catch {
    // Gone already: that was the wish.
  }
}

/** Enough for `stat` and `limits`. */
const PROC_BYTES = 2_048

/** A file of /proc, which is made when it is read: `readFile` would ask for its size and read on after its end. Throws where none can be opened. */
function proc(path: string): string | undefined {
  let fd: number
  try {
    fd = openSync(`/proc/${path}`, 'r')
  } catch (error) {
    if (isShortage(error)) throw error
    return undefined
  }
  try {
    const bytes = Buffer.allocUnsafe(PROC_BYTES)
    return bytes.toString('latin1', 0, readSync(fd, bytes))
  } catch {
    return undefined // ESRCH: it ended meanwhile
  } finally {
    closeSync(fd)
  }
}

/** Fields of /proc/PID/stat after the name, which may hold anything. */
function statusOf(pid: number): { state: string; session: number } | undefined {
  const stat = proc(`${pid}/stat`)
  if (stat === undefined) return undefined
  const [state = '', , , session = ''] = stat.slice(stat.lastIndexOf(')') + 2).split(' ', 4)
  return { state, session: Number(session) }
}

/** What a look saw; undefined where there is nothing to look with. */
function seen<T>(look: () => T): T | undefined {
  try {
    return look()
  } catch (error) {
    if (isShortage(error)) return undefined
    throw error
  }
}

const isOver = (state: string | undefined): boolean => state === undefined || state === 'Z' || state === 'X'

/**
 * Ends the sandbox whose process 1 is `pid`, and returns whether it is empty. Process 1 becomes a zombie only after everything in its
 * namespace is gone. The host's own init may be slow to collect that zombie, so nobody waits for its number to be free.
 */
export async function endSandbox(pid: number): Promise<boolean> {
  for (const since = performance.now(); ; ) {
    if (seen(() => isOver(statusOf(pid)?.state)) === true) return true
    const waited = performance.now() - since
    if (waited > WAIT_MS) return namespaceOf(pid) === 'ours' // then the number is someone else's by now
    if (waited >= SPIN_MS) killInit(pid)
    await (waited < SPIN_MS ? immediate() : sleep(PAUSE_MS))
  }
}

/** Sends SIGKILL by the host's process id, which no process 1 can ignore (D1), unless another process has that id by now. */
export function killInit(pid: number): void {
  if (namespaceOf(pid) === 'another') send(pid, 'SIGKILL')
}

/** `unknown` where it can't be read: the process has ended, is another user's, or there is no descriptor to look with. */
function namespaceOf(pid: number): 'ours' | 'another' | 'unknown' {
  try {
    return readlinkSync(`/proc/${pid}/ns/pid`) === readlinkSync('/proc/self/ns/pid') ? 'ours' : 'another'
  } catch {
    return 'unknown'
  }
}

/**
 * A number that is no one else's, as the hard RLIMIT_RTTIME of a call in tier B: unused by others, inherited by all, never raised
 * again.
 */
export const newMark = (): number => 2 ** 52 + randomBytes(6).readUIntBE(0, 6)

/**
 * Ends every process of a call in tier B, wherever it went: daemons, other sessions, orphans. First all are stopped, round by round until
 * no new one turns up, because a fork bomb outruns a killer but not a freezer: stopped processes keep their places under the limit. One
 * that lowers its own mark on purpose and has left the session escapes. Tier B is for tools that do not.
 */
export async function endMarked(session: number, mark: number, since_ms: number): Promise<boolean> {
  const all = Date.now() - since_ms > FRESH_MS
  for (const deadline = Date.now() + WAIT_MS; ; await sleep(PAUSE_MS)) {
    const found = seen(() => stopped(session, mark, all, deadline))
    for (const pid of found ?? []) send(pid, 'SIGKILL')
    if (found?.length === 0) return true
    if (Date.now() > deadline) return false
  }
}

/** Looked at twice at least: one that forks and exits could slip through a single look. */
function stopped(session: number, mark: number, all: boolean, deadline: number): number[] {
  let known = -1
  let found = marked(session, mark, all)
  while (found.length > known && Date.now() <= deadline) {
    for (const pid of found) send(pid, 'SIGSTOP')
    known = found.length
    found = marked(session, mark, all)
  }
  return found
}

/** Numbers are given in rising order. A call younger than this has none below its first, unless they began anew meanwhile. */
const FRESH_MS = 2_000

function marked(session: number, mark: number, all: boolean): number[] {
  const uid = process.getuid?.()
  const least = all || lastNumber() < session ? 0 : session
  const found: number[] = []
  for (const name of readdirSync('/proc')) {
    const pid = Number(name)
    if (!(pid >= least && pid > 0) || pid === process.pid) continue
    const owner = statSync(`/proc/${pid}`, { throwIfNoEntry: false })?.uid
    // A process that hides its memory (agents of keys do) is shown as root's.
    if (owner !== uid && owner !== 0) continue
    const status = statusOf(pid)
    if (!isOver(status?.state) && (status?.session === session || bears(pid, mark))) found.push(pid)
  }
  return found
}

/** The process number that was given last. */
const lastNumber = (): number => Number(proc('loadavg')?.trim().split(' ').at(-1))

const bears = (pid: number, mark: number): boolean => proc(`${pid}/limits`)?.includes(` ${mark} `) === true
