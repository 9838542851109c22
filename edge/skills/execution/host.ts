// The host side of one skill call: serves the requests that the skill's isolate makes over RPC,
// until the call ends. It checks every request against the plan again, because the isolate is not
// trusted, and counts it (W12). It holds all secrets of the call and returns only those that the
// plan lets the skill read.

import { LIMITS } from '../../../shared/limits.ts'
import { isListed } from '../../../shared/plan/egress-hosts.ts'
import type { Connection, SkillPlan } from '../../../shared/plan/plan.ts'
import type { Outside, StandIns } from '../../platform/outbound-fetch.ts'
import { testOverrideFor } from '../../platform/outbound-fetch.ts'
import { type CpuTurn, waitUntilIdle } from './cpu-turns.ts'
import type { HostAnswer } from './host-answer.ts'
import type { CheckedRequest, HttpRequestInput } from './host-http.ts'
import { checkRequest } from './host-http.ts'
import { GrantedServices, type HostServices } from './host-storage.ts'

export type Response = {
  readonly status: number
  readonly headers: readonly (readonly [string, string])[]
  readonly body: Uint8Array
}

export type HostContext = {
  readonly plan: SkillPlan
  readonly secrets: Readonly<Record<string, string>>
  readonly outside: Outside
  /** For tests. */
  readonly standIns: StandIns | undefined
  readonly turn: CpuTurn
  readonly services: HostServices
}

const OVER = { error: 'the call is over' } as const
const BUSY = {
  error: `a call may have ${LIMITS.skill_requests_at_once} request to the edge at a time; wait for its answer`,
} as const

export class SkillHost {
  readonly #context: HostContext
  readonly #connections: Connection[] = []
  readonly #calls: Record<string, number> = {}
  #isShut = false
  /** Aborts requests in flight. Created with the first request, because most calls make none. */
  #inFlight: AbortController | undefined
  readonly #services: GrantedServices
  #bytes = 0
  #underWay = 0

  constructor(context: HostContext) {
    this.#context = context
    this.#services = new GrantedServices(context.plan, context.services)
  }

  /** Goes into the statement. */
  get connections(): readonly Connection[] {
    return this.#connections
  }
  get calls(): Readonly<Record<string, number>> {
    return this.#calls
  }

  /** Refuses all further requests and aborts those in flight. */
  close(): void {
    this.#isShut = true
    this.#inFlight?.abort()
  }

  /** Lets all other work run first. */
  async yieldTurn(): Promise<HostAnswer<true>> {
    const waited = await this.#serve(async () => {
      await waitUntilIdle()
      return { value: true as const }
    })
    return this.#isShut ? OVER : waited
  }

  async secret(name: string): Promise<HostAnswer<string>> {
    const refused = this.#begin('secrets.get')
    if (refused !== undefined) return refused
    const { plan, secrets } = this.#context
    const value = plan.secrets.includes(name) ? secrets[name] : undefined
    return value === undefined ? { denied: `the secret \`${name.slice(0, 64)}\`` } : { value }
  }

  async request(input: HttpRequestInput): Promise<HostAnswer<Response>> {
    const refused = this.#begin('http.request')
    if (refused !== undefined) return refused
    const { plan, secrets, standIns } = this.#context
    const most = plan.limits.net_connections ?? 0
    const request = checkRequest(input, plan, secrets, standIns !== undefined)
    if (this.#connections.length >= most) return { error: `the call may make ${most} requests` }
    if (!request.ok) {
      const { kind, why, host, port } = request.error
      const listed = isListed(plan.egress.hosts, { host, port })
      const verdict = kind === 'denied' && !listed ? 'host_not_listed' : 'malformed'
      this.#record({ host, port }, verdict, 0, 0)
      return kind === 'denied' ? { denied: `http: ${why}` } : { error: why }
    }
    return this.#serve(() => this.#send(request.value))
  }

  /** Uses storage or a channel, and lets other skills run while it waits. */
  async use<T>(
    name: string,
    work: (services: GrantedServices) => Promise<HostAnswer<T>>,
  ): Promise<HostAnswer<T>> {
    return this.#begin(name) ?? this.#serve(() => work(this.#services))
  }

  /**
   * Lets other skills run while this request waits. The harness waits for each answer. An isolate
   * that a skill controls might not, and would exceed the limits of the plan, which are compared
   * with the requests that have ended.
   */
  async #serve<T>(work: () => Promise<HostAnswer<T>>): Promise<HostAnswer<T>> {
    if (this.#isShut) return OVER
    if (this.#underWay >= LIMITS.skill_requests_at_once) return BUSY
    this.#underWay += 1
    try {
      return await this.#context.turn.releaseDuring(work)
    } finally {
      this.#underWay -= 1
    }
  }

  async #send(request: CheckedRequest): Promise<HostAnswer<Response>> {
    const { outside, standIns } = this.#context
    const { method, headers, body, url } = request
    const sent = (body?.byteLength ?? 0) + url.length + sizeOf(headers)
    const most = this.#context.plan.limits.net_bytes ?? 0
    if (this.#bytes + sent > most) {
      this.#record(request, 'cap', 0, 0)
      return { error: 'the request is larger than the bytes the call may still send' }
    }
    this.#bytes += sent
    const chunks: Uint8Array[] = []
    let received = 0
    const fits = (bytes: number): boolean => {
      received += bytes
      this.#bytes += bytes
      return this.#bytes <= most
    }
    let verdict: Connection['verdict'] = 'failed'
    this.#inFlight ??= new AbortController()
    try {
      const to = testOverrideFor(url, standIns ?? {})
      const init = {
        method,
        headers,
        body: body as NonNullable<RequestInit['body']> | null, // a Uint8Array is a body; the types disagree on its buffer
        redirect: 'manual',
        signal: this.#inFlight.signal,
      } as const
      const answer = await outside.fetch(to, init)
      verdict = (await read(answer, chunks, fits)) ? 'allowed' : 'cap'
      return verdict === 'cap'
        ? { error: 'the response is larger than the bytes the call may still receive' }
        : {
            value: {
              status: answer.status,
              headers: headersOf(answer.headers),
              body: Buffer.concat(chunks),
            },
          }
    } catch {
      // The runtime's own error would reveal what a name resolves to.
      return this.#isShut ? OVER : { error: 'the host could not be reached' }
    } finally {
      this.#record(request, verdict, sent, received)
    }
  }

  #begin(name: string): { error: string } | undefined {
    if (this.#isShut) return OVER
    const count = (this.#calls[name] ?? 0) + 1
    this.#calls[name] = count
    return count > LIMITS.skill_host_calls
      ? { error: `the call has used \`${name}\` ${LIMITS.skill_host_calls} times, which is the limit` }
      : undefined
  }

  #record(
    to: Pick<Connection, 'host' | 'port'> & Partial<CheckedRequest>,
    verdict: Connection['verdict'],
    bytes_out: number,
    bytes_in: number,
  ): void {
    const { host, port, credentials = [] } = to
    const added = credentials.length === 0 ? {} : { credentials: [...credentials] }
    this.#connections.push({ host, port, address: '', bytes_out, bytes_in, ...added, verdict })
  }
}

/** As many headers as fit, in the order in which they came. */
function headersOf(headers: Headers): (readonly [string, string])[] {
  let left = LIMITS.skill_header_chars
  return [...headers].filter(([name, value]) => {
    left -= name.length + value.length
    return left >= 0
  })
}

const sizeOf = (headers: Headers): number =>
  [...headers].reduce((sum, [name, value]) => sum + name.length + value.length, 0)

/** Reads the decompressed body (N15); returns false and stops when the answer no longer fits. */
async function read(
  answer: globalThis.Response,
  chunks: Uint8Array[],
  fits: (bytes: number) => boolean,
): Promise<boolean> {
  if (!fits(sizeOf(answer.headers))) return false
  for await (const chunk of (answer.body ?? []) as AsyncIterable<Uint8Array>) {
    if (!fits(chunk.byteLength)) return false // leaving the loop cancels the stream
    chunks.push(chunk)
  }
  return true
}
