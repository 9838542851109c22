// The test side of the escape tests: starts driver.ts as an unprivileged user, sends it orders, and
// makes the plans. Attack programs are Python,
// which calls the kernel directly; they print one JSON object.

import { type ChildProcess, spawn } from 'node:child_process'
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { arch, tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { removeEmptyCgroups } from '../../../infra/delegate-cgroup.ts'
import { asWorker, asWorkerAlone } from '../../../infra/run-as-user.ts'
import { DEFAULT_LIMITS } from '../../../shared/limits.ts'
import type { ProcessPlan as Plan } from '../../../shared/plan/plan.ts'
import { INIT } from '../../../worker/sandbox/kernel/init.ts'
import { machineOf, syscallsOf } from '../../../worker/sandbox/kernel/syscalls.ts'
import type { Facts } from '../../../worker/sandbox/plan/proven.ts'
import type {
  Answer,
  BareOrder,
  BareSeen,
  FactsSeen,
  LaunchOrder,
  LaunchSeen,
  Order,
  OrphansSeen,
  Setup,
  Swap,
} from './orders.ts'

export const UID = process.geteuid?.() === 0 ? 65_533 : (process.getuid?.() ?? 0)
const ROOT = join(import.meta.dirname, '..', '..', '..')
/** From the root: the user may find the repository elsewhere. */
const DRIVER = relative(ROOT, fileURLToPath(new URL('./driver.ts', import.meta.url)))

type Waiting = {
  readonly settle: (value: never) => void
  readonly fail: (error: Error) => void
  readonly hear: (said: string) => void
}
/** An order without its number. */
type Unnumbered<T> = T extends { id: number } ? Omit<T, 'id'> : never

export type ArenaOptions = Omit<Setup, 'folder' | 'facts'> & {
  /** The environment of the driver, as a worker would have it. */
  readonly env?: Readonly<Record<string, string>>
  /** A descriptor of the test, open in the driver under this number. */
  readonly leak?: { readonly fd: number; readonly as: number }
  /** The driver’s user gets no cgroup. */
  readonly undelegated?: true
  /** Programs that start the driver. */
  readonly under?: readonly string[]
  /** Runs the probe, even if another arena of this test run has proven the same set-up. */
  readonly probe?: true
}

/** vitest.config.ts runs the attacks in both kinds of sandboxes, cold and warm. */
const IN_PREPARED = process.env['COUNTERSIGN_ARENA'] === 'prepared' ? { prepared: {} } : {}

/** Compiled modules of the driver. */
const COMPILED = 'node_modules/.cache/countersign/compiled-for-arenas'
mkdirSync(join(ROOT, COMPILED), { recursive: true })
if (process.geteuid?.() === 0) chownSync(join(ROOT, COMPILED), UID, UID)

/**
 * The file in which the arenas of one `npm test` keep what they have proven, because each probe
 * costs more than most attacks. Undefined for a set-up whose proof is its own.
 */
function proofOf(setup: ArenaOptions, undelegated: boolean): string | undefined {
  const folder = process.env['COUNTERSIGN_SEEDED']
  const isCommon = Object.keys(setup).every((key) => ['privateHosts', 'prepared'].includes(key))
  if (folder === undefined || !isCommon) return undefined
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  const kind = `${undelegated ? 'undelegated' : 'delegated'}-${setup.prepared === undefined ? 'cold' : 'warm'}`
  return join(folder, `proof-${kind}.json`)
}

const readProof = (file: string | undefined): Facts | undefined =>
  file !== undefined && existsSync(file) ? (JSON.parse(readFileSync(file, 'utf8')) as Facts) : undefined // written below

export class Arena {
  /** Shared by the test and the sandboxes; contains the run folders. */
  readonly home: string
  /** The same as the driver sees it. */
  readonly #seen: string
  readonly #driver: ChildProcess
  readonly #waiting = new Map<number, Waiting>()
  #orders = 0
  #complaints = ''

  private constructor(home: string, seen: string, driver: ChildProcess) {
    this.home = home
    this.#seen = seen
    this.#driver = driver
    driver.stderr?.on('data', (chunk: Buffer) => {
      this.#complaints += chunk.toString()
    })
    driver.on('exit', () => this.#abandon())
    if (driver.stdout !== null)
      createInterface({ input: driver.stdout }).on('line', (line) => this.#hear(JSON.parse(line))) // from driver.ts
  }

  static async open({
    env = {},
    leak,
    undelegated,
    under = [],
    probe,
    ...given
  }: ArenaOptions = {}): Promise<Arena> {
    const setup = { ...IN_PREPARED, ...given }
    const isPlain = leak === undefined && under.length === 0 && Object.keys(env).length === 0
    const proof = isPlain && probe === undefined ? proofOf(setup, undelegated === true) : undefined
    const home = mkdtempSync(join(tmpdir(), 'escape-'))
    chownSync(home, UID, UID)
    let seen = ''
    const start = undelegated === true ? asWorkerAlone : asWorker
    const argv = start({ uid: UID, gid: UID }, { repository: ROOT, arena: home }, (at) => {
      seen = at.arena
      const whole: Setup = { ...setup, facts: readProof(proof), folder: join(at.arena, 'worker') }
      return [
        ...under,
        ...['/usr/bin/env', `NODE_COMPILE_CACHE=${join(at.repository, COMPILED)}`],
        join(at.repository, 'node_modules/.bin/node'),
        join(at.repository, DRIVER),
        JSON.stringify(whole),
      ]
    })
    const extra = leak === undefined ? [] : [...new Array<'ignore'>(leak.as - 3).fill('ignore'), leak.fd]
    const driver = spawn(argv[0] ?? '', argv.slice(1), {
      env: { ...env },
      stdio: ['pipe', 'pipe', 'pipe', ...extra],
    })
    const arena = new Arena(home, seen, driver)
    await new Promise<void>((settle, fail) =>
      arena.#waiting.set(0, { settle: () => settle(), fail, hear: () => undefined }),
    )
    if (proof !== undefined && !existsSync(proof)) {
      const { pid: _, ...facts } = await arena.facts()
      writeFileSync(`${proof}.${process.pid}`, JSON.stringify(facts))
      renameSync(`${proof}.${process.pid}`, proof)
    }
    return arena
  }

  get pid(): number {
    return this.#driver.pid ?? 0
  }

  facts(): Promise<FactsSeen> {
    return this.#order({ do: 'facts' })
  }

  /** Calls `hear` with output while it runs. */
  launch(order: LaunchOrder, hear?: (said: string) => void): Promise<LaunchSeen> {
    return this.#order({ do: 'launch', ...order }, hear)
  }

  /** The start of a worker of this user. */
  orphans(): Promise<OrphansSeen> {
    return this.#order({ do: 'orphans' })
  }

  bare(order: BareOrder): Promise<BareSeen> {
    return this.#order({ do: 'bare', ...order })
  }

  /** A folder that calls of one run share: here, and there. */
  runFolder(): { here: string; there: string } {
    const here = mkdtempSync(join(this.home, 'run-'))
    chownSync(here, UID, UID)
    chmodSync(here, 0o700)
    return { here, there: join(this.#seen, here.slice(this.home.length)) }
  }

  /** Like a power cut: SIGKILL, so the driver cleans nothing up. */
  async kill(): Promise<void> {
    await this.#end('SIGKILL')
  }

  async close(): Promise<void> {
    this.#driver.stdin?.end()
    await this.#end()
    rmSync(this.home, { recursive: true, force: true })
  }

  async #end(signal?: 'SIGKILL'): Promise<void> {
    if (this.#driver.exitCode !== null || this.#driver.signalCode !== null) return
    const gone = new Promise((settle) => this.#driver.once('exit', settle))
    if (signal !== undefined) this.#driver.kill(signal)
    await gone
    removeEmptyCgroups()
  }

  async #order<T>(order: Unnumbered<Order>, hear: (said: string) => void = () => undefined): Promise<T> {
    if (this.#driver.exitCode !== null || this.#driver.signalCode !== null)
      throw new Error(`the driver is gone: ${this.#complaints}`)
    this.#orders += 1
    const id = this.#orders
    this.#driver.stdin?.write(`${JSON.stringify({ ...order, id })}\n`)
    return new Promise<T>((settle, fail) => this.#waiting.set(id, { settle, fail, hear }))
  }

  #hear({ id, value, said, error }: Answer): void {
    const waiting = this.#waiting.get(id)
    if (said !== undefined) {
      waiting?.hear(said)
      return
    }
    this.#waiting.delete(id)
    if (error === undefined)
      waiting?.settle(value as never) // the order says which
    else waiting?.fail(new Error(error))
  }

  #abandon(): void {
    for (const { fail } of this.#waiting.values()) fail(new Error(`the driver ended: ${this.#complaints}`))
    this.#waiting.clear()
  }
}

/** Replaces our init by bubblewrap's own. */
export const THEIR_INIT: readonly Swap[] = [
  [['--as-pid-1'], []],
  [['--', INIT], ['--']],
]

type Changes = Partial<
  Pick<Plan, 'tier' | 'workspace' | 'egress' | 'secrets' | 'credentials' | 'files' | 'outputs'>
> & {
  readonly limits?: Partial<Plan['limits']>
  readonly cwd?: string
  readonly env?: Plan['executor']['env']
}

export function planOf(
  argv: readonly string[],
  { limits, cwd = '', env = {}, ...changes }: Changes = {},
): Plan {
  return {
    tier: 'C',
    executor: { kind: 'process', argv: [...argv], stdin: 'none', env, cwd },
    egress: changes.tier === 'B' ? { mode: 'none', hosts: [] } : { mode: 'strict', hosts: [] },
    secrets: [],
    workspace: 'call',
    ...changes,
    limits: { ...DEFAULT_LIMITS, timeout_ms: 10_000, ...limits },
  }
}

const numbers = Object.fromEntries(
  syscallsOf(machineOf(arch()) ?? 'x86_64').map(({ call, number }) => [call, number]),
)

/**
 * `call(name, …)` and `number(n, …)` make a system call and return `ok` or the errno; `tell` is
 * printed at the end.
 */
const PRELUDE = `
import ctypes, errno, json, os, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
N = ${JSON.stringify(numbers)}
tell = {}
def number(n, *args):
    ctypes.set_errno(0)
    r = libc.syscall(ctypes.c_long(n), *[a if isinstance(a, (bytes, ctypes.Array, type(None))) else ctypes.c_long(a) for a in args])
    return errno.errorcode[ctypes.get_errno()] if r == -1 else 'ok'
def call(name, *args):
    return number(N[name], *args)
def attempt(f, *args, **named):
    try:
        f(*args, **named)
        return 'ok'
    except OSError as e:
        return errno.errorcode[e.errno]
`
export const attack = (source: string): string[] => [
  'python3',
  '-I',
  '-c',
  `${PRELUDE}${source}\nprint(json.dumps(tell))`,
]

/** The JSON object that an attack printed among its output. */
export const attackReport = ({
  out,
  err,
}: {
  readonly out: string
  readonly err: string
}): Record<string, unknown> => {
  const line = out.trim().split('\n').at(-1) ?? ''
  if (!line.startsWith('{')) throw new Error(`the attack reported nothing: ${out}${err}`)
  return JSON.parse(line) as Record<string, unknown> // an object, because it begins with `{`
}

/** Processes of the host with this in their command line, seen from outside. */
export function processesWith(word: string): number[] {
  const named = readdirSync('/proc').filter(
    (name) => /^[0-9]+$/.test(name) && commandLine(name).includes(word),
  )
  return named.map(Number).filter((pid) => pid !== process.pid)
}

function commandLine(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'latin1')
  } catch {
    return ''
  }
}

/** A word that no other process has in its command line. */
export const unique = (): string => `${process.pid}${performance.now()}`.replace('.', '')
