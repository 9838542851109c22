// Owns a connection that was allowed, once it is only bytes: between a client in the sandbox and the host, by whichever protocol it was
// asked for, or one request. On the TLS port it lets nothing pass before it has heard the right name. It judges no destination.

import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { isIP } from 'node:net'
import type { Duplex } from 'node:stream'
import { EGRESS_CAPS, type Upstream } from './egress.ts'
import { readClientHello } from './tls-client-hello.ts'

const TLS_PORT = 443

/** `granted` is what the client waits for. */
export type Carry = (client: Duplex, upstream: Upstream, granted: string | Buffer) => Promise<void>

export const carry: Carry = async (client, { socket, to, mismatch }, granted) => {
  client.on('close', () => socket.destroy())
  if (client.destroyed) return void socket.destroy() // gone while we connected
  socket.on('close', () => client.end()) // not destroyed: what came last may still be on its way to the sandbox
  client.write(granted)
  if (to.port === TLS_PORT && !(await asksFor(client, to.host))) return mismatch()
  client.pipe(socket)
  socket.pipe(client)
}

/** Whether the client's TLS asks for `host` and for nothing hidden (N11). What it said stays readable. An address has no server name. */
function asksFor(client: Duplex, host: string): Promise<boolean> {
  const expected = isIP(host) === 0 ? host : undefined
  return new Promise((settle) => {
    let said: Buffer[] = []
    let [have, need] = [0, 0]
    const late = setTimeout(() => decide(false), EGRESS_CAPS.hello_ms)
    const decide = (verdict: boolean): void => {
      clearTimeout(late)
      client.off('readable', listen).off('end', gone).off('close', gone)
      if (verdict) client.unshift(Buffer.concat(said))
      settle(verdict)
    }
    const gone = (): void => decide(false)
    const listen = (): void => {
      const chunk: Buffer | null = client.read()
      if (chunk === null) return
      said.push(chunk)
      have += chunk.length
      if (have < need) return
      said = [Buffer.concat(said)]
      const hello = readClientHello(said[0] ?? chunk)
      if (hello.kind === 'more') need = hello.need
      else decide(hello.kind === 'name' && hello.name === expected)
    }
    client.on('readable', listen).on('end', gone).on('close', gone)
  })
}

/** A tunnel that ends here, for one request: there is no second one that could be taken for another host's. Tells whether there was one. */
export function serveOne(
  inner: Duplex,
  passOn: (asked: IncomingMessage, answer: ServerResponse) => void,
): () => boolean {
  const server = createServer({ headersTimeout: EGRESS_CAPS.hello_ms })
  let served = false
  server.on('clientError', (_error: Error, client: Duplex) => client.destroy())
  server.on('request', (asked, answer) => {
    if (served) return void inner.destroy()
    served = true
    answer.setHeader('connection', 'close')
    try {
      passOn(asked, answer)
    } catch {
      inner.destroy() // a header that Node will not say, a credential's perhaps: nobody else would catch it
    }
  })
  server.emit('connection', inner)
  return () => served
}
