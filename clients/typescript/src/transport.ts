// Sends requests to the edge: authenticates them, limits their time, and tries again where that is
// safe and can help. Every request of this client is safe to send twice: a proposal carries its
// `Idempotency-Key`, and all others have the same effect twice as once.

import { ROUTES } from './api.ts'
import { ConnectionError, ProblemError, problemOf } from './errors.ts'

export type Key = string | (() => string | Promise<string>)

export type Options = {
  /** The address of the edge, for example `https://countersign.example.com`. */
  readonly url: string | URL
  /** The agent's key, or a function that returns the current bearer token before each request. */
  readonly key: Key
  /** Used in place of the global `fetch`. */
  readonly fetch?: typeof fetch
  /** The most attempts of one request, and the time for all of them. */
  readonly retry?: { readonly tries?: number; readonly totalMs?: number }
}

export type Outgoing = {
  readonly params?: Readonly<Record<string, string>>
  readonly query?: Readonly<Record<string, string>>
  readonly body?: unknown
  readonly headers?: Readonly<Record<string, string>>
  /** The answer may take this long; the edge waits at most `WAIT_S`. */
  readonly waitS?: number
  readonly signal?: AbortSignal | undefined
  /** The answer is a stream, which has no total time limit. */
  readonly stream?: true
}

/** The edge waits no longer than this for a call to end. */
export const WAIT_S = 60
/** The time limit of a request, in addition to the wait that the caller asked for. */
const ANSWER_MS = 30_000
const RETRY = { tries: 6, totalMs: 120_000 }
const FIRST_PAUSE_MS = 250
const LONGEST_PAUSE_MS = 30_000

export class Transport {
  readonly #base: URL
  readonly #key: Key
  readonly #fetch: typeof fetch
  readonly #tries: number
  readonly #totalMs: number

  constructor({ url, key, fetch: send, retry = {} }: Options) {
    this.#base = new URL(url)
    this.#key = key
    // workerd and browsers refuse a `fetch` that is called as a method of another object.
    this.#fetch = send ?? ((input, init) => globalThis.fetch(input, init))
    this.#tries = retry.tries ?? RETRY.tries
    this.#totalMs = retry.totalMs ?? RETRY.totalMs
  }

  async json<T>(route: keyof typeof ROUTES, outgoing: Outgoing): Promise<T> {
    const response = await this.send(route, outgoing)
    try {
      return (await response.json()) as T // the edge checks what it sends against the route table
    } catch (cause) {
      throw new ConnectionError(`the answer to ${route} is not JSON`, { cause })
    }
  }

  /** Returns a successful response; throws anything else, after retrying where that can help. */
  async send(route: keyof typeof ROUTES, outgoing: Outgoing): Promise<Response> {
    const until = Date.now() + this.#totalMs
    for (let tried = 1; ; tried++) {
      const outcome = await this.#sendOnce(route, outgoing)
      if (outcome instanceof Response) return outcome
      const pauseMs = pauseAfter(outcome, tried)
      if (pauseMs === undefined || tried >= this.#tries || Date.now() + pauseMs > until) throw outcome
      await pause(pauseMs, outgoing.signal)
    }
  }

  async #sendOnce(route: keyof typeof ROUTES, outgoing: Outgoing): Promise<Response | Error> {
    const { signal, waitS = 0, stream } = outgoing
    signal?.throwIfAborted()
    const { method, path } = ROUTES[route]
    const url = this.#url(path, outgoing)
    const limit = AbortSignal.timeout(ANSWER_MS + waitS * 1_000)
    const signals = [...(stream ? [] : [limit]), ...(signal === undefined ? [] : [signal])]
    let response: Response
    try {
      response = await this.#fetch(url, {
        method,
        // A redirect would carry the key to an address that nobody configured.
        redirect: 'manual',
        headers: { ...(await this.#headers(outgoing)), ...outgoing.headers },
        ...(outgoing.body === undefined ? {} : { body: encoded(outgoing.body) }),
        ...(signals.length === 0 ? {} : { signal: AbortSignal.any(signals) }),
      })
    } catch (cause) {
      signal?.throwIfAborted()
      return new ConnectionError(`${url.origin} did not answer`, { cause })
    }
    if (response.ok) return response
    if (response.type === 'opaqueredirect' || (response.status >= 300 && response.status < 400))
      throw new ConnectionError(`${url.origin} redirects; give the client the final address`)
    return problemOf(response)
  }

  #url(path: string, { params = {}, query = {} }: Outgoing): URL {
    const filled = path.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(params[name] ?? ''))
    const url = new URL(filled, this.#base)
    for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value)
    return url
  }

  async #headers({ body, waitS }: Outgoing): Promise<Record<string, string>> {
    const key = typeof this.#key === 'string' ? this.#key : await this.#key()
    const type = body instanceof Uint8Array ? 'application/octet-stream' : 'application/json'
    return {
      authorization: `Bearer ${key}`,
      ...(body === undefined ? {} : { 'content-type': type }),
      ...(waitS === undefined ? {} : { prefer: `wait=${waitS}` }),
    }
  }
}

const encoded = (body: unknown): string | Uint8Array<ArrayBuffer> =>
  body instanceof Uint8Array ? (body as Uint8Array<ArrayBuffer>) : JSON.stringify(body) // never shared memory

/** How long to pause before the next attempt; undefined if retrying can't help. */
function pauseAfter(failed: Error, tried: number): number | undefined {
  const backoff = Math.random() * Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** tried)
  if (failed instanceof ConnectionError) return backoff
  if (!(failed instanceof ProblemError) || !failed.retry) return undefined
  const asked = failed.retryAfterMs ?? 0
  return asked > LONGEST_PAUSE_MS ? undefined : Math.max(asked, backoff)
}

export async function pause(ms: number, signal?: AbortSignal): Promise<void> {
  signal?.throwIfAborted()
  await new Promise<void>((resolve, reject) => {
    const abort = (): void => {
      clearTimeout(timer)
      reject(signal?.reason)
    }
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', abort)
      resolve()
    }, ms)
    signal?.addEventListener('abort', abort, { once: true })
  })
}
