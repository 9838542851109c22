// Sends what has happened in the runs of an object to the tenant's log and lists, and to the
// webhooks of their agents, in batches. A run's cursor into its journal says what the log has, so each
// entry arrives at least once.

import type { Env } from '../../bindings.ts'
import { logObject } from '../../bindings.ts'
import { isDeleted } from '../../directory/directory.ts'
import type { RunContext } from '../context.ts'
import { reportToAgent } from '../outbox.ts'

const DELAY_MS = 200
const RETRY_MS = 2_000
/** The most runs in one message, of which each has at most a page of entries. */
const AT_ONCE = 100

/** The part of the object's runs that this needs. */
type Runs = {
  readonly env: Env
  useAll(ids: readonly string[], work: (runs: RunContext[]) => Promise<void>): Promise<void>
  arm(due: number): void
}

export class LogDelivery {
  readonly #runs: Runs
  readonly #waiting = new Set<string>()
  #isScheduled = false

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
    const ids = [...new Set([...this.#waiting, ...others])]
    this.#waiting.clear()
    for (let i = 0; i < ids.length; i += AT_ONCE) {
      const some = ids.slice(i, i + AT_ONCE)
      await this.#runs
        .useAll(some, (runs) => this.#send(runs))
        .catch(() => {
          for (const id of some) this.#waiting.add(id)
          this.#runs.arm(Date.now() + RETRY_MS)
        })
    }
  }

  async #send(runs: readonly RunContext[]): Promise<void> {
    const { env } = this.#runs
    const tenant = runs[0]?.row?.record.tenant
    if (tenant === undefined) return
    // A report that comes after the tenant was erased would make its log again.
    if (await isDeleted(env, tenant)) return
    const news = runs.flatMap((run) => run.outbox.news(run) ?? [])
    if (news.length === 0) return
    await logObject(env, tenant).appendAll(news.map(({ append }) => append))
    for (const each of news) await reportToAgent(each)
    for (const each of news) each.run.outbox.noteSent(each)
  }
}
