// Owns what one call may reach: the judgement of each destination, the connections it got, and the record of all of them. Names are
// resolved here and connections go only to addresses that were checked. It speaks no HTTP (proxy.ts does) and knows no sandbox (relay.ts
// does).

import { timingSafeEqual } from 'node:crypto'
import { connect, type LookupFunction, type Socket } from 'node:net'
import { asTold, TOLD_CHARS } from '../../../shared/bytes/signable-text.ts'
import { DEFAULT_LIMITS } from '../../../shared/limits.ts'
import { type Destination, isListed } from '../../../shared/plan/egress-hosts.ts'
import type { Connection, Limits } from '../../../shared/plan/plan.ts'
import { err, ok, type Result } from '../../../shared/result.ts'
import { folded } from './connection-log.ts'
import { type Addition, additionsFor, type Over } from './credentials.ts'
import { Names } from './dns.ts'
import { checkedAddresses, isHttpAlone, parseAuthority, type Refused, type Resolve } from './host-patterns.ts'

/** What each call may do through its proxy, whatever its plan says. */
export const EGRESS_CAPS = {
  /** At one time, to hosts. */
  at_once: 512,
  /** At one time, from the sandbox: each costs the host a process. Further clients wait; an end is slower to reach the other side. */
  clients: 256,
  /** To reach the other side, and for a client to say what it wants (N15). */
  hello_ms: 10_000,
  /** Without a byte in either direction (N15). */
  idle_ms: 30_000,
  /** Refusals beyond `net_connections` that are still answered. Then the proxy hangs up (N15). */
  refused_beyond: 32,
} as const

export type EgressRules = {
  readonly hosts: readonly string[]
  /** Exact `host:port` whose address may be private, by configuration of this worker. */
  readonly privateHosts: ReadonlySet<string>
  /** What a client of this call's proxy must know (N12). */
  readonly token: string
  /** Attempts, refused ones and those of unknown clients too, and bytes both ways of all connections together. */
  readonly limits: Pick<Limits, 'net_bytes' | 'net_connections'>
  /** What is added to requests to their hosts. */
  readonly additions?: readonly Addition[]
  /** Names that tests answer for; otherwise this host does. */
  readonly resolve?: Resolve
}

/** A connection may overshoot its bytes for this long. */
const METER_MS = 50

type Entry = { -readonly [Key in keyof Connection]: Connection[Key] }

/** A connection that was allowed, and is being paid for. */
export type Upstream = {
  readonly socket: Socket
  readonly to: Destination
  readonly mismatch: () => void
  /** What is to be added to a request that is made over it. */
  readonly additions: (over: Over) => readonly Addition[]
  /** It was added: the record says so. */
  readonly told: (added: readonly Addition[]) => void
  /** It could not be used after all. */
  readonly failed: () => void
}

export class Egress {
  readonly #rules: EgressRules
  readonly #most: { readonly bytes: number; readonly connections: number }
  readonly #entries: Entry[] = []
  readonly #live = new Map<Socket, Entry>()
  readonly #authorization: Buffer
  readonly #names = new Names()
  #metering: NodeJS.Timeout | undefined
  #dialling = 0
  #spent = 0
  #unknown = 0
  #refused = 0
  #closed = false

  constructor(rules: EgressRules) {
    this.#rules = rules
    const { net_bytes = DEFAULT_LIMITS.net_bytes, net_connections = DEFAULT_LIMITS.net_connections } =
      rules.limits
    this.#most = { bytes: net_bytes, connections: net_connections }
    this.#authorization = Buffer.from(`Basic ${Buffer.from(`call:${rules.token}`).toString('base64')}`)
  }

  knows(authorization: string | undefined): boolean {
    const told = Buffer.from(authorization ?? '')
    return told.length === this.#authorization.length && timingSafeEqual(told, this.#authorization)
  }

  /** Judges, resolves, checks and connects, in this order. */
  async reach(authority: string): Promise<Result<Upstream, Refused>> {
    const to = parseAuthority(authority)
    if (to === undefined) return this.refuse('malformed', { host: authority, port: 0 })
    if (
      this.#entries.length + this.#unknown >= this.#most.connections ||
      this.#busy >= EGRESS_CAPS.at_once ||
      this.#spent >= this.#most.bytes
    ) {
      return this.refuse('cap', to)
    }
    if (!isListed(this.#rules.hosts, to)) return this.refuse('host_not_listed', to)
    this.#dialling++
    try {
      const addresses = await checkedAddresses(
        to,
        this.#rules.privateHosts,
        this.#rules.resolve ?? this.#names.resolve,
      )
      if (!addresses.ok) return this.refuse(addresses.error, to)
      const socket = await dial(to, addresses.value)
      return socket === undefined || this.#closed ? this.#abandon(socket, to) : ok(this.#admit(socket, to))
    } finally {
      this.#dialling--
    }
  }

  /** Whether a tunnel there is to end at the proxy. */
  intercepts(to: Destination): boolean {
    return additionsFor(this.#rules.additions ?? [], to, 'tls').length > 0
  }

  /** Whether a tunnel there is for HTTP, and ends at the proxy too. */
  speaksHttp(to: Destination): boolean {
    return isHttpAlone(this.#rules.hosts, to)
  }

  refuse(verdict: Refused, to: Destination = { host: '', port: 0 }): Result<never, Refused> {
    this.#refused++
    this.#enter(to, verdict)
    return err(verdict)
  }

  /** Who does not show the token is told of in one sum: of what it asks nothing is read. */
  refuseUnknown(): void {
    this.#refused++
    this.#unknown++
  }

  /** So much was refused that nothing more is heard: to be told so costs too. */
  get exhausted(): boolean {
    return this.#refused >= this.#most.connections + EGRESS_CAPS.refused_beyond
  }

  /** What was asked for and what came of it, in order; sums of what is beyond the first. Final once closed. */
  get connections(): readonly Connection[] {
    const known = folded(this.#entries)
    if (this.#unknown === 0) return known
    return [
      ...known,
      {
        host: '',
        port: 0,
        address: '',
        bytes_out: 0,
        bytes_in: 0,
        verdict: 'unknown_client',
        folded: this.#unknown,
      },
    ]
  }

  close(): void {
    this.#closed = true
    this.#names.close()
    clearInterval(this.#metering)
    for (const [socket, entry] of this.#live) {
      settle(entry, socket)
      socket.destroy()
    }
  }

  get #busy(): number {
    return this.#live.size + this.#dialling
  }

  /** By the sockets' own counters: a listener on their data would set them flowing before anyone reads. */
  #meter(): void {
    let total = this.#spent
    for (const socket of this.#live.keys()) total += socket.bytesRead + socket.bytesWritten
    if (total <= this.#most.bytes) return
    for (const [socket, entry] of this.#live) {
      entry.verdict = 'cap'
      socket.destroy()
    }
  }

  #abandon(socket: Socket | undefined, to: Destination): Result<never, Refused> {
    socket?.destroy()
    return this.refuse('failed', to)
  }

  #enter({ host, port }: Destination, verdict: Refused): Entry {
    const entry: Entry = {
      host: asTold(host, TOLD_CHARS.host),
      port,
      address: '',
      bytes_out: 0,
      bytes_in: 0,
      verdict,
    }
    if (this.#entries.length <= this.#most.connections) this.#entries.push(entry) // the one beyond the cap tells of the cap
    return entry
  }

  #admit(socket: Socket, to: Destination): Upstream {
    const entry = this.#enter(to, 'allowed')
    entry.address = socket.remoteAddress ?? ''
    this.#live.set(socket, entry)
    this.#metering ??= setInterval(() => this.#meter(), METER_MS).unref()
    socket.on('error', () => socket.destroy())
    socket.on('close', () => {
      settle(entry, socket)
      this.#live.delete(socket)
      this.#spent += socket.bytesRead + socket.bytesWritten
    })
    socket.setTimeout(EGRESS_CAPS.idle_ms, () => socket.destroy())
    const mismatch = (): void => {
      entry.verdict = 'sni_mismatch'
      socket.destroy()
    }
    const additions = (over: Over): readonly Addition[] => additionsFor(this.#rules.additions ?? [], to, over)
    const told = (added: readonly Addition[]): void => {
      if (added.length > 0) entry.credentials = [...new Set(added.map(({ secret }) => secret))]
    }
    const failed = (): void => {
      entry.verdict = 'failed'
      socket.destroy()
    }
    return { socket, to, mismatch, additions, told, failed }
  }
}

function settle(entry: Entry, socket: Socket): void {
  entry.bytes_in = socket.bytesRead
  entry.bytes_out = socket.bytesWritten
}

/** Connects to one of the checked addresses and asks nobody again (N09). */
function dial(to: Destination, addresses: readonly string[]): Promise<Socket | undefined> {
  const family = (address: string): 4 | 6 => (address.includes(':') ? 6 : 4)
  const pinned: LookupFunction = (_name, { all }, answer) => {
    const [first = ''] = addresses
    if (all === true)
      return answer(
        null,
        addresses.map((address) => ({ address, family: family(address) })),
      )
    return answer(null, first, family(first))
  }
  return new Promise((settle) => {
    const socket = connect({
      host: to.host,
      port: to.port,
      lookup: pinned,
      autoSelectFamily: true,
      noDelay: true,
    })
    const give = (up: boolean): void => {
      socket.removeAllListeners()
      socket.setTimeout(0)
      if (!up) socket.on('error', () => undefined).destroy()
      settle(up ? socket : undefined)
    }
    socket.setTimeout(EGRESS_CAPS.hello_ms, () => give(false))
    socket.once('connect', () => give(true)).once('error', () => give(false))
  })
}
