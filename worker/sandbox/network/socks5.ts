// Owns the SOCKS 5 that a sandbox speaks to its call's proxy (RFC 1928, RFC 1929): CONNECT, with
// the call's credentials. The worker resolves names; addresses are checked as they are. egress.ts
// checks the destination and connects.

import type { Socket } from 'node:net'
import { EGRESS_CAPS, type Egress } from './egress.ts'
import type { ConnectionVerdict } from './host-patterns.ts'
import type { Carry } from './tunnel.ts'

export const SOCKS_VERSION = 5
const PASSWORD = { method: 2, version: 1, welcome: 0, unknown: 1 } as const
const NO_METHOD = 0xff
const CONNECT = 1
const IPV4 = 1
const NAME = 3
const IPV6 = 4

const REPLY = {
  allowed: 0,
  malformed: 1,
  unknown_client: 2,
  cap: 1,
  host_not_listed: 2,
  address_refused: 2,
  sni_mismatch: 2,
  unresolvable: 4,
  failed: 5,
} as const satisfies Record<ConnectionVerdict, number>
const NOT_CONNECT = 7
const NOT_AN_ADDRESS = 8

export async function serveSocks(egress: Egress, client: Socket, carry: Carry): Promise<void> {
  const late = setTimeout(() => client.destroy(), EGRESS_CAPS.hello_ms)
  const authority = await negotiate(egress, client).finally(() => clearTimeout(late))
  if (authority === undefined) return
  const reached = await egress.reach(authority)
  if (reached.ok) await carry(client, reached.value, reply(REPLY.allowed))
  else client.end(reply(REPLY[reached.error]))
}

/** The `host:port` that the client asks for. Undefined if it was refused and has its answer. */
async function negotiate(egress: Egress, client: Socket): Promise<string | undefined> {
  const turnAway = (...bytes: number[]): undefined => {
    egress.refuseUnknown()
    client.end(Buffer.from(bytes))
  }
  const [, methods = 0] = await take(client, 2)
  if (!(await take(client, methods)).includes(PASSWORD.method)) return turnAway(SOCKS_VERSION, NO_METHOD)
  client.write(Buffer.from([SOCKS_VERSION, PASSWORD.method]))
  const [version] = await take(client, 1)
  const [user, password] = [await takePrefixed(client), await takePrefixed(client)]
  const known =
    version === PASSWORD.version &&
    egress.authenticates(`Basic ${Buffer.concat([user, Buffer.from(':'), password]).toString('base64')}`)
  if (!known) return turnAway(PASSWORD.version, PASSWORD.unknown)
  client.write(Buffer.from([PASSWORD.version, PASSWORD.welcome]))
  const [again, command, , kind] = await take(client, 4)
  const host = await hostOf(client, kind)
  if (again === SOCKS_VERSION && command === CONNECT && host !== undefined)
    return `${host}:${(await take(client, 2)).readUInt16BE()}`
  egress.refuse('malformed')
  client.end(reply(host === undefined ? NOT_AN_ADDRESS : NOT_CONNECT))
  return undefined
}

async function hostOf(client: Socket, kind: number | undefined): Promise<string | undefined> {
  if (kind === IPV4) return (await take(client, 4)).join('.')
  if (kind === NAME) return (await takePrefixed(client)).toString('latin1')
  if (kind !== IPV6) return undefined
  const bytes = await take(client, 16)
  return `[${Array.from({ length: 8 }, (_, group) => bytes.readUInt16BE(2 * group).toString(16)).join(':')}]`
}

const takePrefixed = async (client: Socket): Promise<Buffer> =>
  take(client, (await take(client, 1)).readUInt8())

/** The bound address is zero: the client need not know where we connected from. */
const reply = (code: number): Buffer => Buffer.from([SOCKS_VERSION, code, 0, IPV4, 0, 0, 0, 0, 0, 0])

/**
 * Reads exactly `count` bytes and leaves the rest readable. Throws if the client ends before; the
 * caller then closes the connection.
 */
async function take(client: Socket, count: number): Promise<Buffer> {
  let received: Buffer = Buffer.alloc(0)
  while (received.length < count) {
    const chunk: Buffer | null = client.read()
    if (chunk !== null) received = Buffer.concat([received, chunk])
    else if (client.readableEnded || client.destroyed)
      throw new Error('the client closed the connection in the middle of its request')
    else await readableOrEnd(client)
  }
  if (received.length > count) client.unshift(received.subarray(count))
  return received.subarray(0, count)
}

const readableOrEnd = (client: Socket): Promise<void> =>
  new Promise((settle) => {
    const go = (): void => {
      client.off('readable', go).off('end', go).off('close', go)
      settle()
    }
    client.on('readable', go).on('end', go).on('close', go)
  })
