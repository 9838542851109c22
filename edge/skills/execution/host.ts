// The edge's side of what a skill may ask of it while it runs: made for one call, handed to its isolate with the call, and shut when that has
// ended. Each use is held against the plan again, whatever the isolate said of it, and counted. It holds the values of the call's secrets,
// and gives away those alone that the plan lets it read.

import { RpcTarget } from 'cloudflare:workers'
import { LIMITS } from '../../../shared/limits.ts'
import type { Connection, SkillPlan } from '../../../shared/plan/plan.ts'
import type { Outside, StandIns } from '../../platform/outbound-fetch.ts'
import { stoodInFor } from '../../platform/outbound-fetch.ts'
import { lull, type Turn } from './cpu-turns.ts'
import { type Answer, MALFORMED } from './host-answer.ts'
import type { Request } from './host-http.ts'
import { Asked, judged } from './host-http.ts'
import { Keeping, type Kept } from './host-storage.ts'

export type Response = {
  readonly status: number
  readonly headers: readonly (readonly [string, string])[]
  readonly body: Uint8Array
}

export type Means = {
  readonly plan: SkillPlan
  readonly secrets: Readonly<Record<string, string>>
  readonly outside: Outside
  /** For tests. */
  readonly standIns: StandIns | undefined
  readonly turn: Turn
  readonly kept: Kept
}

const OVER = { error: 'the call is over' } as const

/** What its isolate is handed: ways to ask, and nothing else. */
export class Asking extends RpcTarget {
  readonly #host: HostSide

  constructor(host: HostSide) {
    super()
    this.#host = host
  }
  /** It has burnt a slice of its fuel. */
  more(): Promise<Answer<true>> {
    return this.#host.rest()
  }
  async request(asked: unknown): Promise<Answer<Response>> {
    const read = Asked.safeParse(asked)
    return read.success ? this.#host.request(read.data) : MALFORMED
  }
  async secret(name: unknown): Promise<Answer<string>> {
    return typeof name === 'string' ? this.#host.secret(name) : MALFORMED
  }
  kvGet(key: unknown): Promise<Answer<Uint8Array | undefined>> {
    return this.#host.ask('kv.get', (keeping) => keeping.get(key))
  }
  kvSet(key: unknown, value: unknown): Promise<Answer<true>> {
    return this.#host.ask('kv.set', (keeping) => keeping.set(key, value))
  }
  kvDelete(key: unknown): Promise<Answer<true>> {
    return this.#host.ask('kv.delete', (keeping) => keeping.delete(key))
  }
  kvKeys(beginning: unknown): Promise<Answer<string[]>> {
    return this.#host.ask('kv.keys', (keeping) => keeping.keys(beginning))
  }
  post(channel: unknown, text: unknown): Promise<Answer<true>> {
    return this.#host.ask('channel.post', (keeping) => keeping.post(channel, text))
  }
}

export class HostSide {
  readonly #means: Means
  readonly #connections: Connection[] = []
  readonly #calls: Record<string, number> = {}
  #isShut = false
  /** Made for the first request: most calls make none. */
  #underWay: AbortController | undefined
  readonly #keeping: Keeping
  #bytes = 0

  constructor(means: Means) {
    this.#means = means
    this.#keeping = new Keeping(means.plan, means.kept)
  }

  /** What it did, for the statement. */
  get connections(): readonly Connection[] {
    return this.#connections
  }
  get calls(): Readonly<Record<string, number>> {
    return this.#calls
  }

  /** Nothing more is given, and what is under way is given up. */
  shut(): void {
    this.#isShut = true
    this.#underWay?.abort()
  }

  /** Whoever else has something to do comes first. */
  async rest(): Promise<Answer<true>> {
    if (!this.#isShut) await this.#means.turn.aside(lull)
    return this.#isShut ? OVER : { value: true }
  }

  async secret(name: string): Promise<Answer<string>> {
    const refused = this.#begin('secrets.get')
    if (refused !== undefined) return refused
    const { plan, secrets } = this.#means
    const value = plan.secrets.includes(name) ? secrets[name] : undefined
    return value === undefined ? { denied: `the secret \`${name.slice(0, 64)}\`` } : { value }
  }

  async request(asked: Asked): Promise<Answer<Response>> {
    const refused = this.#begin('http.request')
    if (refused !== undefined) return refused
    const { plan, secrets, standIns, turn } = this.#means
    const most = plan.limits.net_connections ?? 0
    const request = judged(asked, plan, secrets, standIns !== undefined)
    if (this.#connections.length >= most) return { error: `the call may make ${most} requests` }
    if (!request.ok) {
      const { kind, why, host, port } = request.error
      const verdict = kind === 'denied' ? 'host_not_listed' : 'malformed'
      this.#record({ host, port }, verdict, 0, 0)
      return kind === 'denied' ? { denied: `http: ${why}` } : { error: why }
    }
    return turn.aside(() => this.#send(request.value))
  }

  /** Of what the skill keeps and posts: somebody else runs meanwhile. */
  async ask<T>(name: string, work: (keeping: Keeping) => Promise<Answer<T>>): Promise<Answer<T>> {
    return this.#begin(name) ?? this.#means.turn.aside(() => work(this.#keeping))
  }

  async #send(request: Request): Promise<Answer<Response>> {
    const { outside, standIns } = this.#means
    const { method, headers, body, url } = request
    const sent = (body?.byteLength ?? 0) + url.length + sizeOf(headers)
    const most = (this.#means.plan.limits.net_bytes ?? 0) - this.#bytes
    if (sent > most) {
      this.#record(request, 'cap', 0, 0)
      return { error: 'there is more than the call may send' }
    }
    this.#bytes += sent
    const got: Got = { bytes: 0, chunks: [] }
    let verdict: Connection['verdict'] = 'failed'
    this.#underWay ??= new AbortController()
    try {
      const to = stoodInFor(url, standIns ?? {})
      const init = {
        method,
        headers,
        body: body as BodyInit | null,
        redirect: 'manual',
        signal: this.#underWay.signal,
      } as const // bytes are one
      const answer = await outside.fetch(to, init)
      got.bytes = sizeOf(answer.headers)
      verdict = (await read(answer, got, most - sent)) ? 'allowed' : 'cap'
      return verdict === 'cap'
        ? { error: 'there is more than the call may receive' }
        : {
            value: {
              status: answer.status,
              headers: headersOf(answer.headers),
              body: Buffer.concat(got.chunks),
            },
          }
    } catch {
      // What the runtime says of a connection tells what lies behind a name.
      return this.#isShut ? OVER : { error: 'the host could not be reached' }
    } finally {
      this.#bytes += got.bytes
      this.#record(request, verdict, sent, got.bytes)
    }
  }

  #begin(name: string): { error: string } | undefined {
    if (this.#isShut) return OVER
    const count = (this.#calls[name] ?? 0) + 1
    this.#calls[name] = count
    return count > LIMITS.skill_host_calls
      ? { error: `the call may use \`${name}\` ${LIMITS.skill_host_calls} times` }
      : undefined
  }

  #record(
    to: Pick<Connection, 'host' | 'port'> & Partial<Request>,
    verdict: Connection['verdict'],
    bytes_out: number,
    bytes_in: number,
  ): void {
    const { host, port, credentials = [] } = to
    const added = credentials.length === 0 ? {} : { credentials: [...credentials] }
    this.#connections.push({ host, port, address: '', bytes_out, bytes_in, ...added, verdict })
  }
}

/** As many as fit, in the order in which they came. */
function headersOf(headers: Headers): (readonly [string, string])[] {
  let left = LIMITS.skill_header_chars
  return [...headers].filter(([name, value]) => {
    left -= name.length + value.length
    return left >= 0
  })
}

const sizeOf = (headers: Headers): number =>
  [...headers].reduce((sum, [name, value]) => sum + name.length + value.length, 0)

/** What came, counted as it comes: who breaks off has sent it all the same. */
type Got = { bytes: number; readonly chunks: Uint8Array[] }

/** After what it was packed by (N15); false where it is more than `most`. */
async function read(answer: globalThis.Response, got: Got, most: number): Promise<boolean> {
  if (got.bytes > most) return false
  for await (const chunk of (answer.body ?? []) as AsyncIterable<Uint8Array>) {
    got.bytes += chunk.byteLength
    if (got.bytes > most) return false // which cancels the rest
    got.chunks.push(chunk)
  }
  return true
}
