// Owns a tunnel whose TLS ends here, because the plan has a credential for its host: towards the sandbox we are that host by the call's own
// authority; towards the host we are a strict client, before the sandbox is told anything. One request a tunnel: what it asks is passed on
// with the credential. It judges no destination, and adds nothing anywhere else.

import type { IncomingMessage, ServerResponse } from 'node:http'
import { isIP, type Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { connect as connectTls, TLSSocket } from 'node:tls'
import type { CallAuthority } from './call-ca.ts'
import { EGRESS_CAPS, type Upstream } from './egress.ts'
import { serveOne } from './tunnel.ts'

const HTTP = ['http/1.1']

/** Whom the sandbox is to trust beside others, and whom we trust. */
export type Interception = { readonly authority: CallAuthority; readonly trust: string }

export type PassOn = (asked: IncomingMessage, answer: ServerResponse, over: Duplex) => void

/** `granted` is what the client waits for. False where the host is not who it should be: then nothing was said to the client. */
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
  if (!(await secured(host))) return false
  client.on('close', () => host.destroy())
  if (client.destroyed) host.destroy()
  client.write(granted)
  // Node's types ask for a socket; any stream will do, and an HTTP server's `connect` hands out no other.
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
    if (isIP(to.host) === 0 && nameAskedFor(inner) !== to.host) {
      mismatch()
      client.destroy()
      return
    }
    const served = serveOne(inner, (asked, answer) => passOn(asked, answer, host))
    host.once('close', () => served() || client.destroy()) // who was not answered by then never will be
  })
  client.once('close', () => clearTimeout(late))
  return true
}

/** Whether the host has shown a certificate that stands. */
const secured = (host: TLSSocket): Promise<boolean> =>
  new Promise((settle) => {
    const late = setTimeout(() => settle(false), EGRESS_CAPS.hello_ms)
    host.once('secureConnect', () => settle(true))
    host.once('error', () => settle(false)).once('close', () => settle(false))
    host.on('error', () => host.destroy()).once('close', () => clearTimeout(late))
    host.once('secureConnect', () => clearTimeout(late))
  })

const nameAskedFor = (inner: TLSSocket): string | undefined => {
  const { servername } = inner as TLSSocket & { servername?: string | false } // Node sets it on the server's side; its types do not say so
  return servername === false ? undefined : servername?.toLowerCase()
}
