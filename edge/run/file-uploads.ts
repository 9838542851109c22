// Uploads files into a run and removes expired ones. It reserves room in the tenant's quota before
// storing bytes, and reports when the run holds fewer. The caller checks who may upload.

import type { Failure } from '../../shared/failures.ts'
import { failure } from '../../shared/failures.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import { tenantObject } from '../bindings.ts'
import type { RunContext } from './context.ts'
import type { RunTransaction } from './transaction.ts'

export type StoredFile = { sha256: string; bytes: number }
/** The reason to refuse an upload now; undefined if it may proceed. */
export type UploadCheck = () => Failure | undefined

const UNREACHABLE = failure('unavailable', 'the tenant’s file quota could not be checked; try again')

export class FileUploads {
  #queue: Promise<unknown> = Promise.resolve()
  /** When this object last reported to the tenant how much the run holds. */
  #reportedAt = 0
  #holdsLess = false

  /**
   * Uploads run one after the other, so that the total reported to the tenant is right. `refusal`
   * is checked when the upload's turn comes, and again when the bytes are stored.
   */
  put(run: RunContext, refusal: UploadCheck, digest: string, bytes: Uint8Array): Promise<Result<StoredFile>> {
    const put = this.#queue.then(() => this.#put(run, refusal, digest, bytes))
    this.#queue = put.catch(() => undefined)
    return put
  }

  async #put(
    run: RunContext,
    refusal: UploadCheck,
    digest: string,
    bytes: Uint8Array,
  ): Promise<Result<StoredFile>> {
    const refused = refusal()
    if (refused !== undefined) return err(refused)
    const { files } = run.store
    const total = files.fits(digest, bytes)
    if (!total.ok) return total
    const room = await this.#reserve(run, total.value)
    if (!room.ok) return room
    const put = await run.transact((tx): Result<StoredFile> => {
      const refusedNow = refusal()
      return refusedNow === undefined ? ok(tx.putFile(digest, bytes)) : err(refusedNow)
    })
    const next = files.nextDue()
    if (next !== null) run.arm(next)
    if (!put.ok) await this.#reserve(run, files.held().bytes)
    return put
  }

  /** Removes expired files. After the commit, `report` tells the tenant about the new total. */
  dropDue(tx: RunTransaction, now: number): void {
    if (tx.dropFiles(now)) this.#holdsLess = true
  }

  /**
   * Reports a smaller total, or repeats the current one: the tenant closes the account of a run
   * that reports nothing.
   */
  report(run: RunContext): Promise<void> {
    const reported = this.#queue.then(async () => {
      const { count, bytes } = run.store.files.held()
      const isStale = count > 0 && this.#reportedAt + LIMITS.file_unnamed_ms < Date.now()
      if ((this.#holdsLess || isStale) && (await this.#reserve(run, bytes)).ok) this.#holdsLess = false
    })
    this.#queue = reported.catch(() => undefined)
    return reported
  }

  async #reserve(run: RunContext, bytes: number): Promise<Result<true>> {
    if (run.row === undefined) throw new Error('this run does not exist')
    const { tenant, id, agent } = run.row.record
    const held = await tenantObject(run.env, tenant)
      .holdFiles(id, agent, bytes)
      .catch(() => err(UNREACHABLE))
    if (held.ok) this.#reportedAt = Date.now()
    return held
  }
}
