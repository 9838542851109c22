// The tenant's quota of storage: whether there is room for more beside what its calls, files and skills
// store.

import type { Result } from '../../shared/result.ts'
import { ok } from '../../shared/result.ts'
import { type Env, logObject } from '../bindings.ts'
import { CallsStored, type Stored } from './calls-stored.ts'
import { type StorageRoom, type StorageStore, storageFull } from './storage-store.ts'
import type { TenancyStore } from './tenancy-store.ts'

/** The parts of the tenant's object that this needs. */
type TenantHome = {
  readonly ctx: DurableObjectState
  readonly env: Env
  readonly tenant: string
  readonly store: StorageStore
  readonly tenancy: TenancyStore
  isDeleted(): boolean
}

export class StorageQuota {
  readonly #home: TenantHome
  readonly #callsStored = new CallsStored(() => this.#ask())

  constructor(home: TenantHome) {
    this.#home = home
  }

  /** Whether the tenant may store more than it does. Rejects if its log does not answer (L6). */
  async room(): Promise<Result<true>> {
    const { all } = await this.#callsStored.current(Date.now())
    const quota = this.#quota()
    return all < quota ? ok(true) : storageFull(all, quota)
  }

  /** The same, as far as is known without a request. */
  hasRoom(): boolean {
    const all = this.#callsStored.known(Date.now())?.all
    return all !== undefined && all < (this.#home.tenancy.knownQuota?.storage_bytes ?? 0)
  }

  async forMore(): Promise<StorageRoom> {
    const { calls } = await this.#callsStored.current(Date.now())
    return { quota: this.#quota(), calls } // read last: the tenant may have been deleted
  }

  async held() {
    return this.#home.store.held((await this.#callsStored.current(Date.now())).calls)
  }

  /** Calls leave what the log counts, and approvals here: all bytes of this object but code of skills. */
  async #ask(): Promise<Stored> {
    const { ctx, env, tenant, store } = this.#home
    const log = this.#home.isDeleted() ? 0 : await logObject(env, tenant).storedBytes() // a request would make its log again
    const calls = log + Math.max(0, ctx.storage.sql.databaseSize - store.codeBytes())
    return { calls, all: store.held(calls).storage_bytes }
  }

  /** A call that is still running while its tenant is deleted must not leave anything behind. */
  #quota(): number {
    return this.#home.isDeleted() ? 0 : this.#home.tenancy.quota().storage_bytes
  }
}
