// The keys that may sign a log: those of the configuration, and those to which the edge's chain of keys
// leads from them. So a rotation at the edge needs nobody at the witness, and a key that the edge
// distrusts is trusted no longer.

import { EVIDENCE_BOUNDS, parseJson } from '../../shared/bytes/json.ts'
import { type Keys, keysFrom, readKeys } from '../../shared/evidence/keys.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { LearnedKeys, StateFolder } from './state-folder.ts'

/**
 * `origin`: of one log, or, if it ends in `/`, of all logs under it. `keys`: any of them may sign. `edge`:
 * the address at which its document of keys is read.
 */
export type WitnessedLog = {
  readonly origin: string
  readonly keys: readonly string[]
  readonly edge?: string | undefined
}

export class LogKeys {
  readonly #log: WitnessedLog
  readonly #state: StateFolder
  #learned: LearnedKeys
  #askedAt = Number.NEGATIVE_INFINITY

  constructor(log: WitnessedLog, state: StateFolder) {
    this.#log = log
    this.#state = state
    this.#learned = state.learned(log.origin) ?? { keys: [], distrusted: [] }
  }

  get trusted(): string[] {
    const { keys, distrusted } = this.#learned
    return [...this.#log.keys, ...keys].filter((x) => !distrusted.includes(x))
  }

  /**
   * Follows the chain of the tenant's document of keys. At most once in a while, because anybody may send
   * a checkpoint with an unknown signature. False if nothing was learned.
   */
  async learn(tenant: string, now: number): Promise<boolean> {
    const { edge } = this.#log
    if (edge === undefined || now < this.#askedAt + LIMITS.witness_keys_pause_ms) return false
    this.#askedAt = now
    const document = await readDocument(edge, tenant).catch(() => undefined)
    return document !== undefined && this.#follow(document)
  }

  #follow(document: Keys): boolean {
    const { keys, distrusted, root } = this.#learned
    const newest = keys.at(-1)
    // T03: from the newest key that was learned, if there is one, for an earlier one may have been stolen.
    for (const x of newest === undefined ? this.#log.keys : [newest]) {
      const led = keysFrom({ x, root }, document)
      if (!led.ok) continue
      const lost = led.value.all.filter(({ status }) => status === 'distrusted').map((key) => key.x)
      const learned = {
        keys: [...new Set([...keys, ...led.value.from.map((key) => key.x)])],
        distrusted: [...new Set([...distrusted, ...lost])],
        ...(led.value.root === undefined ? {} : { root: led.value.root }),
      }
      if (JSON.stringify(learned) === JSON.stringify(this.#learned)) return false
      this.#state.keepLearned(this.#log.origin, learned)
      this.#learned = learned
      return true
    }
    return false
  }
}

/** May throw what `fetch` throws. */
async function readDocument(edge: string, tenant: string): Promise<Keys | undefined> {
  const url = new URL('/.well-known/countersign/keys.json', edge)
  url.searchParams.set('tenant', tenant)
  const signal = AbortSignal.timeout(LIMITS.witness_keys_ms)
  const answer = await fetch(url, { redirect: 'error', signal })
  const chunks: Uint8Array[] = []
  let bytes = 0
  for await (const chunk of answer.ok ? (answer.body ?? []) : []) {
    bytes += chunk.byteLength
    if (bytes > LIMITS.body_bytes) return undefined
    chunks.push(chunk)
  }
  const parsed = parseJson(Buffer.concat(chunks), EVIDENCE_BOUNDS)
  const keys = parsed.ok ? readKeys(parsed.value) : parsed
  return keys.ok ? keys.value : undefined
}
