// The TenantObject's RPC target for upstreams: `tenantUpstreams(env, tenant).look(…)`. It is the one
// place that looks at servers, so that concurrent calls share a look.

import { RpcTarget } from 'cloudflare:workers'
import type { Json } from '../../shared/bytes/json.ts'
import type { JournalEntry } from '../../shared/evidence/journal.ts'
import { failure } from '../../shared/failures.ts'
import { RESERVED_TOOL_PREFIX } from '../../shared/ids.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type {
  Upstream,
  UpstreamAcceptance,
  UpstreamDiff,
  UpstreamEntry,
  UpstreamSpec,
  UpstreamTool,
  UpstreamWithTools,
} from '../../shared/wire/upstreams.ts'
import { type Env, outboundNetwork } from '../bindings.ts'
import { directoryOf } from '../directory/directory.ts'
import type { ListedUpstream } from '../directory/gatekeeper.ts'
import { faultInAddress } from '../platform/outbound-fetch.ts'
import type { Era } from '../upstreams/client.ts'
import { lookAt } from '../upstreams/look.ts'
import { checkServer } from '../upstreams/server-spec.ts'
import type { Journal } from './journal-store.ts'
import type { LogDelivery } from './log-delivery.ts'
import type { UpstreamStore } from './upstream-store.ts'

/** Tools of our own begin with it. */
const RESERVED = RESERVED_TOOL_PREFIX.slice(0, -1)

type Place = { readonly env: Env; readonly tenant: string }
type Looked = { readonly revision: number; readonly at: number; readonly era: Era }

export class UpstreamRegistry extends RpcTarget {
  readonly #store: UpstreamStore
  readonly #journal: Journal<UpstreamEntry>
  readonly #env: Env
  readonly #tenant: string
  readonly #delivery: LogDelivery
  readonly #looked = new Map<string, Looked>()
  readonly #underWay = new Map<string, Promise<Result<Era, string>>>()

  constructor(
    store: UpstreamStore,
    journal: Journal<UpstreamEntry>,
    delivery: LogDelivery,
    { env, tenant }: Place,
  ) {
    super()
    this.#store = store
    this.#journal = journal
    this.#delivery = delivery
    this.#env = env
    this.#tenant = tenant
  }

  // ── Operators ──

  async put(name: string, spec: UpstreamSpec, by: string): Promise<Result<Upstream>> {
    if (name === RESERVED)
      return err(
        failure('invalid_request', `\`${RESERVED}\` is reserved for our own tools; choose another name`),
      )
    if (spec.kind === 'stdio') {
      const fits = checkServer(spec)
      return fits.ok ? this.#store.put(name, spec, by) : fits
    }
    const { standIns } = outboundNetwork(this.#env)
    const addresses = [spec.url, ...(spec.auth?.kind === 'client_credentials' ? [spec.auth.token_url] : [])]
    const fault = addresses
      .map((address) => faultInAddress(address, standIns !== undefined))
      .find((why) => why !== undefined)
    if (fault !== undefined)
      return err(failure('invalid_request', `${fault}; write \`https://mcp.example.com/mcp\``))
    return this.#delivery.soon(this.#store.put(name, spec, by))
  }
  async list(): Promise<Upstream[]> {
    return this.#store.list()
  }
  async read(name: string) {
    return this.#store.read(name)
  }
  async remove(name: string, by: string): Promise<Result<{ done: true }>> {
    return this.#delivery.soon(this.#store.remove(name, by))
  }
  async entries(after: number): Promise<JournalEntry[]> {
    return this.#journal.page(after)
  }
  async diff(name: string, tool: string): Promise<Result<UpstreamDiff>> {
    return this.#store.diff(name, tool)
  }
  async accept(
    name: string,
    tool: string,
    acceptance: UpstreamAcceptance,
    by: string,
  ): Promise<Result<UpstreamTool>> {
    return this.#delivery.soon(this.#store.accept(name, tool, acceptance, by))
  }
  async withdraw(name: string, tool: string, by: string): Promise<Result<UpstreamTool>> {
    return this.#delivery.soon(this.#store.withdraw(name, tool, by))
  }
  async refresh(name: string) {
    const known = this.#store.read(name)
    if (!known.ok) return known
    const looked = await this.#look(name, null)
    return looked.ok
      ? this.#store.read(name)
      : err(failure('unavailable', `the upstream could not be read: ${looked.error}`))
  }

  /** The tools that a worker has listed, of this revision of the upstream. */
  async sawList(name: string, revision: number, tools: readonly Json[]): Promise<Result<UpstreamWithTools>> {
    const compared = this.#store.saw(name, revision, { era: 'legacy', tools })
    return compared.ok ? this.#store.read(name) : compared
  }
  async couldNotList(name: string, revision: number, why: string): Promise<void> {
    this.#store.failed(name, revision, why)
  }

  // ── Calls ──

  /** A worker refused a call, because its server shows another definition of the tool. */
  async differed(name: string, tool: string, definition: string): Promise<void> {
    this.#store.differed(name, tool, definition)
  }

  /**
   * The protocol of an upstream whose tools were compared recently enough; compares them first if
   * they were not. `again`: whatever is known of the protocol is wrong.
   */
  async look(name: string, again = false): Promise<Result<Era, string>> {
    const upstream = this.#store.address(name)
    if (upstream === undefined) return err('the upstream was removed')
    if (upstream.spec.kind !== 'http') return err('the upstream is now a server that a worker starts')
    const known = this.#looked.get(name)
    const isKnown = known !== undefined && known.revision === upstream.revision && !again
    const age = isKnown ? Date.now() - known.at : Number.POSITIVE_INFINITY
    if (isKnown && age < (upstream.spec.look_ms ?? LIMITS.upstream_look_ms)) return ok(known.era)
    const first = await this.#look(name, isKnown ? known.era : null)
    return first.ok || !isKnown ? first : this.#look(name, null) // the server may speak another protocol now
  }

  /** The server says that its tools have changed: the next call looks first. */
  async changed(name: string): Promise<void> {
    const known = this.#looked.get(name)
    if (known !== undefined) this.#looked.set(name, { ...known, at: 0 })
  }

  listed(): ListedUpstream[] {
    return this.#store.listed()
  }

  async #look(name: string, era: Era | null): Promise<Result<Era, string>> {
    const underWay = this.#underWay.get(name)
    if (underWay !== undefined) return underWay
    const look = this.#lookNow(name, era).finally(() => this.#underWay.delete(name))
    this.#underWay.set(name, look)
    return look
  }

  async #lookNow(name: string, era: Era | null): Promise<Result<Era, string>> {
    const upstream = this.#store.address(name)
    if (upstream?.spec.kind !== 'http') return err('the upstream was removed')
    const at = Date.now() // what changes while we read is found by the next look
    const directory = await directoryOf(this.#env, this.#tenant)
    const found = await lookAt(this.#env, directory, { name, ...upstream.spec }, era)
    if (!found.ok) {
      this.#store.failed(name, upstream.revision, found.error)
      return found
    }
    const compared = this.#store.saw(name, upstream.revision, found.value)
    if (!compared.ok) return err('the upstream was changed in the meantime')
    if (this.#journal.unlogged().length > 0) this.#delivery.soon(null)
    this.#looked.set(name, { revision: upstream.revision, at, era: found.value.era })
    return ok(found.value.era)
  }
}
