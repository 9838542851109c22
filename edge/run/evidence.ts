// What is kept of a call beside its record, for whoever may read it: its attestation, the policy snapshot it was decided under, the bytes
// that it brought and left. It changes no call.

import { BUNDLE_FORMAT, type Bundle } from '../../shared/evidence/bundle.ts'
import { seal } from '../../shared/evidence/dsse.ts'
import type { PolicySnapshot } from '../../shared/evidence/policy-snapshot.ts'
import { STATEMENT_TYPE } from '../../shared/evidence/statement.ts'
import { failure } from '../../shared/failures.ts'
import { attestationId } from '../../shared/ids.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { Env } from '../bindings.ts'
import { identityOf } from '../bindings.ts'
import type { CallRecord, Status } from '../call/lifecycle.ts'
import { hasEnded } from '../call/lifecycle.ts'
import { edgeStatement, finishedOf } from '../call/settlement.ts'
import { digestInput } from '../decision/proposal.ts'
import type { RunAccess } from './approval-answers.ts'
import type { RunStore } from './store.ts'
import { factsOf, filesOf } from './views.ts'

const NO_CALL = failure('not_found', 'no such call')
const NO_BYTES = failure('not_found', 'the file has had its time; the call names its digest')
const NO_SNAPSHOT = failure('not_found', 'the call was decided before snapshots were kept')

export class Evidence {
  readonly #env: Env
  readonly #store: RunStore
  readonly #run: RunAccess

  constructor(env: Env, store: RunStore, run: RunAccess) {
    this.#env = env
    this.#store = store
    this.#run = run
  }

  /** Where nothing ran, the edge is the executor: a denial, an expiry, a lost worker are attested too (L5). In the ending's transaction. */
  attested(record: CallRecord, before: Status | null, attest: boolean): CallRecord {
    const row = this.#run.row()
    const { proposal, status } = record
    if (!attest || !hasEnded(status) || row === undefined) return record
    const grant = before?.state === 'running' ? before.grant : null
    const statement = edgeStatement(
      attestationId(row.record.id, proposal.n),
      factsOf(row.record, record),
      status,
      grant,
    )
    this.#store.saveAttestation(
      proposal.n,
      seal(STATEMENT_TYPE, statement, identityOf(this.#env).signer),
      grant,
    )
    return { proposal, status: { ...status, attestation: finishedOf(statement).attestation } }
  }

  attestation(record: CallRecord | undefined): Result<Bundle> {
    const row = this.#run.row()
    if (row === undefined || record === undefined) return err(NO_CALL)
    const { n, tool, args, plan } = record.proposal
    const kept = this.#store.attestation(n)
    if (kept === undefined) return err(failure('not_found', 'no attestation yet: the call has not ended'))
    return ok({ format: BUNDLE_FORMAT, ...kept, call: digestInput(row.record, n, tool, args, plan) })
  }

  snapshot(record: CallRecord | undefined): Result<PolicySnapshot> {
    const text = record === undefined ? undefined : this.#store.snapshot(record.status.decision.snapshot)
    if (text === undefined) return err(record === undefined ? NO_CALL : NO_SNAPSHOT)
    return ok(JSON.parse(text) as PolicySnapshot) // written by `keepSnapshot`
  }

  file(record: CallRecord | undefined, digest: string): Result<{ path: string; bytes: Uint8Array }> {
    const named = record === undefined ? undefined : filesOf(record).find(({ sha256 }) => sha256 === digest)
    if (named === undefined) return err(failure('not_found', 'no such file of this call'))
    const bytes = this.#store.files.whole(digest)
    return bytes === undefined ? err(NO_BYTES) : ok({ path: named.path, bytes })
  }
}
