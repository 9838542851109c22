// The installation's requests to a tenant's object: `tenancy(env, tenant).govern(…)`.

import { RpcTarget } from 'cloudflare:workers'
import type { TenantUse } from '../../shared/wire/tenants.ts'
import type { InstallationOrder, TenancyStore } from './tenancy-store.ts'

type Tenant = { readonly streams: () => number; readonly erase: () => Promise<boolean> }

export class TenancyDesk extends RpcTarget {
  readonly #store: TenancyStore
  readonly #tenant: Tenant

  constructor(store: TenancyStore, tenant: Tenant) {
    super()
    this.#store = store
    this.#tenant = tenant
  }

  async govern(order: InstallationOrder): Promise<void> {
    this.#store.govern(order)
  }

  async use(): Promise<TenantUse> {
    return this.#store.use(Date.now(), this.#tenant.streams())
  }

  /** Erases a deleted tenant. Returns `false` if there is more to remove, so call it again. */
  async erase(): Promise<boolean> {
    return this.#tenant.erase()
  }
}
