// Owns that what this worker counts on is tried anew: now and then, and when it is asked to. One try at a time. A try that breaks off has
// shown nothing: until another one ends, nothing is proven (L8). After it, and after one that showed less than there once was, the next
// comes soon: a host may have been busy, or is mended. It tries nothing itself, and tells nobody.

import { LIMITS } from '../shared/limits.ts'
import { faultOf } from './fault.ts'
import type { Log } from './log.ts'
import { nothingProven, type Proven } from './proof.ts'

const AGAIN_MS = 2_000

type Parts = {
  readonly first: Proven
  readonly prove: () => Promise<Proven>
  readonly changed: (proven: Proven) => void
  readonly log: Log
}

export class Proving {
  #proven: Proven
  readonly #parts: Parts
  #trying = false
  #asked = false
  /** Tries in a row that fell short of the best one. */
  #fell = 0
  #fewest: number
  #timer: NodeJS.Timeout | undefined

  constructor(parts: Parts) {
    this.#parts = parts
    this.#proven = parts.first
    this.#fewest = failuresIn(parts.first)
    this.#wait(LIMITS.proof_every_ms)
  }

  get proven(): Proven {
    return this.#proven
  }

  /** Whoever asks while one goes on has another one after it: the host may have been mended meanwhile. */
  anew(): void {
    this.#asked = true
    if (!this.#trying) void this.#tryAll()
  }

  stop(): void {
    clearTimeout(this.#timer)
    this.#asked = false
  }

  async #tryAll(): Promise<void> {
    this.#trying = true
    clearTimeout(this.#timer)
    while (this.#asked) {
      this.#asked = false
      await this.#try()
    }
    this.#trying = false
    this.#wait(Math.min(LIMITS.proof_every_ms, this.#fell === 0 ? Number.POSITIVE_INFINITY : AGAIN_MS * 2 ** this.#fell))
  }

  async #try(): Promise<void> {
    const { prove, changed, log } = this.#parts
    try {
      this.#proven = await prove()
      const failed = failuresIn(this.#proven)
      this.#fell = failed > this.#fewest ? this.#fell + 1 : 0
      this.#fewest = Math.min(failed, this.#fewest)
    } catch (error) {
      const fault = faultOf(error)
      log.warn('proving broke off by a fault of ours; nothing counts as proven until it succeeds', { ...fault })
      this.#proven = nothingProven(this.#proven, `it could not be tried (${fault.code}); the worker’s log says where`)
      this.#fell += 1
    }
    changed(this.#proven)
  }

  #wait(ms: number): void {
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => this.anew(), ms).unref()
  }
}

const failuresIn = ({ findings }: Proven): number => findings.filter(({ ok }) => !ok).length
