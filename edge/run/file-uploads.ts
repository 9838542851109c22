// Who puts files into a run, and when they go: the tenant is asked for room before any is taken, and told when there is less. What may be
// put is for each door to say; the bytes are the store's.

import type { Failure } from '../../shared/failures.ts'
import { failure } from '../../shared/failures.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { Env } from '../bindings.ts'
import { tenantObject } from '../bindings.ts'
import type { RunAccess } from './approval-answers.ts'
import type { RunStore } from './store.ts'

type Put = Result<{ sha256: string; bytes: number }>

const UNASKED = failure('unavailable', 'it could not be asked whether there is room for the file; try again')

export class RunFiles {
  readonly #env: Env
  readonly #store: RunStore
  readonly #run: RunAccess
  readonly #arm: (due: number) => void
  #turn: Promise<unknown> = Promise.resolve()
  /** When the tenant heard last what the run holds, in the life of this object. */
  #toldAt = 0
  #less = false

  constructor(env: Env, store: RunStore, run: RunAccess, arm: (due: number) => void) {
    this.#env = env
    this.#store = store
    this.#run = run
    this.#arm = arm
  }

  /** One after the other, so that what the tenant is told is what the run comes to. `refusal` is asked before and behind that. */
  put(refusal: () => Failure | undefined, digest: string, bytes: Uint8Array): Promise<Put> {
    const put = this.#turn.then(() => this.#put(refusal, digest, bytes))
    this.#turn = put.catch(() => undefined)
    return put
  }

  async #put(refusal: () => Failure | undefined, digest: string, bytes: Uint8Array): Promise<Put> {
    const first = refusal()
    if (first !== undefined) return err(first)
    const { files } = this.#store
    const fits = files.fits(digest, bytes)
    if (!fits.ok) return fits
    const room = await this.#tell(fits.value)
    if (!room.ok) return room
    const put = await this.#run.commit((): Put => {
      const still = refusal()
      return still === undefined ? ok(files.put(digest, bytes, Date.now())) : err(still)
    })
    const next = files.nextDue()
    if (next !== null) this.#arm(next)
    if (!put.ok) await this.#tell(files.held().bytes)
    return put
  }

  /** What has had its time goes: in a commit, behind which it is told. */
  drop(now: number): void {
    if (this.#store.files.dropDue(now)) this.#less = true
  }

  /** Less, or once more that there are some: an account of which nobody is heard closes by itself. */
  tell(): Promise<void> {
    const told = this.#turn.then(async () => {
      const { count, bytes } = this.#store.files.held()
      const again = count > 0 && this.#toldAt + LIMITS.file_unnamed_ms < Date.now()
      if ((this.#less || again) && (await this.#tell(bytes)).ok) this.#less = false
    })
    this.#turn = told.catch(() => undefined)
    return told
  }

  async #tell(bytes: number): Promise<Result<true>> {
    const row = this.#run.row()
    if (row === undefined) throw new Error('this run does not exist')
    const { tenant, id, agent } = row.record
    const told = await tenantObject(this.#env, tenant)
      .holdFiles(id, agent, bytes)
      .catch(() => err(UNASKED))
    if (told.ok) this.#toldAt = Date.now()
    return told
  }
}
