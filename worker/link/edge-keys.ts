// The edge keys whose grants this worker accepts. It learns a new one only by the chain from the key
// that it has pinned: every link is signed by the key before it, so it doesn't matter who answered.

import type { KeyEntry, Keys } from '../../shared/evidence/keys.ts'
import { keysFrom } from '../../shared/evidence/keys.ts'
import { err, ok, type Result } from '../../shared/result.ts'
import type { Log } from '../host/log.ts'
import type { EdgeLink, Patience } from './client.ts'
import { type Identity, type PinnedEdge, storeEdge } from './identity.ts'

/** The newest key, the one before it while its signatures count, and the root of the next link. */
export function followedFrom(pinned: PinnedEdge, keys: Keys): Result<PinnedEdge, string> {
  const led = keysFrom({ x: pinned.edge.x, root: pinned.root }, keys)
  if (!led.ok) return led
  const [newest = pinned.edge, before] = led.value.from.toReversed()
  return ok({
    edge: { kid: newest.kid, x: newest.x },
    before: before === undefined ? pinned.before : whileItCounts(before),
    root: led.value.root,
  })
}

const whileItCounts = ({ kid, x, status, until_ms }: KeyEntry): PinnedEdge['before'] =>
  status === 'retired' && until_ms !== null ? { kid, x, until_ms } : undefined

export class EdgeKeys {
  #pinned: PinnedEdge
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

  /** Asks the edge for its chain until it answers. */
  async learn(patience: Patience): Promise<void> {
    const keys = await this.#link.requestUntilFinal(
      'keys',
      { query: { tenant: this.#identity.tenant } },
      patience,
    )
    const followed = keys.ok ? this.follow(keys.value) : err(keys.error.detail)
    if (!followed.ok)
      this.#log.warn('the key that signs the edge’s grants could not be learned', {
        reason: followed.error,
      })
  }

  /** Pins the newest key of the chain, if the chain leads to it from the pinned key. */
  follow(keys: Keys): Result<void, string> {
    const followed = followedFrom(this.#pinned, keys)
    if (!followed.ok) return followed
    const { edge, root } = followed.value
    if (edge.x === this.#pinned.edge.x && root === this.#pinned.root) return ok(undefined)
    if (edge.x !== this.#pinned.edge.x) this.#log.say('the edge has a new key', { edge_key: edge.kid })
    this.#pinned = followed.value
    const stored = storeEdge(this.#identity.path, followed.value)
    // The chain leads from the stored key to this one at the next start, too.
    if (!stored.ok) this.#log.warn('the edge’s new key or root could not be stored', { reason: stored.error })
    return ok(undefined)
  }
}
