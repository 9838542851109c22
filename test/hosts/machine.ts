// Owns a Debian machine in a folder: makes its tree, boots it with systemd as PID 1 in its own
// network, runs commands inside, reads its journal, powers it off, and leaves nothing behind. It
// needs root, and a host without systemd. installed.ts installs Countersign on it.
//
// A machine is below one process of ours: the PID namespace with systemd-nspawn and the machine
// ends with us, however we end.

import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { pdeathsig } from '../../infra/child-process.ts'
import { debianTree } from './debian.ts'

type MachineOptions = {
  /** Its hostname. */
  readonly name: string
  /** Debian packages in addition to those of every machine. */
  readonly packages: readonly string[]
  /**
   * Folders of this host that it sees, by their paths here and there. Its writes stay in the
   * machine.
   */
  readonly shared: Readonly<Record<string, string>>
  /** Symbolic links in its tree: path and target. */
  readonly links: Readonly<Record<string, string>>
}

type Ran = { readonly code: number | null; readonly out: string; readonly err: string }
type RunOptions = {
  readonly stdin?: string
  readonly env?: Readonly<Record<string, string>>
  readonly cwd?: string
}

const BOOT_WITHIN_MS = 30_000
const POWER_OFF_WITHIN_MS = 90_000 // systemd gives a unit up to TimeoutStopSec
const COMMAND_WITHIN_MS = 120_000
/**
 * The signal "power off" for systemd as PID 1 (systemd(1), SIGNALS): SIGRTMIN+4; SIGRTMIN is 34 in
 * glibc.
 */
const POWER_OFF = 34 + 4

const ENV = {
  PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
  HOME: '/root',
  LANG: 'C.UTF-8',
  TERM: 'dumb',
}

/** Enters the cgroups in its arguments before `--`, then executes the arguments after it. */
const ENTER = 'while [ "$1" != -- ]; do echo $$ > "$1/cgroup.procs" || exit; shift; done; shift; exec "$@"'
/** nspawn keeps its own state in /run, and refuses to remove it unless that is a tmpfs. */
const SPAWN = 'mount -t tmpfs -o mode=755 tmpfs /run && exec systemd-nspawn "$@"'

const CGROUPS = '/sys/fs/cgroup'
/**
 * cgroup2 has one hierarchy; a hybrid host has one for each controller, and machines would share
 * each root.
 */
const hierarchies = (): string[] =>
  existsSync(join(CGROUPS, 'cgroup.controllers'))
    ? [CGROUPS]
    : ['systemd', 'unified', 'memory', 'pids', 'cpu']
        .map((name) => join(CGROUPS, name))
        .filter((path) => existsSync(path))

const NAME = 'countersign-host-'
let opened = 0

export class Machine {
  readonly name: string
  /** Its tree, as this host sees it. */
  readonly root: string
  /** No other process gives a machine this name. */
  readonly id = `${NAME}${process.pid}-${++opened}`
  readonly #folder: string
  readonly #shared: Readonly<Record<string, string>>
  #process: ChildProcess | undefined
  #leader = 0
  #console = ''

  private constructor(folder: string, { name, shared }: MachineOptions) {
    this.name = name
    this.root = join(folder, 'root')
    this.#folder = folder
    this.#shared = shared
  }

  /** Its tree; it is not booted yet. */
  static async open(options: MachineOptions): Promise<Machine> {
    const tar = await debianTree(options.packages)
    await removeAbandoned()
    const machine = new Machine(mkdtempSync(join(tmpdir(), `${NAME}${process.pid}-`)), options)
    mkdirSync(machine.root)
    await promisify(execFile)('tar', [
      '--extract',
      '--numeric-owner',
      '--xattrs',
      '--file',
      tar,
      '--directory',
      machine.root,
    ])
    writeFileSync(join(machine.root, 'etc/hostname'), `${options.name}\n`)
    writeFileSync(join(machine.root, 'etc/hosts'), `127.0.0.1 localhost\n127.0.1.1 ${options.name}\n`)
    for (const there of Object.values(options.shared))
      mkdirSync(join(machine.root, there), { recursive: true })
    for (const [at, to] of Object.entries(options.links)) {
      mkdirSync(join(machine.root, at, '..'), { recursive: true })
      symlinkSync(to, join(machine.root, at))
    }
    return machine
  }

  get running(): boolean {
    return this.#process !== undefined
  }

  /** Waits until systemd reports that all units have started. */
  async boot(): Promise<void> {
    if (this.running) throw new Error(`${this.name} runs already`)
    const groups = hierarchies().map((hierarchy) => join(hierarchy, this.id))
    for (const group of groups) mkdirSync(group)
    const shared = Object.entries(this.#shared).map(
      ([here, there], index) => `--overlay=${here}:${this.#layer(index)}:${there}`,
    )
    const nspawn = [
      `--directory=${this.root}`,
      '--boot',
      '--register=no',
      '--keep-unit',
      '--console=pipe',
      '--private-network',
    ]
    const namespaces = [
      'unshare',
      '--mount',
      '--propagation=slave',
      '--pid',
      '--fork',
      '--kill-child',
      '--mount-proc',
      '--',
    ]
    const [file = '', ...args] = pdeathsig([
      ...['/bin/sh', '-c', ENTER, 'enter', ...groups, '--', ...namespaces],
      ...[
        '/bin/sh',
        '-c',
        SPAWN,
        'spawn',
        ...nspawn,
        `--machine=${this.id}`,
        `--hostname=${this.name}`,
        ...shared,
      ],
    ])
    // Without it /proc/sys is read-only inside, and bubblewrap can't end the making of namespaces
    // (tier C).
    const env = { ...ENV, SYSTEMD_NSPAWN_API_VFS_WRITABLE: '1' }
    const child = spawn(file, args, { env, cwd: '/', stdio: ['ignore', 'pipe', 'pipe'] })
    this.#process = child
    this.#console = ''
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', (chunk: Buffer) => (this.#console += chunk.toString()))
    child.once('exit', () => {
      this.#process = undefined
    })
    await this.eventually(
      'systemd is up',
      async () => {
        if (!this.running)
          throw new Error(`${this.name} ended while it booted; its console:\n${this.#console}`)
        this.#leader = initBelow(child.pid ?? 0)
        if (this.#leader === 0) return false
        const state = (await this.run(['systemctl', 'is-system-running', '--wait'])).out.trim()
        if (state === 'degraded')
          throw new Error(
            `on ${this.name} units failed:\n${await this.must(['systemctl', '--failed', '--no-pager'])}`,
          )
        return state === 'running'
      },
      { within_ms: BOOT_WITHIN_MS },
    )
  }

  /** Runs as root, outside nspawn's limits, so only a unit shows what a service may do. */
  async run(
    [file = '', ...args]: readonly string[],
    { stdin = '', env = {}, cwd = '/root' }: RunOptions = {},
  ): Promise<Ran> {
    const inside = ['--target', `${this.#leader}`, '--all', '--', 'env', `--chdir=${cwd}`, file, ...args]
    const child = spawn('nsenter', inside, {
      env: { ...ENV, ...env },
      stdio: ['pipe', 'pipe', 'pipe'],
      timeout: COMMAND_WITHIN_MS,
      killSignal: 'SIGKILL',
    })
    const [out, err] = [[], []] as [Buffer[], Buffer[]]
    child.stdout.on('data', (chunk: Buffer) => out.push(chunk))
    child.stderr.on('data', (chunk: Buffer) => err.push(chunk))
    child.stdin.on('error', () => undefined) // it ended before it read all
    child.stdin.end(stdin)
    const [code] = await once(child, 'close')
    return { code, out: Buffer.concat(out).toString(), err: Buffer.concat(err).toString() }
  }

  /** Returns the output. Throws if the command fails. */
  async must(argv: readonly string[], options: RunOptions = {}): Promise<string> {
    const { code, out, err } = await this.run(argv, options)
    if (code !== 0) throw new Error(`on ${this.name} \`${argv.join(' ')}\` ended with ${code}:\n${out}${err}`)
    return out
  }

  /** The journal of all boots, and of all units if none is named. */
  async journal(...units: readonly string[]): Promise<string> {
    return this.must([
      'journalctl',
      '--no-pager',
      '--quiet',
      '--output=short-precise',
      ...units.map((unit) => `--unit=${unit}`),
    ])
  }

  /** The status and logs that a person would look at if a unit does not work. */
  async diagnosis(units: readonly string[]): Promise<string> {
    const { out } = await this.run(['systemctl', 'status', '--no-pager', '--lines=0', ...units])
    const lines = (await this.journal(...units)).split('\n').slice(-80)
    return `${out}\n${lines.join('\n')}`
  }

  /** Polls until it is true. Throws with the journal of `units` if that takes too long. */
  async eventually(
    what: string,
    holds: () => Promise<boolean>,
    {
      within_ms = 60_000,
      units = [],
    }: { readonly within_ms?: number; readonly units?: readonly string[] } = {},
  ): Promise<void> {
    for (const until = Date.now() + within_ms; !(await holds()); await sleep(100)) {
      if (Date.now() < until) continue
      const why = units.length > 0 ? await this.diagnosis(units) : this.#console
      throw new Error(`on ${this.name} this did not happen within ${within_ms / 1000} s: ${what}\n${why}`)
    }
  }

  /** Shuts down in order, as after a press of the power button. */
  async powerOff(): Promise<void> {
    const child = this.#process
    if (child === undefined) return
    const gone = once(child, 'exit')
    process.kill(this.#leader, POWER_OFF)
    if ((await Promise.race([gone, sleep(POWER_OFF_WITHIN_MS, undefined, { ref: false })])) === undefined)
      throw new Error(
        `${this.name} did not power off within ${POWER_OFF_WITHIN_MS / 1000} s; its console:\n${this.#console}`,
      )
    this.#removeGroups()
  }

  /** Kills it if it still runs, and removes its tree. */
  async close(): Promise<void> {
    const child = this.#process
    if (child !== undefined) {
      const gone = once(child, 'exit')
      child.kill('SIGKILL') // and with it the namespace that all of the machine is in
      await gone
    }
    await this.eventually('its processes are gone', () => Promise.resolve(this.#removeGroups()), {
      within_ms: 10_000,
    })
    await rm(this.#folder, { recursive: true, force: true })
  }

  /** Its remains on this host: processes, mounts, cgroups, files. */
  leftovers(): string[] {
    const processes = readdirSync('/proc').filter(
      (name) =>
        /^[0-9]+$/.test(name) && [this.id, this.root].some((word) => commandLine(name).includes(word)),
    )
    const mounts = readFileSync('/proc/self/mountinfo', 'utf8')
      .split('\n')
      .filter((line) => line.includes(this.#folder))
    return [
      ...processes.map((pid) => `process ${pid}: ${commandLine(pid)}`),
      ...mounts.map((line) => `mount ${line}`),
      ...groupsNamed(this.id).map((path) => `cgroup ${path}`),
      ...(existsSync(this.#folder) ? [`folder ${this.#folder}`] : []),
    ]
  }

  #layer(index: number): string {
    const path = join(this.#folder, `written-${index}`)
    mkdirSync(path, { recursive: true })
    return path
  }

  #removeGroups(): boolean {
    for (const group of groupsNamed(this.id)) removeGroup(group)
    return groupsNamed(this.id).length === 0
  }
}

const groupsNamed = (id: string): string[] =>
  hierarchies()
    .map((hierarchy) => join(hierarchy, id))
    .filter((path) => existsSync(path))

/** Removes cgroups and folders of a killed run; its machines ended with it. */
async function removeAbandoned(): Promise<void> {
  const isAbandoned = (name: string): boolean =>
    name.startsWith(NAME) && !existsSync(`/proc/${name.slice(NAME.length).split('-')[0]}`)
  for (const hierarchy of hierarchies())
    for (const name of readdirSync(hierarchy).filter(isAbandoned)) removeGroup(join(hierarchy, name))
  for (const name of readdirSync(tmpdir()).filter(isAbandoned))
    await rm(join(tmpdir(), name), { recursive: true, force: true })
}

/** Removes the deepest first. One that still has processes stays. */
function removeGroup(path: string): void {
  for (const name of readdirSync(path))
    if (statSync(join(path, name)).isDirectory()) removeGroup(join(path, name))
  try {
    rmdirSync(path)
  } catch {
    // A process in it is about to end.
  }
}

function commandLine(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ')
  } catch {
    return '' // it ended
  }
}

/**
 * The first process of the PID namespace two levels below ours; nspawn is the first of the one
 * between. 0: none yet.
 */
function initBelow(pid: number): number {
  const children = read(`/proc/${pid}/task/${pid}/children`).split(' ').filter(Boolean).map(Number)
  const numbers = (child: number): number[] =>
    (/^NSpid:\t(.*)$/m.exec(read(`/proc/${child}/status`))?.[1] ?? '').split('\t').map(Number)
  return (
    children.find((child) => numbers(child).length === 3 && numbers(child).at(-1) === 1) ??
    children.map(initBelow).find((found) => found > 0) ??
    0
  )
}

function read(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}
