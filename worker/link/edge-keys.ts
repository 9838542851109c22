// The edge keys whose grants this worker accepts. It learns a new one only by the chain from the key
// that it has pinned: every link is signed by the key before it, so it doesn't matter who answered.

import type { KeyEntry, Keys } from '../../shared/evidence/keys.ts'
import { edgeKeysOf } from '../../shared/evidence/keys.ts'
import { err, ok, type Result } from '../../shared/result.ts'
import type { Log } from '../host/log.ts'
import type { EdgeLink } from './client.ts'
import { type Identity, type PinnedEdge, storeEdge } from './identity.ts'

/** The newest key, and the one before it while its signatures count. */
export function followedFrom(
  { edge }: Pick<Identity, 'edge'>,
  { keys, chain }: Keys,
): Result<PinnedEdge, string> {
  const led = edgeKeysOf(keys.find(({ role }) => role === 'edge')?.x ?? '', chain)
  if (!led.ok) return led
  const pinned = led.value.findIndex(({ x }) => x === edge.x)
  if (pinned < 0) return err('none of its keys is the pinned one')
  const [newest, before] = led.value.slice(pinned).reverse()
  if (newest === undefined) return err('none of its keys is the pinned one')
  const until_ms = before === undefined ? undefined : endOf(before)
  return ok({
    edge: { kid: newest.kid, x: newest.x },
    ...(before && until_ms !== undefined ? { before: { kid: before.kid, x: before.x, until_ms } } : {}),
  })
}

const endOf = ({ status, until_ms }: KeyEntry): number | undefined =>
  status === 'retired' ? (until_ms ?? undefined) : undefined

export class EdgeKeys {
  #pinned: PinnedEdge
  #asking: Promise<void> | undefined
  readonly #identity: Identity
  readonly #link: EdgeLink
  readonly #log: Log

  constructor(identity: Identity, link: EdgeLink, log: Log) {
    this.#pinned = identity
    this.#identity = identity
    this.#link = link
    this.#log = log
  }

  /** The public key with this id, if a grant that it signs counts now. */
  accepted(kid: string, now_ms: number): string | undefined {
    const { edge, before } = this.#pinned
    if (kid === edge.kid) return edge.x
    return kid === before?.kid && now_ms < before.until_ms ? before.x : undefined
  }

  /** Asks the edge for its chain, once for all calls that wait for it. */
  learn(): Promise<void> {
    this.#asking ??= this.#ask().finally(() => {
      this.#asking = undefined
    })
    return this.#asking
  }

  async #ask(): Promise<void> {
    const keys = await this.#link.request('keys', { query: { tenant: this.#identity.tenant } })
    const followed = keys.ok ? this.follow(keys.value) : err(keys.error.detail)
    if (!followed.ok)
      this.#log.warn('the edge signs with a key to which no chain leads from the pinned one', {
        reason: followed.error,
      })
  }

  /** Pins the newest key of the chain, if the chain leads to it from the pinned key. */
  follow(keys: Keys): Result<void, string> {
    const followed = followedFrom(this.#pinned, keys)
    if (!followed.ok) return followed
    if (followed.value.edge.x === this.#pinned.edge.x) return ok(undefined)
    this.#pinned = followed.value
    this.#log.say('the edge has a new key', { edge_key: followed.value.edge.kid })
    const stored = storeEdge(this.#identity.path, followed.value)
    // The chain leads from the stored key to this one at the next start, too.
    if (!stored.ok) this.#log.warn('the edge’s new key could not be stored', { reason: stored.error })
    return ok(undefined)
  }
}
