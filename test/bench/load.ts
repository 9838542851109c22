// The load generator, a separate process: sends prepared requests over keep-alive connections, one
// client per connection, and reports the time until each whole answer. An unexpected answer is a
// fault, never a measurement.

import { bytesOf, Connection, type Request, withFreshKey } from './connection.ts'
import { answerQuestions } from './peer.ts'
import { type Extent, measure, type Slice } from './slice.ts'

export type Load = {
  readonly port: number
  readonly concurrency: number
  readonly extent: Extent
  /** Client `i` sends request `i` again and again; with fewer requests than clients they share. */
  readonly requests: readonly Request[]
  readonly expect: { readonly status: number; readonly contains: readonly string[] }
}

/** Connections last for one slice: the edge closes idle ones. */
async function load({ port, concurrency, extent, requests, expect }: Load): Promise<Slice> {
  const connections = await Promise.all(Array.from({ length: concurrency }, () => Connection.open(port)))
  const prepared = requests.map((request) => bytesOf(request, port))
  const slice = await measure(concurrency, extent, async (lane) => {
    const connection = connections[lane]
    const request = prepared[lane % prepared.length]
    if (connection === undefined || request === undefined)
      throw new Error('a lane without a connection or a request')
    const { status, body } = await connection.exchange(withFreshKey(request))
    const fits = status === expect.status && expect.contains.every((text) => body.includes(text))
    return fits
      ? undefined
      : `expected ${expect.status} with ${expect.contains.join(', ')}; got ${status} ${body.slice(0, 500)}`
  })
  for (const connection of connections) connection.close()
  return slice
}

await answerQuestions(load)
