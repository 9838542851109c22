// Schedules probes of the sandboxes: periodically and on demand, one at a time. A probe that breaks
// off leaves nothing proven until the next one succeeds (L8). After a failure the next probe comes
// soon, then with exponential backoff, since the host may have been busy or may be repaired.

import { LIMITS } from '../../shared/limits.ts'
import { errorReport } from '../host/error-report.ts'
import type { Log } from '../host/log.ts'
import { nothingProven, type ProvenSandbox } from './proof.ts'

const RETRY_MS = 2_000

type Parts = {
  readonly first: ProvenSandbox
  readonly prove: () => Promise<ProvenSandbox>
  readonly changed: (proven: ProvenSandbox) => void
  readonly log: Log
}

export class ProofSchedule {
  #proven: ProvenSandbox
  readonly #parts: Parts
  #probing = false
  #requested = false
  /** Probes in a row with failures, counted again from 1 when the number of failures grows. */
  #failedInARow: number
  #failed: number
  #timer: NodeJS.Timeout | undefined

  constructor(parts: Parts) {
    this.#parts = parts
    this.#proven = parts.first
    this.#failed = failuresIn(parts.first)
    this.#failedInARow = this.#failed === 0 ? 0 : 1
    this.#schedule()
  }

  get proven(): ProvenSandbox {
    return this.#proven
  }

  /**
   * Probes now, or once more after a running probe, since the host may have been repaired during
   * it.
   */
  probeNow(): void {
    this.#requested = true
    if (!this.#probing) void this.#probeAll()
  }

  stop(): void {
    clearTimeout(this.#timer)
    this.#requested = false
  }

  async #probeAll(): Promise<void> {
    this.#probing = true
    clearTimeout(this.#timer)
    while (this.#requested) {
      this.#requested = false
      await this.#probe()
    }
    this.#probing = false
    this.#schedule()
  }

  async #probe(): Promise<void> {
    const { prove, changed, log } = this.#parts
    try {
      this.#proven = await prove()
    } catch (error) {
      const fault = errorReport(error)
      log.warn('a bug in the worker ended a probe; nothing counts as proven until a probe succeeds', {
        ...fault,
      })
      this.#proven = nothingProven(
        this.#proven,
        `a bug in the worker ended the probe (${fault.code}); the worker’s log says where`,
      )
    }
    const failed = failuresIn(this.#proven)
    this.#failedInARow = failed === 0 ? 0 : failed > this.#failed ? 1 : this.#failedInARow + 1
    this.#failed = failed
    changed(this.#proven)
  }

  #schedule(): void {
    const ms =
      this.#failedInARow === 0
        ? LIMITS.proof_every_ms
        : Math.min(LIMITS.proof_every_ms, RETRY_MS * 2 ** this.#failedInARow)
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => this.probeNow(), ms).unref()
  }
}

const failuresIn = ({ findings }: ProvenSandbox): number => findings.filter(({ ok }) => !ok).length
