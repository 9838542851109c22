// An HTTP server of a test, on a free port of this machine.

import { createServer, type RequestListener, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'

export class LoopbackServer {
  readonly #server: Server

  private constructor(listener: RequestListener) {
    this.#server = createServer(listener)
  }

  static async open(listener: RequestListener): Promise<LoopbackServer> {
    const made = new LoopbackServer(listener)
    await new Promise<void>((done) => made.#server.listen(0, '127.0.0.1', done))
    return made
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/mcp` // it listens on TCP
  }

  close(): Promise<void> {
    const closed = new Promise<void>((done) => this.#server.close(() => done()))
    this.#server.closeAllConnections()
    return closed
  }
}
