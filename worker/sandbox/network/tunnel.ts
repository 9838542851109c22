// Owns an allowed connection after HTTP or SOCKS set it up: it copies bytes between a client in the
// sandbox and the host, or serves one HTTP request. On the TLS port nothing passes before a
// ClientHello with the right server name.

import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { isIP } from 'node:net'
import type { Duplex } from 'node:stream'
import { EGRESS_CAPS, type Upstream } from './egress.ts'
import { readClientHello } from './tls-client-hello.ts'

const TLS_PORT = 443

/** `granted` is the answer that tells the client that the tunnel is open. */
export type Carry = (client: Duplex, upstream: Upstream, granted: string | Buffer) => Promise<void>

export const carry: Carry = async (client, { socket, to, mismatch }, granted) => {
  client.on('close', () => socket.destroy())
  if (client.destroyed) return void socket.destroy() // the client left while we connected
  socket.on('close', () => client.end()) // not destroy(): the last bytes may not have reached the sandbox
  client.write(granted)
  if (to.port === TLS_PORT && !(await namesHost(client, to.host))) return mismatch()
  client.pipe(socket)
  socket.pipe(client)
}

/**
 * Whether the client's ClientHello names `host`, and hides no other name (N11). It stays readable.
 * For an IP address the ClientHello must have no server name.
 */
function namesHost(client: Duplex, host: string): Promise<boolean> {
  const expected = isIP(host) === 0 ? host : undefined
  return new Promise((settle) => {
    let received: Buffer[] = []
    let [have, need] = [0, 0]
    const late = setTimeout(() => decide(false), EGRESS_CAPS.hello_ms)
    const decide = (verdict: boolean): void => {
      clearTimeout(late)
      client.off('readable', onReadable).off('end', onEnd).off('close', onEnd)
      if (verdict) client.unshift(Buffer.concat(received))
      settle(verdict)
    }
    const onEnd = (): void => decide(false)
    const onReadable = (): void => {
      const chunk: Buffer | null = client.read()
      if (chunk === null) return
      received.push(chunk)
      have += chunk.length
      if (have < need) return
      received = [Buffer.concat(received)]
      const hello = readClientHello(received[0] ?? chunk)
      if (hello.kind === 'more') need = hello.need
      else decide(hello.kind === 'name' && hello.name === expected)
    }
    client.on('readable', onReadable).on('end', onEnd).on('close', onEnd)
  })
}

/**
 * Serves one HTTP request from a tunnel that ends here: a second request could be for another host
 * (N11). Returns a function that tells whether there was a request.
 */
export function serveOne(
  inner: Duplex,
  passOn: (incoming: IncomingMessage, response: ServerResponse) => void,
): () => boolean {
  const server = createServer({ headersTimeout: EGRESS_CAPS.hello_ms })
  let served = false
  server.on('clientError', (_error: Error, client: Duplex) => client.destroy())
  server.on('request', (incoming, response) => {
    if (served) return void inner.destroy()
    served = true
    response.setHeader('connection', 'close')
    try {
      passOn(incoming, response)
    } catch {
      inner.destroy() // Node refuses to write a header, perhaps a credential's; nothing else catches this
    }
  })
  server.emit('connection', inner)
  return () => served
}
