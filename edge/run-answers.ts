// How humans' answers reach a call: who may give one, and what the policy of that moment makes of it. Whatever comes of an answer is one
// event of the call, applied by its run; no state is changed here.

import { failure } from '../shared/failures.ts'
import type { Result } from '../shared/result.ts'
import { err, ok } from '../shared/result.ts'
import type { Answer, Approval, Decision } from '../shared/wire.ts'
import type { Loaded } from './directory.ts'
import { directoryOf } from './directory.ts'
import type { Env } from './env.ts'
import type { Answered, CallRecord, Event } from './lifecycle.ts'
import { judgeAgain } from './proposal.ts'
import type { Booked, Ledger } from './run-ledger.ts'
import type { RunRow } from './run-record.ts'
import { approvalView } from './run-record.ts'
import type { RunStore } from './run-store.ts'

const NO_APPROVAL = failure('not_found', 'no such approval')

/** The run as it is at this moment, and its one commit point. */
type RunAccess = {
  row: () => RunRow | undefined
  commit: <T>(work: () => Result<T>) => Promise<Result<T>>
  apply: (record: CallRecord, event: Event) => Result<CallRecord>
}

export class Answers {
  readonly #env: Env
  readonly #store: RunStore
  readonly #ledger: Ledger
  readonly #run: RunAccess

  constructor(env: Env, store: RunStore, ledger: Ledger, run: RunAccess) {
    this.#env = env
    this.#store = store
    this.#ledger = ledger
    this.#run = run
  }

  approval(n: number): Result<Approval> {
    const [row, record] = [this.#run.row(), this.#store.call(n)]
    const view = row === undefined || record === undefined ? undefined : approvalView(row.record, record)
    return view === undefined ? err(NO_APPROVAL) : ok(view)
  }

  async answer(n: number, by: string, channel: string, answer: Answer): Promise<Result<Approval>> {
    const row = this.#run.row()
    if (row === undefined) return err(NO_APPROVAL)
    const directory = await directoryOf(this.#env, row.record.tenant)
    const booked = await this.#ledger.bookCall(directory, row.record, n)
    return this.#run.commit(() => {
      const record = this.#store.call(n)
      if (record === undefined || record.status.approval === null) return err(NO_APPROVAL)
      if (!directory.operators.has(by)) return err(failure('forbidden', 'you are no operator any more')) // P09: identity counts when the answer is given
      const given = { by, decision: answer.decision, channel, scope: answer.scope, reason: answer.reason, at_ms: Date.now() }
      const decision = this.judge(directory, record, [...record.status.approval.answers, given], booked)
      const done = this.#run.apply(record, { kind: 'answered', answer: given, decision })
      return done.ok ? this.approval(n) : done
    })
  }

  /** The policy of now on a known call, with these answers; what was in force is kept. */
  judge(directory: Loaded, record: CallRecord, answers: readonly Answered[], booked: Booked | null): Decision {
    const row = this.#run.row()
    if (row === undefined) throw new Error('this run does not exist')
    const { decision, snapshot } = judgeAgain(directory, row, record, this.#ledger.knowing(directory, row, record, answers, booked))
    if (snapshot !== null) this.#store.keepSnapshot(snapshot)
    return decision
  }
}
