// Owns that what this worker counts on is tried anew: now and then, and when it is asked to. One try at a time. A try that breaks off has
// shown nothing: until another one ends, nothing is proven (L8). After it, and after one in which something failed, the next comes soon,
// then ever more rarely: a host may have been busy, or is mended. It tries nothing itself, and tells nobody.

import { LIMITS } from '../../shared/limits.ts'
import { faultOf } from '../host/error-report.ts'
import type { Log } from '../host/log.ts'
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
  /** Tries in a row in which something failed, and no more than the time before. */
  #fell: number
  #failed: number
  #timer: NodeJS.Timeout | undefined

  constructor(parts: Parts) {
    this.#parts = parts
    this.#proven = parts.first
    this.#failed = failuresIn(parts.first)
    this.#fell = this.#failed === 0 ? 0 : 1
    this.#rest()
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
    this.#rest()
  }

  async #try(): Promise<void> {
    const { prove, changed, log } = this.#parts
    try {
      this.#proven = await prove()
    } catch (error) {
      const fault = faultOf(error)
      log.warn('proving broke off by a fault of ours; nothing counts as proven until it succeeds', {
        ...fault,
      })
      this.#proven = nothingProven(
        this.#proven,
        `it could not be tried (${fault.code}); the worker’s log says where`,
      )
    }
    const failed = failuresIn(this.#proven)
    this.#fell = failed === 0 ? 0 : failed > this.#failed ? 1 : this.#fell + 1
    this.#failed = failed
    changed(this.#proven)
  }

  #rest(): void {
    const ms =
      this.#fell === 0 ? LIMITS.proof_every_ms : Math.min(LIMITS.proof_every_ms, AGAIN_MS * 2 ** this.#fell)
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => this.anew(), ms).unref()
  }
}

const failuresIn = ({ findings }: Proven): number => findings.filter(({ ok }) => !ok).length
