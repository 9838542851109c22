// Delivers the entries of the tenant's journals to its log, where each is a leaf. At least once: the
// log knows entries by their numbers.

import type { Env } from '../bindings.ts'
import { logObject } from '../bindings.ts'
import type { Alarm } from '../platform/alarm.ts'
import type { StoredEntry } from '../platform/chained-journal.ts'

export type LoggedJournal = {
  /** The source of the leaves in the log. */
  readonly source: string
  /** The first entries that the log has not accepted. */
  unlogged(): readonly Omit<StoredEntry, 'body'>[]
  logged(last: number): void
}

const DELAY_MS = 200
const RETRY_MS = 2_000

export class LogDelivery {
  readonly #journals: readonly LoggedJournal[]
  readonly #env: Env
  readonly #tenant: string
  readonly #alarm: Alarm

  constructor(env: Env, tenant: string, alarm: Alarm, journals: readonly LoggedJournal[]) {
    this.#env = env
    this.#tenant = tenant
    this.#alarm = alarm
    this.#journals = journals
  }

  /** Sets the alarm in the same commit as the change, and returns what the change returned. */
  soon<T>(done: T): T {
    this.#alarm.arm(Date.now() + DELAY_MS)
    return done
  }

  /** Called by the alarm. */
  async send(): Promise<void> {
    await Promise.all(this.#journals.map((journal) => this.#sendOne(journal)))
  }

  async #sendOne(journal: LoggedJournal): Promise<void> {
    const rows = journal.unlogged()
    const last = rows.at(-1)?.seq
    if (last === undefined) return
    const about = { call: '', agent: '', tool: '', took: 0, shadow: null }
    const leaves = rows.map(({ seq, hash, kind, at }) => ({ seq, hash, state: kind, at, ...about }))
    try {
      await logObject(this.#env, this.#tenant).append(journal.source, leaves)
    } catch {
      return this.#alarm.arm(Date.now() + RETRY_MS)
    }
    journal.logged(last)
    if (journal.unlogged().length > 0) this.soon(null)
  }
}
