// The installation's requests to a tenant's object: `tenancy(env, tenant).govern(…)`.

import { RpcTarget } from 'cloudflare:workers'
import type { TenantUse } from '../../shared/wire/tenants.ts'
import { type Env, identityOf, logObject } from '../bindings.ts'
import { localGatekeepers } from '../directory/directory.ts'
import { eraseObject } from '../platform/database.ts'
import type { StreamSlots } from '../platform/stream-slots.ts'
import { eraseOthers } from './erasure.ts'
import type { ExportTargetStore } from './export-target-store.ts'
import type { Retention } from './retention-store.ts'
import type { StorageStore } from './storage-store.ts'
import type { InstallationOrder, TenancyStore } from './tenancy-store.ts'

/** The parts of the tenant's object that its erasure needs. */
type TenantHome = {
  readonly ctx: DurableObjectState
  readonly env: Env
  readonly tenant: string
  readonly exportTarget: ExportTargetStore
}

export class InstallationRequests extends RpcTarget {
  readonly #store: TenancyStore
  readonly #held: () => Promise<ReturnType<StorageStore['held']>>
  readonly #followers: StreamSlots
  readonly #retention: Retention
  readonly #home: TenantHome

  constructor(
    store: TenancyStore,
    held: () => Promise<ReturnType<StorageStore['held']>>,
    followers: StreamSlots,
    retention: Retention,
    home: TenantHome,
  ) {
    super()
    this.#store = store
    this.#held = held
    this.#followers = followers
    this.#retention = retention
    this.#home = home
  }

  async govern(order: InstallationOrder): Promise<void> {
    this.#store.govern(order)
  }

  async use(): Promise<TenantUse> {
    const now = Date.now()
    const counts = await logObject(this.#home.env, this.#home.tenant).counts()
    const held = await this.#held()
    const { vaultId: vault_key } = identityOf(this.#home.env) // this object has sealed its secrets under it when it opened
    return { ...this.#store.use(now), ...held, streams: this.#followers.open(now), ...counts, vault_key }
  }

  /** The runs of a deleted tenant are removed without an export from now on. */
  async forgoExport(): Promise<void> {
    if (this.#store.state() === 'deleted') this.#home.exportTarget.forgo()
  }

  /** How many legal holds there are: a tenant under hold is not deleted. */
  async holds(): Promise<number> {
    return (await this.#retention.holds()).length
  }

  /**
   * Erases the other objects of a deleted tenant, then the tenant's own. Returns `false` if there
   * is more to remove: a large tenant takes several calls.
   */
  async erase(): Promise<boolean> {
    const { ctx, env, tenant } = this.#home
    if (this.#store.state() !== 'deleted') throw new Error('only a deleted tenant is erased')
    if (!(await eraseOthers(env, tenant, this.#store.objectNames()))) return false
    localGatekeepers.delete(tenant)
    await eraseObject(ctx)
    return true
  }
}
