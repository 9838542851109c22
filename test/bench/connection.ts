// Owns one keep-alive HTTP/1.1 connection of the load generator: it sends prepared bytes and reads
// one whole answer. It costs a fraction of Node’s own client, because with two cores every
// microsecond here is taken from the measured system. It parses only answers of our edge.

import { connect, type Socket } from 'node:net'
import { timedKey } from '../support/timed-key.ts'

export type Answer = { readonly status: number; readonly body: string }

const HEAD_END = Buffer.from('\r\n\r\n')
const LENGTH = /\r\ncontent-length: ([0-9]+)/i

export class Connection {
  readonly #socket: Socket
  #received: Buffer = Buffer.alloc(0)
  #waiting: { settle: (answer: Answer) => void; refuse: (error: Error) => void } | undefined

  private constructor(socket: Socket) {
    this.#socket = socket
    socket.setNoDelay(true)
    socket.on('data', (chunk) => this.#take(chunk))
    socket.on('error', (error) => this.#fail(error))
    socket.on('close', () => this.#fail(new Error('the edge closed the connection')))
  }

  static open(port: number): Promise<Connection> {
    return new Promise((settle, refuse) => {
      const socket = connect(port, '127.0.0.1', () => {
        socket.removeAllListeners('error')
        settle(new Connection(socket))
      })
      socket.once('error', refuse)
    })
  }

  exchange(request: Buffer): Promise<Answer> {
    return new Promise((settle, refuse) => {
      if (this.#socket.destroyed) throw new Error('the edge closed the connection')
      this.#waiting = { settle, refuse }
      this.#socket.write(request)
    })
  }

  close(): void {
    this.#socket.removeAllListeners('close')
    this.#socket.destroy()
  }

  #take(chunk: Buffer): void {
    this.#received = this.#received.byteLength === 0 ? chunk : Buffer.concat([this.#received, chunk])
    const end = this.#received.indexOf(HEAD_END)
    if (end < 0) return
    const head = this.#received.toString('latin1', 0, end)
    const length = LENGTH.exec(head)?.[1]
    if (length === undefined) {
      this.#fail(new Error(`an answer without content-length: ${head}`))
      return
    }
    const whole = end + HEAD_END.byteLength + Number(length)
    if (this.#received.byteLength < whole) return
    const body = this.#received.toString('utf8', end + HEAD_END.byteLength, whole)
    this.#received = this.#received.subarray(whole)
    const waiting = this.#waiting
    this.#waiting = undefined
    waiting?.settle({ status: Number(head.slice(9, 12)), body })
  }

  #fail(error: Error): void {
    this.#waiting?.refuse(error)
    this.#waiting = undefined
  }
}

export type Request = {
  readonly method: 'GET' | 'POST'
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/** The bytes of a request, to be made once and sent many times. */
export function bytesOf({ method, path, headers, body }: Request, port: number): Buffer {
  const lines = Object.entries({
    host: `127.0.0.1:${port}`,
    ...headers,
    'content-length': `${Buffer.byteLength(body)}`,
  })
  return Buffer.from(
    `${method} ${path} HTTP/1.1\r\n${lines.map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n${body}`,
  )
}

/** Stands in prepared bytes for a key that is new in each request. */
export const FRESH_KEY = '00000000-0000-0000-0000-000000000000'

/** The bytes to send: prepared ones as they are, or a copy with a new key. */
export function withFreshKey(prepared: Buffer): Buffer {
  const at = prepared.indexOf(FRESH_KEY)
  if (at < 0) return prepared
  const bytes = Buffer.from(prepared)
  bytes.write(timedKey(), at, 'latin1')
  return bytes
}
