// Owns a tunnel whose TLS ends here because the plan has a credential for its host. We verify the
// host's certificate strictly before we answer the sandbox, and act towards the sandbox as that
// host, with a certificate of the call's own authority. A tunnel carries one request, which is
// passed on with the credential. egress.ts has checked the destination.

import type { IncomingMessage, ServerResponse } from 'node:http'
import { isIP, type Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { connect as connectTls, TLSSocket } from 'node:tls'
import type { CallAuthority } from './call-ca.ts'
import { EGRESS_CAPS, type Upstream } from './egress.ts'
import { serveOne } from './tunnel.ts'

const HTTP = ['http/1.1']

/** The authority that the sandbox trusts in addition, and the certificates that we trust (PEM). */
export type Interception = { readonly authority: CallAuthority; readonly trust: string }

export type PassOn = (incoming: IncomingMessage, response: ServerResponse, over: Duplex) => void

/**
 * Writes `granted`, the answer to CONNECT, once the host's certificate is verified. Returns false,
 * with nothing written to the client, if it is not valid for this host.
 */
export async function intercept(
  client: Duplex,
  { socket, to, mismatch }: Upstream,
  { authority, trust }: Interception,
  granted: string,
  passOn: PassOn,
): Promise<boolean> {
  const servername = isIP(to.host) === 0 ? { servername: to.host } : {}
  const host = connectTls({
    socket,
    host: to.host,
    ...servername,
    ca: trust,
    ALPNProtocols: HTTP,
    minVersion: 'TLSv1.2',
  })
  host.on('close', () => socket.destroy())
  if (!(await isVerified(host))) return false
  client.on('close', () => host.destroy())
  if (client.destroyed) host.destroy()
  client.write(granted)
  // Node's types ask for a socket; any stream will do, and an HTTP server's `connect` hands out no
  // other.
  const inner = new TLSSocket(client as Socket, {
    isServer: true,
    ...authority.certify(to.host),
    ALPNProtocols: HTTP,
    minVersion: 'TLSv1.2',
  })
  inner.on('error', () => client.destroy()).on('close', () => client.destroy())
  const late = setTimeout(() => client.destroy(), EGRESS_CAPS.hello_ms)
  inner.once('secure', () => {
    clearTimeout(late)
    if (isIP(to.host) === 0 && requestedName(inner) !== to.host) {
      mismatch()
      client.destroy()
      return
    }
    const served = serveOne(inner, (incoming, response) => passOn(incoming, response, host))
    host.once('close', () => served() || client.destroy()) // without a request by now, none can be answered
  })
  client.once('close', () => clearTimeout(late))
  return true
}

/** Whether the host presented a valid certificate in time. */
const isVerified = (host: TLSSocket): Promise<boolean> =>
  new Promise((settle) => {
    const late = setTimeout(() => settle(false), EGRESS_CAPS.hello_ms)
    host.once('secureConnect', () => settle(true))
    host.once('error', () => settle(false)).once('close', () => settle(false))
    host.on('error', () => host.destroy()).once('close', () => clearTimeout(late))
    host.once('secureConnect', () => clearTimeout(late))
  })

const requestedName = (inner: TLSSocket): string | undefined => {
  // Node sets `servername` on the server's side too; its types lack it.
  const { servername } = inner as TLSSocket & { servername?: string | false }
  return servername === false ? undefined : servername?.toLowerCase()
}
