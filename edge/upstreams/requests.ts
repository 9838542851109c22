// The HTTP requests of one call or one look: only to the hosts of the plan (U05), never through a
// redirect, within its number of requests and bytes, and each recorded for the statement. Which
// addresses a name may resolve to is enforced at connection (edge/platform/outbound-fetch.ts).

import type { Connection } from '../../shared/plan/plan.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import { faultInAddress, type Outside, type StandIns, testOverrideFor } from '../platform/outbound-fetch.ts'
import { covers, hostPortOf } from '../tools/planner.ts'

export type Reach = {
  readonly hosts: readonly string[]
  readonly bytes: number
  readonly requests: number
  readonly outside: Outside
  /** For tests. */
  readonly standIns: StandIns | undefined
  /** Ends everything: the deadline has passed or somebody has cancelled. */
  readonly signal: AbortSignal
}

export type HttpRequest = {
  readonly method: 'POST' | 'DELETE'
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | null
  /** Names of the secrets that the headers contain. */
  readonly credentials: readonly string[]
}
export type HttpAnswer = {
  readonly status: number
  readonly headers: Headers
  /** Throws `TooManyBytes` at the limit, and an `Error` if the connection or the time ends. */
  readonly body: AsyncIterable<Uint8Array>
}
/** `sent`: whether the server may have received the request. */
export type Unanswered = { readonly sent: boolean; readonly why: string }

export class TooManyBytes extends Error {}

export class UpstreamRequests {
  readonly #reach: Reach
  readonly #connections: { -readonly [K in keyof Connection]: Connection[K] }[] = []
  #bytes = 0

  constructor(reach: Reach) {
    this.#reach = reach
  }

  get connections(): readonly Connection[] {
    return this.#connections.map((one) => ({ ...one }))
  }
  get signal(): AbortSignal {
    return this.#reach.signal
  }

  async send({
    method,
    url,
    headers,
    body,
    credentials,
  }: HttpRequest): Promise<Result<HttpAnswer, Unanswered>> {
    const { hosts, requests, bytes, outside, standIns, signal } = this.#reach
    const fault = faultInAddress(url, standIns !== undefined)
    if (fault !== undefined) return unsent(fault)
    const target = hostPortOf(url)
    if (!hosts.some((pattern) => covers(pattern, target)))
      return unsent(`\`${target}\` is not one of the upstream’s hosts`)
    if (this.#connections.length >= requests) return unsent(`it would take more than ${requests} requests`)
    const size = Buffer.byteLength(body ?? '')
    if (this.#bytes + size > bytes) return unsent(`the request is larger than the ${bytes} bytes of a call`)
    if (signal.aborted) return unsent('there was no time left')
    const connection = this.#record(target, size, credentials)
    try {
      const init = { method, headers, body, redirect: 'manual', signal } as const
      const answer = await outside.fetch(testOverrideFor(url, standIns ?? {}), init)
      return ok({
        status: answer.status,
        headers: answer.headers,
        body: this.#counted(answer, connection),
      })
    } catch {
      connection.verdict = 'failed'
      // workerd reports a refused connection like one that was lost later, so the server may have
      // received the request. Its error text would reveal what a name resolves to.
      return err({ sent: true, why: signal.aborted ? 'it did not answer in time' : 'the connection failed' })
    }
  }

  #record(target: string, bytes_out: number, credentials: readonly string[]) {
    const [host = '', port = '0'] = target.split(':')
    const added = credentials.length === 0 ? {} : { credentials: [...credentials] }
    const connection: Connection = {
      host,
      port: Number(port),
      address: '',
      bytes_out,
      bytes_in: 0,
      ...added,
      verdict: 'allowed',
    }
    this.#bytes += bytes_out
    this.#connections.push(connection)
    return connection
  }

  /** The decompressed body, counted chunk by chunk (N15). */
  async *#counted(
    answer: Response,
    connection: { bytes_in: number; verdict: Connection['verdict'] },
  ): AsyncIterable<Uint8Array> {
    for await (const chunk of (answer.body ?? []) as AsyncIterable<Uint8Array>) {
      this.#bytes += chunk.byteLength
      connection.bytes_in += chunk.byteLength
      if (this.#bytes > this.#reach.bytes) {
        connection.verdict = 'cap'
        throw new TooManyBytes(`the answer is larger than ${this.#reach.bytes} bytes`)
      }
      yield chunk
    }
  }
}

const unsent = (why: string): Result<never, Unanswered> => err({ sent: false, why })
