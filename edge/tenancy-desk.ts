// What the installation asks of a tenant's object: `tenancy(env, tenant).govern(…)`. And the one thing that runs ask by the same way: to
// count a proposal.

import { RpcTarget } from 'cloudflare:workers'
import type { Result } from '../shared/result.ts'
import type { TenantUse } from '../shared/tenants.ts'
import type { Order, TenancyStore } from './tenancy-store.ts'

export class TenancyDesk extends RpcTarget {
  readonly #store: TenancyStore
  readonly #streams: () => number

  constructor(store: TenancyStore, streams: () => number) {
    super()
    this.#store = store
    this.#streams = streams
  }

  async govern(order: Order): Promise<void> {
    this.#store.govern(order)
  }

  async takeCall(): Promise<Result<true>> {
    return this.#store.takeCall(Date.now())
  }

  async use(): Promise<TenantUse> {
    return this.#store.use(Date.now(), this.#streams())
  }
}
