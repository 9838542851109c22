// Sends what has happened in the runs of an object, and the object's size, to the tenant's log and
// lists, and to the webhooks of their agents, in batches. A run's cursor into its journal says what the
// log has, so each entry arrives at least once.

import { objectOfRun } from '../../../shared/ids.ts'
import type { Env } from '../../bindings.ts'
import { logObject } from '../../bindings.ts'
import { isDeleted } from '../../directory/directory.ts'
import type { SizeReport } from '../../log/object-size-store.ts'
import { EMPTY_FILE_BYTES } from '../../platform/database.ts'
import { logError } from '../../platform/error-log.ts'
import type { RunContext } from '../context.ts'
import { reportToAgent } from '../outbox.ts'
import { Backoff } from './backoff.ts'
import type { ObjectStore } from './object-store.ts'

const DELAY_MS = 200
const RETRY_MS = 2_000
/** The most runs in one message, of which each has at most a page of entries. */
const AT_ONCE = 100

/** The part of the object's runs that this needs. */
type Runs = {
  readonly env: Env
  readonly store: Pick<ObjectStore, 'ownBytes'>
  useAll(ids: readonly string[], work: (runs: RunContext[]) => Promise<void>): Promise<void>
  arm(due: number): void
}

export class LogDelivery {
  readonly #runs: Runs
  readonly #waiting = new Set<string>()
  readonly #backoff = new Backoff()
  #isScheduled = false
  /** The size that this instance of the object last reported. */
  #reported = 0

  constructor(runs: Runs) {
    this.#runs = runs
  }

  awaits(run: string): boolean {
    return this.#waiting.has(run)
  }

  /** It sets no alarm: until a call ends, one is set for it anyway. */
  soon(run: string): void {
    this.#waiting.add(run)
    if (this.#isScheduled) return
    this.#isScheduled = true
    setTimeout(() => {
      this.#isScheduled = false
      void this.deliver([])
    }, DELAY_MS)
  }

  /** Delivers the news of these runs and of all that wait. The alarm tries again. */
  async deliver(others: readonly string[]): Promise<void> {
    const ids = this.#takeReady(others)
    let size = AT_ONCE
    let hasSent = false
    while (ids.length > 0) {
      const some = ids.slice(0, size)
      const failure = await this.#runs.useAll(some, (runs) => this.#send(runs)).catch(failed)
      if (failure === undefined) {
        for (const id of ids.splice(0, size)) this.#backoff.succeeded(id)
        hasSent = true
        size = Math.min(2 * size, AT_ONCE)
      } else if (some.length > 1)
        size = 1 // one of them may fail alone
      else {
        logError(failure.thrown)
        for (const id of ids.splice(0, 1)) this.#await(id, this.#backoff.failed(id, Date.now()))
        if (!hasSent) break // the log may be unreachable
        hasSent = false
      }
    }
    for (const id of ids) this.#await(id, Date.now() + RETRY_MS)
  }

  /** Takes the runs whose pause after a failure is over, or that have not failed. The former come last. */
  #takeReady(others: readonly string[]): string[] {
    const ids = [...new Set([...this.#waiting, ...others])]
    this.#waiting.clear()
    const [fresh, again]: [string[], string[]] = [[], []]
    for (const id of ids) {
      const until = this.#backoff.until(id)
      if (until === undefined) fresh.push(id)
      else if (until <= Date.now()) again.push(id)
      else this.#await(id, until)
    }
    return [...fresh, ...again]
  }

  #await(run: string, until: number): void {
    this.#waiting.add(run)
    this.#runs.arm(until)
  }

  async #send(runs: readonly RunContext[]): Promise<void> {
    const { env } = this.#runs
    const some = runs[0]?.row?.record
    if (some === undefined) return
    const { tenant, id } = some
    // A report that comes after the tenant was erased would make its log again.
    if (await isDeleted(env, tenant)) return
    const news = runs.flatMap((run) => run.outbox.news(run) ?? [])
    const size = this.#newSize(id)
    if (news.length === 0 && size === undefined) return
    await logObject(env, tenant).appendAll(
      news.map(({ append }) => append),
      size,
    )
    if (size !== undefined) this.#reported = size.live
    for (const each of news) await reportToAgent(each)
    for (const each of news) each.run.outbox.noteSent(each)
  }

  #newSize(run: string): SizeReport | undefined {
    const { ownBytes } = this.#runs.store
    return ownBytes === this.#reported ? undefined : { object: objectOfRun(run), live: ownBytes }
  }

  /**
   * Reports that the rows are in an archive, before they are removed here. If the object changes in the
   * meantime, its next delivery reports its size again.
   */
  async reportSealed(tenant: string, object: string, sealed: number): Promise<void> {
    await logObject(this.#runs.env, tenant).reportSize({ object, live: EMPTY_FILE_BYTES, sealed })
    this.#reported = 0
  }
}

const failed = (thrown: unknown): { readonly thrown: unknown } => ({ thrown })
