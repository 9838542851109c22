// Fetches the keys of a tenant's issuers, inside the TenantObject: there is one for all isolates,
// so that one request serves all who wait, and strangers' tokens can't make the edge flood an
// issuer (A05, A06). In memory only.

import { digestOf } from '../../shared/bytes/json.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { IssuerSpec, PublicJwk } from '../../shared/wire/issuers.ts'
import { faultInAddress, type Outside, type StandIns, testOverrideFor } from '../platform/outbound-fetch.ts'
import { discoveryAddress, keySetAddress, keysIn } from './key-documents.ts'

/**
 * Fetched keys. `askAt`: when an isolate should ask again. `unknownAt`: the earliest time at which
 * a token with an unknown key may cause a fetch.
 */
export type FetchedKeys = {
  readonly keys: readonly PublicJwk[]
  readonly askAt: number
  readonly unknownAt: number
}

type Entry = {
  readonly keys: readonly PublicJwk[]
  /** 0 if never. */
  readonly fetchedAt: number
  readonly failedAt: number
  readonly unknownAt: number
}
const EMPTY: Entry = { keys: [], fetchedAt: 0, failedAt: 0, unknownAt: 0 }

export type Network = { readonly outside: Outside; readonly standIns: StandIns | undefined }

export class KeySource {
  readonly #network: Network
  readonly #now: () => number
  readonly #entries = new Map<string, Entry>()
  readonly #pending = new Map<string, Promise<void>>()

  constructor(network: Network, now: () => number = Date.now) {
    this.#network = network
    this.#now = now
  }

  /** `unknown`: a token names a key that is not among those that were fetched. */
  async keysOf(spec: IssuerSpec, unknown: boolean): Promise<Result<FetchedKeys, string>> {
    const id = digestOf([spec.issuer, spec.jwks])
    const entry = this.#entries.get(id) ?? EMPTY
    if (this.#mayFetch(entry, unknown)) await this.#fetchOnce(id, spec, unknown && !this.#isDue(entry))
    const { keys, fetchedAt, failedAt, unknownAt } = this.#entries.get(id) ?? EMPTY
    // An issuer that is down for a while does not lock its agents out; one that is down for long
    // does.
    if (this.#now() >= fetchedAt + LIMITS.key_set_stale_ms)
      return err('the keys of the issuer could not be fetched')
    const askAt = Math.max(fetchedAt + LIMITS.key_set_fresh_ms, failedAt + LIMITS.key_set_retry_ms)
    return ok({ keys, askAt, unknownAt })
  }

  /** Forgets all keys, because an operator has changed the issuers: they are fetched again. */
  forget(): void {
    this.#entries.clear()
  }

  #isDue({ fetchedAt }: Entry): boolean {
    return this.#now() >= fetchedAt + LIMITS.key_set_fresh_ms
  }

  #mayFetch(entry: Entry, unknown: boolean): boolean {
    if (this.#now() < entry.failedAt + LIMITS.key_set_retry_ms) return false
    return this.#isDue(entry) || (unknown && this.#now() >= entry.unknownAt)
  }

  /** One request at a time for each issuer; all others wait for it. */
  #fetchOnce(id: string, spec: IssuerSpec, forUnknown: boolean): Promise<void> {
    const running = this.#pending.get(id)
    if (running !== undefined) return running
    const pending = this.#fetch(id, spec, forUnknown).finally(() => this.#pending.delete(id))
    this.#pending.set(id, pending)
    return pending
  }

  async #fetch(id: string, spec: IssuerSpec, forUnknown: boolean): Promise<void> {
    const before = this.#entries.get(id) ?? EMPTY
    const keys = await this.#fetchKeys(spec).catch(() => undefined) // the runtime's error would reveal hosts behind a name
    const now = this.#now()
    const unknownAt = forUnknown ? now + LIMITS.key_set_unknown_ms : before.unknownAt
    this.#entries.set(
      id,
      keys === undefined
        ? { ...before, failedAt: now, unknownAt }
        : { keys, fetchedAt: now, failedAt: 0, unknownAt },
    )
  }

  async #fetchKeys({ issuer, jwks }: IssuerSpec): Promise<readonly PublicJwk[] | undefined> {
    if (jwks !== 'discovery') return 'uri' in jwks ? this.#keysAt(jwks.uri) : jwks.keys
    const document = await this.#get(discoveryAddress(issuer))
    const address = document === undefined ? undefined : keySetAddress(document, issuer)
    return address === undefined ? undefined : this.#keysAt(address)
  }

  async #keysAt(address: string): Promise<readonly PublicJwk[] | undefined> {
    const document = await this.#get(address)
    return document === undefined ? undefined : keysIn(document)
  }

  /**
   * N14: only public addresses, checked again at connection; no redirect, a deadline, a size limit.
   */
  async #get(address: string): Promise<Uint8Array | undefined> {
    const { outside, standIns } = this.#network
    if (faultInAddress(address, standIns !== undefined) !== undefined) return undefined
    const answer = await outside.fetch(testOverrideFor(address, standIns ?? {}), {
      redirect: 'manual',
      headers: { accept: 'application/json' },
      signal: AbortSignal.timeout(LIMITS.key_set_ms),
    })
    if (answer.status !== 200) {
      await answer.body?.cancel()
      return undefined
    }
    const chunks: Uint8Array[] = []
    let size = 0
    for await (const chunk of (answer.body ?? []) as AsyncIterable<Uint8Array>) {
      chunks.push(chunk)
      size += chunk.byteLength
      if (size > LIMITS.key_set_bytes) return undefined // which cancels the rest
    }
    return Buffer.concat(chunks)
  }
}
