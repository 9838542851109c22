// Owns what one call may reach: it checks each destination, resolves its name, connects only to
// addresses that were checked, and records every attempt. http-proxy.ts and socks5.ts speak the
// protocols; relay.ts connects the sandbox.

import { timingSafeEqual } from 'node:crypto'
import { connect, type LookupFunction, type Socket } from 'node:net'
import { SIGNED_TEXT_CHARS, toSignableText } from '../../../shared/bytes/signable-text.ts'
import { DEFAULT_LIMITS } from '../../../shared/limits.ts'
import { type Destination, isListed } from '../../../shared/plan/egress-hosts.ts'
import type { Connection, Limits } from '../../../shared/plan/plan.ts'
import { err, ok, type Result } from '../../../shared/result.ts'
import { foldConnections } from './connection-log.ts'
import { type Addition, additionsFor, type Transport } from './credentials.ts'
import { NameResolver } from './dns.ts'
import {
  type ConnectionVerdict,
  checkedAddresses,
  isHttpAlone,
  parseAuthority,
  type Resolve,
} from './host-patterns.ts'

/** Limits on each call's proxy, whatever its plan allows. */
export const EGRESS_CAPS = {
  /** Open connections to hosts. */
  at_once: 512,
  /**
   * Open connections from the sandbox, each of which costs the host a process (relay.ts). Further
   * clients wait.
   */
  clients: 256,
  /** Time to connect to a host, and for a client to send its request (N15). */
  hello_ms: 10_000,
  /** Time without a byte in either direction (N15). */
  idle_ms: 30_000,
  /**
   * Refusals beyond `net_connections` that still get an answer. After them the proxy hangs up
   * (N15).
   */
  refused_beyond: 32,
} as const

export type EgressRules = {
  readonly hosts: readonly string[]
  /** Exact `host:port` whose address may be private, from this worker's configuration. */
  readonly privateHosts: ReadonlySet<string>
  /** The token that a client of this call's proxy must send (N12). */
  readonly token: string
  /**
   * Attempts count, including refused ones and those of unknown clients. Bytes are those of all
   * connections in both directions.
   */
  readonly limits: Pick<Limits, 'net_bytes' | 'net_connections'>
  /** Credentials that the proxy adds to requests to their hosts. */
  readonly additions?: readonly Addition[]
  /** Replaces name resolution in tests. The default is this host's. */
  readonly resolve?: Resolve
}

/** How often bytes are counted, so how long a connection may exceed its limit. */
const METER_MS = 50

type Entry = { -readonly [Key in keyof Connection]: Connection[Key] }

/** An allowed connection, whose bytes count against the call's limit. */
export type Upstream = {
  readonly socket: Socket
  readonly to: Destination
  /** Ends it with the verdict `sni_mismatch`. */
  readonly mismatch: () => void
  /** The credentials to add to a request that is made over it. */
  readonly additions: (over: Transport) => readonly Addition[]
  /** Records that these credentials were sent. */
  readonly recordCredentials: (added: readonly Addition[]) => void
  /** Ends it with the verdict `failed`. */
  readonly failed: () => void
}

export class Egress {
  readonly #rules: EgressRules
  readonly #limits: { readonly bytes: number; readonly connections: number }
  readonly #entries: Entry[] = []
  readonly #live = new Map<Socket, Entry>()
  readonly #authorization: Buffer
  readonly #names = new NameResolver()
  #metering: NodeJS.Timeout | undefined
  #dialling = 0
  #bytesOfClosed = 0
  #unknownClients = 0
  #refused = 0
  #closed = false

  constructor(rules: EgressRules) {
    this.#rules = rules
    const { net_bytes = DEFAULT_LIMITS.net_bytes, net_connections = DEFAULT_LIMITS.net_connections } =
      rules.limits
    this.#limits = { bytes: net_bytes, connections: net_connections }
    this.#authorization = Buffer.from(`Basic ${Buffer.from(`call:${rules.token}`).toString('base64')}`)
  }

  authenticates(authorization: string | undefined): boolean {
    const given = Buffer.from(authorization ?? '')
    return given.length === this.#authorization.length && timingSafeEqual(given, this.#authorization)
  }

  /** Checks the destination, resolves its name, checks the addresses, then connects. */
  async reach(authority: string): Promise<Result<Upstream, ConnectionVerdict>> {
    const to = parseAuthority(authority)
    if (to === undefined) return this.refuse('malformed', { host: authority, port: 0 })
    if (
      this.#entries.length + this.#unknownClients + this.#dialling >= this.#limits.connections ||
      this.#busy >= EGRESS_CAPS.at_once ||
      this.#bytesOfClosed >= this.#limits.bytes
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

  /** Whether the proxy ends the TLS of a tunnel to `to`, because it adds a credential. */
  intercepts(to: Destination): boolean {
    return additionsFor(this.#rules.additions ?? [], to, 'tls').length > 0
  }

  /** Whether a tunnel to `to` carries HTTP only, which the proxy parses. */
  speaksHttp(to: Destination): boolean {
    return isHttpAlone(this.#rules.hosts, to)
  }

  refuse(
    verdict: ConnectionVerdict,
    to: Destination = { host: '', port: 0 },
  ): Result<never, ConnectionVerdict> {
    this.#refused++
    this.#enter(to, verdict)
    return err(verdict)
  }

  /** Counts a client without the token. Its request is not read, so the record holds only a sum. */
  refuseUnknown(): void {
    this.#refused++
    this.#unknownClients++
  }

  /**
   * After this many refusals the proxy hangs up without an answer, because answers cost too (N15).
   */
  get exhausted(): boolean {
    return this.#refused >= this.#limits.connections + EGRESS_CAPS.refused_beyond
  }

  /** The attempts and their outcomes in order; later ones are summed. Final once closed. */
  get connections(): readonly Connection[] {
    const known = foldConnections(this.#entries)
    if (this.#unknownClients === 0) return known
    return [
      ...known,
      {
        host: '',
        port: 0,
        address: '',
        bytes_out: 0,
        bytes_in: 0,
        verdict: 'unknown_client',
        folded: this.#unknownClients,
      },
    ]
  }

  close(): void {
    this.#closed = true
    this.#names.close()
    clearInterval(this.#metering)
    for (const [socket, entry] of this.#live) {
      this.#settle(socket, entry)
      socket.destroy()
    }
  }

  /** Counts an ended connection, once. One that ends between two metering times may exceed the limit too. */
  #settle(socket: Socket, entry: Entry): void {
    if (!this.#live.delete(socket)) return
    entry.bytes_in = socket.bytesRead
    entry.bytes_out = socket.bytesWritten
    this.#bytesOfClosed += entry.bytes_in + entry.bytes_out
    if (this.#bytesOfClosed > this.#limits.bytes) entry.verdict = 'cap'
  }

  get #busy(): number {
    return this.#live.size + this.#dialling
  }

  /**
   * Reads the sockets' own counters: a `data` listener would start their flow before a reader
   * exists.
   */
  #meter(): void {
    let total = this.#bytesOfClosed
    for (const socket of this.#live.keys()) total += socket.bytesRead + socket.bytesWritten
    if (total <= this.#limits.bytes) return
    for (const [socket, entry] of this.#live) {
      entry.verdict = 'cap'
      socket.destroy()
    }
  }

  #abandon(socket: Socket | undefined, to: Destination): Result<never, ConnectionVerdict> {
    socket?.destroy()
    return this.refuse('failed', to)
  }

  #enter({ host, port }: Destination, verdict: ConnectionVerdict): Entry {
    const entry: Entry = {
      host: toSignableText(host, SIGNED_TEXT_CHARS.host),
      port,
      address: '',
      bytes_out: 0,
      bytes_in: 0,
      verdict,
    }
    // One entry beyond the limit is kept: it shows that the limit was hit.
    if (this.#entries.length <= this.#limits.connections) this.#entries.push(entry)
    return entry
  }

  #admit(socket: Socket, to: Destination): Upstream {
    const entry = this.#enter(to, 'allowed')
    entry.address = socket.remoteAddress ?? ''
    this.#live.set(socket, entry)
    this.#metering ??= setInterval(() => this.#meter(), METER_MS).unref()
    socket.on('error', () => socket.destroy())
    socket.on('close', () => this.#settle(socket, entry))
    socket.setTimeout(EGRESS_CAPS.idle_ms, () => socket.destroy())
    const mismatch = (): void => {
      entry.verdict = 'sni_mismatch'
      socket.destroy()
    }
    const additions = (over: Transport): readonly Addition[] =>
      additionsFor(this.#rules.additions ?? [], to, over)
    const recordCredentials = (added: readonly Addition[]): void => {
      if (added.length > 0) entry.credentials = [...new Set(added.map(({ secret }) => secret))]
    }
    const failed = (): void => {
      entry.verdict = 'failed'
      socket.destroy()
    }
    return { socket, to, mismatch, additions, recordCredentials, failed }
  }
}

/** Connects to one of the checked addresses without resolving the name again (N09). */
function dial(to: Destination, addresses: readonly string[]): Promise<Socket | undefined> {
  const family = (address: string): 4 | 6 => (address.includes(':') ? 6 : 4)
  const pinnedLookup: LookupFunction = (_name, { all }, answer) => {
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
      lookup: pinnedLookup,
      autoSelectFamily: true,
      noDelay: true,
    })
    const finish = (isConnected: boolean): void => {
      socket.removeAllListeners()
      socket.setTimeout(0)
      if (!isConnected) socket.on('error', () => undefined).destroy()
      settle(isConnected ? socket : undefined)
    }
    socket.setTimeout(EGRESS_CAPS.hello_ms, () => finish(false))
    socket.once('connect', () => finish(true)).once('error', () => finish(false))
  })
}
