// A peer between a client and an edge that fails as networks and intermediaries do: it drops
// answers, refuses, redirects, and cuts streams. It forwards everything else unchanged.

import { createServer, type IncomingMessage, request, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

/** A fault happens to the next request that matches, and is used up by it. */
export type Fault = {
  readonly path: RegExp
  readonly act:
    | { readonly kind: 'drop-answer' } // the edge has acted, and the client does not learn it
    | {
        readonly kind: 'answer'
        readonly status: number
        readonly headers?: Record<string, string>
        readonly body?: string
      }
    | { readonly kind: 'cut-after'; readonly bytes: number }
    | { readonly kind: 'corrupt' } // flips the last byte of the body
}

export type Seen = {
  readonly method: string
  readonly path: string
  readonly headers: IncomingMessage['headers']
}

export class FailingProxy {
  readonly seen: Seen[] = []
  readonly faults: Fault[] = []
  readonly #server: Server
  readonly #target: URL

  private constructor(target: string) {
    this.#target = new URL(target)
    this.#server = createServer((incoming, answer) => this.#handle(incoming, answer))
  }

  static async open(target: string): Promise<FailingProxy> {
    const proxy = new FailingProxy(target)
    await new Promise<void>((done) => proxy.#server.listen(0, '127.0.0.1', done))
    return proxy
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}` // it listens on TCP
  }

  close(): void {
    this.#server.closeAllConnections()
    this.#server.close()
  }

  #handle(incoming: IncomingMessage, answer: ServerResponse): void {
    const { method = '', url: path = '', headers } = incoming
    this.seen.push({ method, path, headers })
    const found = this.faults.findIndex((fault) => fault.path.test(`${method} ${path}`))
    const [fault] = found === -1 ? [] : this.faults.splice(found, 1)
    if (fault?.act.kind === 'answer') {
      incoming.resume()
      answer.writeHead(fault.act.status, fault.act.headers).end(fault.act.body)
      return
    }
    const { hostname, port } = this.#target
    const onward = request({ hostname, port, method, path, headers }, (response) => {
      if (fault?.act.kind === 'drop-answer') {
        response.resume()
        response.on('end', () => answer.destroy())
        return
      }
      answer.writeHead(response.statusCode ?? 502, response.headers)
      let left = fault?.act.kind === 'cut-after' ? fault.act.bytes : Number.POSITIVE_INFINITY
      response.on('data', (chunk: Buffer) => {
        if (fault?.act.kind === 'corrupt') chunk[chunk.length - 1] = (chunk.at(-1) ?? 0) ^ 1
        answer.write(chunk.subarray(0, left))
        left -= chunk.length
        if (left > 0) return
        onward.destroy()
        answer.destroy()
      })
      response.on('end', () => answer.end())
    })
    onward.on('error', () => answer.destroy())
    answer.on('close', () => onward.destroy())
    incoming.pipe(onward)
  }
}
