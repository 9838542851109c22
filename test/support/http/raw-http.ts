// Sends HTTP as bytes on a socket, for requests that no client library would send. One request per
// connection.

import { connect, type Socket } from 'node:net'

export type RawAnswer = { readonly status: number | undefined; readonly text: string }

export class RawRequest {
  readonly #socket: Socket
  #received = ''
  #closed = false

  constructor(url: string) {
    const { hostname, port } = new URL(url)
    this.#socket = connect(Number(port), hostname)
    this.#socket.on('data', (chunk: Buffer) => {
      this.#received += chunk.toString('latin1')
    })
    this.#socket.on('error', () => undefined) // a closed connection is an answer too
    this.#socket.once('close', () => {
      this.#closed = true
    })
  }

  head(method: string, path: string, headers: readonly string[]): this {
    return this.send(
      `${method} ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\n${headers.map((line) => `${line}\r\n`).join('')}\r\n`,
    )
  }

  send(data: string | Uint8Array): this {
    if (!this.#closed) this.#socket.write(data)
    return this
  }

  get answer(): RawAnswer | undefined {
    const status = /^HTTP\/1\.1 ([0-9]{3})/.exec(this.#received)?.[1]
    return status === undefined && !this.#closed
      ? undefined
      : { status: status === undefined ? undefined : Number(status), text: this.#received }
  }

  /** Resolves once a status line has arrived or the peer has closed the connection. */
  answered(within_ms: number): Promise<RawAnswer> {
    return new Promise((settle, fail) => {
      const look = (): boolean => {
        const { answer } = this
        if (answer === undefined) return false
        clearTimeout(timer)
        settle(answer)
        return true
      }
      const timer = setTimeout(() => fail(new Error(`no answer within ${within_ms} ms`)), within_ms)
      if (look()) return
      this.#socket.on('data', look)
      this.#socket.on('close', look)
    })
  }

  end(): void {
    this.#socket.destroy()
  }
}
