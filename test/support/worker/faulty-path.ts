// A faulty network path between a worker and its edge: a proxy on loopback that forwards each
// request byte for byte, until a test sets a fault for the next one.

import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'

export type WorkerRoute = 'claim' | 'output' | 'settle' | 'heartbeat'

const ROUTES: ReadonlyArray<readonly [WorkerRoute, RegExp]> = [
  ['claim', /^\/v1\/worker\/claims$/],
  ['output', /^\/v1\/worker\/calls\/[^/]+\/output$/],
  ['settle', /^\/v1\/worker\/attestations$/],
  ['heartbeat', /^\/v1\/worker\/heartbeat$/],
]

export type Answer = {
  readonly status: number
  readonly headers: IncomingMessage['headers']
  readonly body: Buffer
}

/** One request in transit. A fault ends with `reply` or `cut`. */
export type Passage = {
  readonly route: WorkerRoute | undefined
  /** Forwards the request and returns the edge's answer, which the worker does not have yet. */
  readonly forward: () => Promise<Answer>
  readonly reply: (answer: Answer) => void
  /** Breaks the worker's connection. */
  readonly cut: () => void
}
export type Fault = (passage: Passage) => Promise<void>

/** The request never arrives. */
export const lostOnTheWay: Fault = async ({ cut }) => cut()
/** The edge has handled the request, but the worker gets no answer. */
export const failedButPersisted: Fault = async ({ forward, cut }) => {
  await forward()
  cut()
}
/** The same bytes arrive twice, and the worker gets the second answer. */
export const arrivesTwice: Fault = async ({ forward, reply }) => {
  await forward()
  reply(await forward())
}
export const noFault: Fault = async ({ forward, reply }) => reply(await forward())

export class FaultyPath {
  /** The routes of all requests, in order. */
  readonly seen: WorkerRoute[] = []
  readonly #edge: URL
  readonly #faults: { readonly route: WorkerRoute; readonly fault: Fault; left: number }[] = []
  readonly #sockets = new Set<Socket>()
  readonly #server = createServer((incoming, outgoing) => void this.#handle(incoming, outgoing))
  #down = false

  constructor(edge: string) {
    this.#edge = new URL(edge)
    this.#server.on('connection', (socket) => {
      if (this.#down) return void socket.destroy()
      this.#sockets.add(socket)
      socket.once('close', () => this.#sockets.delete(socket))
    })
  }

  /** Starts, and returns the address for the worker. */
  open(): Promise<string> {
    return new Promise((settle, fail) => {
      this.#server.once('error', fail)
      // TCP.
      this.#server.listen(0, '127.0.0.1', () =>
        settle(`http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`),
      )
    })
  }

  close(): Promise<void> {
    this.cutAll()
    return new Promise((settle) => this.#server.close(() => settle()))
  }

  /** Breaks all connections, until `mend`. */
  cutAll(): void {
    this.#down = true
    for (const socket of this.#sockets) socket.destroy()
  }

  mend(): void {
    this.#down = false
  }

  /**
   * Sets a fault for the next requests of this route. Faults apply in the order in which they are
   * set.
   */
  next(route: WorkerRoute, fault: Fault, times = 1): void {
    this.#faults.push({ route, fault, left: times })
  }

  /** Whether every fault has happened. */
  get spent(): boolean {
    return this.#faults.every(({ left }) => left === 0)
  }

  /** The number of requests of a route. */
  count(route: WorkerRoute): number {
    return this.seen.filter((one) => one === route).length
  }

  async #handle(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const route = ROUTES.find(([, path]) => path.test(incoming.url ?? ''))?.[0]
    if (route !== undefined) this.seen.push(route)
    const chunks: Buffer[] = []
    incoming.on('error', () => undefined) // the worker died in the middle
    outgoing.on('error', () => undefined)
    for await (const chunk of incoming) chunks.push(chunk as Buffer) // no encoding is set
    const waiting = this.#faults.find((fault) => fault.route === route && fault.left > 0)
    if (waiting !== undefined) waiting.left -= 1
    const cut = (): void => void incoming.socket.destroy()
    const reply = ({ status, headers, body }: Answer): void =>
      void outgoing.writeHead(status, headers).end(body)
    const forward = (): Promise<Answer> => this.#forward(incoming, Buffer.concat(chunks))
    await (waiting?.fault ?? noFault)({ route, forward, reply, cut }).catch(cut)
  }

  #forward({ method, url, headers }: IncomingMessage, body: Buffer): Promise<Answer> {
    const { hostname, port } = this.#edge
    return new Promise((settle, fail) => {
      // The `host` header is not changed, because the signature covers it.
      const onward = request({ hostname, port, method, path: url, headers, agent: false }, (answer) => {
        const parts: Buffer[] = []
        answer.on('data', (chunk: Buffer) => parts.push(chunk))
        answer.on('error', fail)
        answer.on('end', () =>
          settle({ status: answer.statusCode ?? 502, headers: answer.headers, body: Buffer.concat(parts) }),
        )
      })
      onward.on('error', fail)
      onward.end(body)
    })
  }
}
