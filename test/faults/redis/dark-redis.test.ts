// Promise: a worker whose connection to Redis is black-holed without being closed logs it once,
// reconnects, and receives doorbells again.

import { readFileSync } from 'node:fs'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { eventually } from '../../support/eventually.ts'
import { LoneWorker } from '../../support/worker/lone-worker.ts'

/** A TCP proxy whose open connections can be black-holed: they stay open and pass nothing. */
class Path {
  readonly #to: number
  #dark = new Set<Socket>()
  readonly #sockets = new Set<Socket>()
  readonly #server = createServer((near) => {
    const far = connect(this.#to, '127.0.0.1')
    this.#pass(near, far)
    this.#pass(far, near)
  })

  constructor(to: number) {
    this.#to = to
  }

  #pass(from: Socket, to: Socket): void {
    this.#sockets.add(from)
    from.on('data', (bytes) => this.#dark.has(from) || to.write(bytes))
    from.on('error', () => undefined)
    from.on('close', () => this.#dark.has(from) || to.destroy())
  }

  open(): Promise<number> {
    return new Promise((opened) =>
      this.#server.listen(0, '127.0.0.1', () => opened((this.#server.address() as AddressInfo).port)),
    ) // the address of a TCP server
  }

  darken(): void {
    this.#dark = new Set(this.#sockets)
  }

  close(): void {
    for (const socket of this.#sockets) socket.destroy()
    this.#server.close()
  }
}

let lone: LoneWorker
let path: Path
beforeAll(async () => {
  lone = await LoneWorker.make()
  const url = new URL(
    (JSON.parse(readFileSync(join(lone.state.worker, 'worker.json'), 'utf8')) as { redis_url: string })
      .redis_url,
  )
  path = new Path(Number(url.port))
  url.port = String(await path.open())
  lone.configure({ redis_url: url.href })
  await lone.start()
})
afterAll(async () => {
  await lone?.end()
  path?.close()
})

test('a worker with a black-holed connection to Redis logs it once, and then receives the missed doorbells', {
  timeout: 90_000,
}, async () => {
  await lone.settled(await lone.call({ argv: ['true'] }))
  const from = lone.log.length
  path.darken()
  const call = await lone.call({ argv: ['true'] })
  expect((await lone.settled(call, 60_000)).statement.predicate.state).toBe('succeeded')
  const aboutRedis = () => lone.log.slice(from).flatMap(({ msg }) => (msg.includes('Redis') ? [msg] : []))
  await eventually('it says that it is back', () => aboutRedis().includes('Redis is back'))
  expect(aboutRedis()).toEqual([
    'Redis is unreachable; doorbells wait, and running calls continue',
    'Redis is back',
  ])
})
