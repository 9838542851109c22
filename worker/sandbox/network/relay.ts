// Owns the network of a sandbox that may reach hosts: a network namespace with only its loopback, a
// relay (socat) that listens there on one port, and a unix socket behind the relay, on which the
// worker's proxy of this one call answers. No sandbox sees the socket, and seccomp forbids AF_UNIX
// there. Relays are prepared in advance. Each serves one call and ends with it.

import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { readFileSync, readlinkSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import type { Server } from 'node:http'
import { isAbsolute, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { ownFolder, removeFolder } from '../../host/owned-folders.ts'
import { QUOTA_SUBS } from '../limits/namespace-quota.ts'
import { joinNetwork } from '../plan/argv.ts'
import type { Programs } from '../plan/host-programs.ts'
import { killGroup, runsNow } from '../process/process-tree.ts'
import { EGRESS_CAPS } from './egress.ts'
import { proxyServer } from './http-proxy.ts'

/** Free in every namespace, because nothing else listens in it. */
const PORT = 3128
/** sun_path of unix(7), less its NUL. */
const SOCKET_PATH_MAX = 107
/** Bytes that socat copies at a time: its default of 8 KiB costs a third of the throughput. */
const BLOCK = 128 * 1024
/**
 * Clients beyond `max-children` wait in the backlog, which is as long as a call may have
 * connections.
 */
const LISTENING = `fork,reuseaddr,max-children=${EGRESS_CAPS.clients},backlog=1024`
/** Keeps half-open connections for the full idle time: socat's default closes them after 0.5 s. */
const HALF_OPEN_S = EGRESS_CAPS.idle_ms / 1_000
const PREPARE_WITHIN_MS = 5_000
const POLL_MS = 2

/** The proxy's address in the sandbox, with the credentials of its own call (N12). */
export const proxyUrl = (token: string): string => `http://call:${token}@127.0.0.1:${PORT}`

export class Relay {
  readonly pid: number
  /** Listens already. Connections wait until the call's proxy takes it over. */
  readonly server: Server
  readonly #holder: ChildProcess
  readonly #folder: string

  private constructor(holder: ChildProcess, server: Server, folder: string) {
    this.pid = holder.pid ?? 0
    this.server = server
    this.#holder = holder
    this.#folder = folder
  }

  get isAlive(): boolean {
    return isRunning(this.#holder) && runsNow(this.pid)
  }

  static async prepare(programs: Programs, root: string): Promise<Relay> {
    const folder = await ownFolder(root, 'relay')
    const server = proxyServer()
    const path = join(folder, 'proxy')
    if (path.length > SOCKET_PATH_MAX)
      throw new Error(`\`${path}\` is too long for a unix socket: give the worker a shorter home`)
    await new Promise<void>((settle, refuse) => server.once('error', refuse).listen(path, settle))
    const holder = startHolder(programs, path)
    const relay = new Relay(holder, server, folder)
    try {
      await waitUntilListening(holder)
      const [program = '', ...args] = joinNetwork(programs, relay.pid, [
        ...quotaCommand(programs),
        programs.ip,
        'link',
        'set',
        'lo',
        'up',
      ])
      await promisify(execFile)(program, args, { env: {} })
      return relay
    } catch (error) {
      await relay.close()
      throw error
    }
  }

  /** Writes a file of this call, which `close` removes. Returns its path. */
  async keep(name: string, content: string): Promise<string> {
    const path = join(this.#folder, name)
    await writeFile(path, content, { mode: 0o600 })
    return path
  }

  async close(): Promise<void> {
    if (this.pid > 0) killGroup(this.pid)
    this.server.close()
    this.server.closeAllConnections()
    await removeFolder(this.#folder) // if this fails, the worker's next start removes it
  }
}

/**
 * Starts the relay in new user and network namespaces. The kernel kills it when the worker dies.
 */
function startHolder(programs: Programs, path: string): ChildProcess {
  const relay = [
    programs.socat,
    '-b',
    `${BLOCK}`,
    '-t',
    `${HALF_OPEN_S}`,
    `TCP-LISTEN:${PORT},${LISTENING}`,
    `UNIX-CONNECT:${path}`,
  ]
  const args = [
    '--user',
    '--map-root-user',
    '--net',
    '--',
    programs.setpriv,
    '--pdeathsig',
    'KILL',
    '--',
    ...relay,
  ]
  const child = spawn(programs.unshare, args, { env: {}, cwd: '/', stdio: 'ignore', detached: true })
  child.on('error', () => undefined) // `waitUntilListening` reports a child without a pid
  child.unref()
  return child
}

/**
 * Sets the quota of this namespace (namespace-quota.ts), which the call's sandbox inherits. A host
 * without perl has none.
 */
const quotaCommand = ({ perl }: Programs): string[] =>
  isAbsolute(perl)
    ? [perl, '-f', '-e', `${QUOTA_SUBS}set_quota() or die "quota: $!"; exec { $ARGV[0] } @ARGV`]
    : []

const isRunning = ({ pid, exitCode, signalCode }: ChildProcess): boolean =>
  pid !== undefined && exitCode === null && signalCode === null

/** Of /proc/PID/net/sockstat: the TCP sockets of a namespace that listen or are connected. */
const IN_USE = /^TCP: inuse [1-9]/m

/**
 * Waits until the relay listens, and checks that its namespace is not the host's. The first TCP
 * socket that is in use in the new namespace is the relay's. We read the namespace's counters and
 * not its table /proc/PID/net/tcp, for which the kernel walks the sockets of all namespaces: 10 ms
 * on a host with much memory.
 */
async function waitUntilListening(holder: ChildProcess): Promise<void> {
  const host = readlinkSync('/proc/self/ns/net')
  for (const deadline = Date.now() + PREPARE_WITHIN_MS; Date.now() < deadline; await sleep(POLL_MS)) {
    if (!isRunning(holder)) throw new Error('the relay ended while starting')
    try {
      if (
        readlinkSync(`/proc/${holder.pid}/ns/net`) !== host &&
        IN_USE.test(readFileSync(`/proc/${holder.pid}/net/sockstat`, 'latin1'))
      )
        return
    } catch {
      // Between fork and exec we may not be allowed to read it.
    }
  }
  throw new Error(`the relay did not listen within ${PREPARE_WITHIN_MS / 1000} s`)
}

/** Preparing a relay takes about as long as two short calls. */
const READY = 2

/** A pool of prepared relays. */
export class RelayStock {
  readonly #programs: Programs
  readonly #root: string
  readonly #ready: Promise<Relay>[] = []

  constructor(programs: Programs, root: string) {
    this.#programs = programs
    this.#root = root
  }

  /**
   * Starts preparing relays until the pool is full. A relay that fails leaves the pool silently:
   * `take` then prepares one itself, and reports the error.
   */
  stock(): void {
    while (this.#ready.length < READY) {
      const relay = Relay.prepare(this.#programs, this.#root)
      this.#ready.push(relay)
      relay.catch(() => {
        const at = this.#ready.indexOf(relay)
        if (at !== -1) this.#ready.splice(at, 1)
      })
    }
  }

  async take(): Promise<Relay> {
    for (let next = this.#ready.shift(); next !== undefined; next = this.#ready.shift()) {
      const relay = await next.catch(() => undefined)
      if (relay?.isAlive) return relay
      await relay?.close() // it died in the pool
    }
    return Relay.prepare(this.#programs, this.#root)
  }

  async close(): Promise<void> {
    await Promise.allSettled(this.#ready.splice(0).map(async (relay) => (await relay).close()))
  }
}
