// Ends all processes of a call. In tier C the kernel does so through the PID namespace, and this
// file waits for the proof. Tier B has no namespace, so processes are found by a mark (an rlimit)
// that they inherit and don't remove by accident.

import { randomBytes } from 'node:crypto'
import { closeSync, openSync, readdirSync, readlinkSync, readSync, statSync } from 'node:fs'
import { setImmediate as immediate, setTimeout as sleep } from 'node:timers/promises'
import { isShortage } from '../../host/file-descriptors.ts'

const WAIT_MS = 2_000
/** An ended sandbox is almost always empty within this time, which is shorter than any timer. */
const SPIN_MS = 0.3
const PAUSE_MS = 1

/** Sends SIGKILL to a session leader's process group, which also holds what it has just started. */
export function killGroup(pid: number): void {
  send(-pid, 'SIGKILL')
}

function send(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal)
  } catch {
    // It is gone already.
  }
}

/** Enough for `stat` and `limits`. */
const PROC_BYTES = 2_048

/**
 * Reads a file of /proc with one read: `readFile` would first stat it and then read past its end.
 * Throws if descriptors run out.
 */
function readProc(path: string): string | undefined {
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
    return undefined // ESRCH: the process ended
  } finally {
    closeSync(fd)
  }
}

/** Reads fields of /proc/PID/stat that follow the process name, which may contain anything. */
function statusOf(pid: number): { state: string; session: number } | undefined {
  const stat = readProc(`${pid}/stat`)
  if (stat === undefined) return undefined
  const [state = '', , , session = ''] = stat.slice(stat.lastIndexOf(')') + 2).split(' ', 4)
  return { state, session: Number(session) }
}

/** Returns what `look` returns, or undefined if descriptors ran out. */
function unlessShort<T>(look: () => T): T | undefined {
  try {
    return look()
  } catch (error) {
    if (isShortage(error)) return undefined
    throw error
  }
}

const hasEnded = (state: string | undefined): boolean => state === undefined || state === 'Z' || state === 'X'

/** Whether a child of ours runs: Node reports its end later than the kernel. */
export const runsNow = (pid: number): boolean => unlessShort(() => !hasEnded(statusOf(pid)?.state)) === true

/**
 * Ends the sandbox whose process 1 is `pid`, and returns whether it is empty. Process 1 becomes a
 * zombie only after everything in its namespace is gone. The host's own init may be slow to collect
 * that zombie, so this does not wait until the pid is free.
 */
export async function endSandbox(pid: number): Promise<boolean> {
  for (const since = performance.now(); ; ) {
    if (unlessShort(() => hasEnded(statusOf(pid)?.state)) === true) return true
    const waited = performance.now() - since
    if (waited > WAIT_MS) return namespaceOf(pid) === 'ours' // another process has this pid by now
    if (waited >= SPIN_MS) killInit(pid)
    await (waited < SPIN_MS ? immediate() : sleep(PAUSE_MS))
  }
}

/**
 * Sends SIGKILL by the host's process id, which no process 1 can ignore (D1), unless another
 * process has that id by now.
 */
export function killInit(pid: number): void {
  if (namespaceOf(pid) === 'another') send(pid, 'SIGKILL')
}

/**
 * `unknown` if it can't be read: the process has ended or is another user's, or descriptors ran
 * out.
 */
function namespaceOf(pid: number): 'ours' | 'another' | 'unknown' {
  try {
    return readlinkSync(`/proc/${pid}/ns/pid`) === readlinkSync('/proc/self/ns/pid') ? 'ours' : 'another'
  } catch {
    return 'unknown'
  }
}

/** The worker's process id and a random number, below a bit that no sensible limit has. */
const MARK = { flag: 1n << 62n, workerAt: 40n, randomBytes: 5 } as const

/**
 * The hard RLIMIT_RTTIME of a tier B call: others don't use this limit, all children inherit it, and
 * none can raise it again. It names the worker, so that the next one recognises what a dead one left.
 */
export const newMark = (): bigint =>
  MARK.flag |
  (BigInt(process.pid) << MARK.workerAt) |
  BigInt(`0x${randomBytes(MARK.randomBytes).toString('hex')}`)

/** The mark of a process, and the process id of the worker that made it. */
export function markOf(pid: number): { mark: bigint; worker: number } | undefined {
  const limit = /^Max realtime timeout\s+\d+\s+(\d{19})\s/m.exec(readProc(`${pid}/limits`) ?? '')?.[1]
  const mark = BigInt(limit ?? 0)
  if ((mark & MARK.flag) === 0n || mark >= MARK.flag << 1n) return undefined
  return { mark, worker: Number((mark ^ MARK.flag) >> MARK.workerAt) }
}

/**
 * Ends every process of a tier B call, including daemons, other sessions and orphans. It first
 * stops all of them, round by round until no new one appears: a fork bomb outruns a killer (S37),
 * but stopped processes keep occupying the process limit. A process that deliberately lowers its
 * own mark and leaves the session escapes; tier B is not meant for such tools. `session` is
 * undefined if the first process is gone.
 */
export async function endMarked(
  session: number | undefined,
  mark: bigint,
  since_ms: number,
): Promise<boolean> {
  const all = Date.now() - since_ms > FRESH_MS
  for (const deadline = Date.now() + WAIT_MS; ; await sleep(PAUSE_MS)) {
    const found = unlessShort(() => stopAll(session, mark, all, deadline))
    for (const pid of found ?? []) send(pid, 'SIGKILL')
    if (found?.length === 0) return true
    if (Date.now() > deadline) return false
  }
}

/** Looks at least twice: a process that forks and exits could slip through a single look. */
function stopAll(session: number | undefined, mark: bigint, all: boolean, deadline: number): number[] {
  let known = -1
  let found = findMarked(session, mark, all)
  while (found.length > known && Date.now() <= deadline) {
    for (const pid of found) send(pid, 'SIGSTOP')
    known = found.length
    found = findMarked(session, mark, all)
  }
  return found
}

/**
 * Pids rise until they wrap. A call younger than this has none below its first, unless they have
 * wrapped since.
 */
const FRESH_MS = 2_000

function findMarked(session: number | undefined, mark: bigint, all: boolean): number[] {
  const uid = process.getuid?.()
  const least = all || session === undefined || lastPid() < session ? 0 : session
  const found: number[] = []
  for (const name of readdirSync('/proc')) {
    const pid = Number(name)
    if (!(pid >= least && pid > 0) || pid === process.pid) continue
    const owner = statSync(`/proc/${pid}`, { throwIfNoEntry: false })?.uid
    // A process that hides its memory, as key agents do, is shown as root's.
    if (owner !== uid && owner !== 0) continue
    const status = statusOf(pid)
    if (!hasEnded(status?.state) && (status?.session === session || hasMark(pid, mark))) found.push(pid)
  }
  return found
}

/** The most recently assigned pid. */
const lastPid = (): number => Number(readProc('loadavg')?.trim().split(' ').at(-1))

const hasMark = (pid: number, mark: bigint): boolean =>
  readProc(`${pid}/limits`)?.includes(` ${mark} `) === true
