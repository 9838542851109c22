// One tenant: principals, tools, policies, workers, secrets, skills and the operators' inbox. Every
// change increments the directory's version, so that no isolate serves from an outdated cache. It
// decides nothing about calls.

import { DurableObject } from 'cloudflare:workers'
import migrations from '../../migrations/tenant/migrations.js'
import schemas from '../../migrations/tenant/schemas.json' with { type: 'json' }
import type { Envelope } from '../../shared/evidence/dsse.ts'
import type { SignatureInput } from '../../shared/evidence/http-signature.ts'
import { type FieldError, failure } from '../../shared/failures.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { Tier } from '../../shared/plan/plan.ts'
import { err, ok, type Result } from '../../shared/result.ts'
import type { PolicyVersion } from '../../shared/routes/policies.ts'
import type { Approval, ListedApproval, Standing } from '../../shared/wire/approvals.ts'
import type { IssuerSpec } from '../../shared/wire/issuers.ts'
import type { AgentSpec, OperatorSpec } from '../../shared/wire/principals.ts'
import type { Secret, SecretSpec } from '../../shared/wire/secrets.ts'
import type { TenantUsage } from '../../shared/wire/tenants.ts'
import type { Tool, ToolSpec } from '../../shared/wire/tools.ts'
import type { UpstreamEntry } from '../../shared/wire/upstreams.ts'
import type { ProvenWorker } from '../../shared/wire/workers.ts'
import { DEFAULT_TENANT, type Env, identityOf, outboundNetwork } from '../bindings.ts'
import { localGatekeepers, SUSPENDED } from '../directory/directory.ts'
import type { Directory } from '../directory/gatekeeper.ts'
import type { SealedTarget } from '../export/target.ts'
import { TENANT_JOURNAL, UPSTREAM_JOURNAL } from '../log/log-object.ts'
import { Alarm } from '../platform/alarm.ts'
import { openDatabase } from '../platform/database.ts'
import { type InboxStream, StreamSlots } from '../platform/stream-slots.ts'
import { DEFAULTS } from '../policy/built-in.ts'
import { Sealing } from '../secrets/sealing.ts'
import { type FetchedKeys, KeySource } from '../tokens/key-source.ts'
import type { EnrolledWorker, HeartbeatSender } from '../workers/request-freshness.ts'
import { RequestFreshness, WORKER_IN_USE } from '../workers/request-freshness.ts'
import { ConsoleSessions } from './console-session-store.ts'
import { ExportTargetStore } from './export-target-store.ts'
import { type Changes, type InboxPage, type InboxQuery, InboxStore, type ListQuery } from './inbox-store.ts'
import { InstallationRequests } from './installation-requests.ts'
import { type IssuerRecord, IssuerStore } from './issuer-store.ts'
import {
  type EntryAhead,
  Journal,
  type RecordedChange,
  recording,
  type TenantEntry,
} from './journal-store.ts'
import { LogDelivery } from './log-delivery.ts'
import type { ApprovalMetrics } from './metrics.ts'
import type { CheckedVersion, Expected, PolicyPut, StoredPolicySet } from './policy-store.ts'
import { PolicyStore } from './policy-store.ts'
import { type AgentRecord, type PrincipalRecord, PrincipalStore } from './principal-store.ts'
import { Retention } from './retention-store.ts'
import { resealAll, SecretStore } from './secret-store.ts'
import { SkillJournal } from './skills/journal-store.ts'
import { SkillRegistry } from './skills/skill-registry.ts'
import { StandingIndex } from './standing-index-store.ts'
import { StorageQuota } from './storage-quota.ts'
import { StorageStore } from './storage-store.ts'
import { meta, tenantJournal, upstreamJournal } from './tables.ts'
import { TenancyStore } from './tenancy-store.ts'
import { ToolStore } from './tool-store.ts'
import { UpstreamRegistry } from './upstream-registry.ts'
import { UpstreamStore } from './upstream-store.ts'
import { WorkerStore } from './worker-store.ts'

const NO_WORKER = failure('not_found', 'no such worker')
/** A part of the directory, which one store reads. */
type Part = Exclude<keyof Directory, 'tenant' | 'version'>

/** Seen nonces outlive the object: workerd may restart it within this process. */
const freshnessByTenant = new Map<string, RequestFreshness>()

export class TenantObject extends DurableObject<Env> {
  readonly #db = openDatabase(this.ctx, { migrations, schemas })
  readonly #alarm = new Alarm(this.ctx.storage, () => null)
  readonly #skillJournal = new SkillJournal(this.#db)
  readonly #upstreamJournal = new Journal<UpstreamEntry>(this.#db, UPSTREAM_JOURNAL, upstreamJournal)
  readonly #journal = new Journal<TenantEntry[0]>(this.#db, TENANT_JOURNAL, tenantJournal)
  readonly #delivery = new LogDelivery(this.env, this.#tenant, this.#alarm, [
    this.#skillJournal,
    this.#upstreamJournal,
    this.#journal,
  ])
  /** Records a change of what the directory does not contain. */
  readonly #note = recording(this.#journal, this.#delivery, (write) =>
    this.ctx.storage.transactionSync(write),
  )
  readonly #policySets = new PolicyStore(this.#db, this.#recording('policies', 'shadow'))
  readonly #principals = new PrincipalStore(this.#db, this.#recording('agents', 'operators'))
  readonly #sealing = new Sealing(identityOf(this.env).vaultKeys, this.#tenant)
  readonly #secrets = new SecretStore(this.#db, this.#recording('secrets', 'formerSecrets'))
  readonly #exportTarget = new ExportTargetStore(this.#db, this.#note)
  readonly #issuers = new IssuerStore(this.#db, this.#recording('issuers'))
  readonly #issuerKeys = new KeySource(outboundNetwork(this.env))
  readonly #tools = new ToolStore(
    this.#db,
    this.#recording('tools'),
    (write) => this.#change(write),
    this.#policySets,
  )
  readonly #skills = new SkillRegistry(
    this.#db,
    (write) => this.#change(write),
    this.#tools,
    this.#skillJournal,
    this.#delivery,
    async () => {
      const room = await this.#quota.forMore()
      return (bytes) => this.#storage.holdForSkill(null, bytes, room)
    },
  )
  readonly #upstreams = new UpstreamRegistry(
    new UpstreamStore(this.#db, (write) => this.#change(write), this.#tools, this.#upstreamJournal),
    this.#upstreamJournal,
    this.#delivery,
    { env: this.env, tenant: this.#tenant },
  )
  readonly #standing = new StandingIndex(this.#db)
  readonly #workers = new WorkerStore(this.#db, this.#recording('workers'), (write) =>
    this.#change(write, ['workers']),
  )
  readonly #console = new ConsoleSessions(this.#db)
  readonly #inbox = new InboxStore(this.#db)
  readonly #storage = new StorageStore(this.#db)
  readonly #retention = new Retention(this.#db, this.#note, this.#journal, this.#alarm, this.#inbox, {
    env: this.env,
    tenant: this.#tenant,
  })
  readonly #followers = new StreamSlots()
  /** MCP requests and hooks that are held; none longer than the longest wait. */
  readonly #holds = new StreamSlots(
    LIMITS.mcp_holds_tenant,
    LIMITS.mcp_holds_agent,
    (LIMITS.mcp_hold_most_s + 10) * 1000,
  )
  readonly #tenancy = new TenancyStore(this.#db, (write) => this.#change(write))
  readonly #quota = new StorageQuota({
    ctx: this.ctx,
    env: this.env,
    tenant: this.#tenant,
    store: this.#storage,
    tenancy: this.#tenancy,
    isDeleted: () => this.#directory.state === 'deleted',
  })
  readonly #installationRequests = new InstallationRequests(
    this.#tenancy,
    () => this.#quota.held(),
    this.#followers,
    this.#retention,
    {
      ctx: this.ctx,
      env: this.env,
      tenant: this.#tenant,
      exportTarget: this.#exportTarget,
    },
  )
  readonly #freshness: RequestFreshness
  #directory: Directory

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env)
    if (this.#db.select().from(meta).get() === undefined) this.#initialize()
    this.ctx.storage.transactionSync(() => resealAll(this.#db, this.#sealing))
    this.#directory = this.#readAll()
    this.#freshness = freshnessByTenant.get(this.#tenant) ?? new RequestFreshness()
    freshnessByTenant.set(this.#tenant, this.#freshness)
    this.#listAsLocal()
    this.#policySets.follow(DEFAULTS)
  }

  /** Lists this object as local once its writes are on disk. */
  #listAsLocal(): void {
    if (this.env.ONE_PROCESS !== 'yes') return
    const { version } = this.#directory
    localGatekeepers.delete(this.#tenant)
    const ready = () => version === this.#directory.version && localGatekeepers.set(this.#tenant, this)
    void this.ctx.storage.sync().then(ready, () => undefined) // a failed write ends this object, and its successor reads the stored state
  }

  #initialize(): void {
    this.ctx.storage.transactionSync(() => {
      this.#tenancy.initialize(this.#tenant, this.env.ROOT_OPERATOR_HASH, Date.now())
      this.#policySets.initialize(DEFAULTS)
    })
  }

  get #tenant(): string {
    return this.ctx.id.name ?? DEFAULT_TENANT
  }

  // ── Reading ──

  /** `null` if the caller's version is current. */
  async directory(known: number): Promise<Directory | null> {
    return known === this.#directory.version ? null : this.#directory
  }

  readonly #parts: { readonly [P in Part]: () => Directory[P] } = {
    state: () => this.#tenancy.state(),
    runsShareSince: () => this.#tenancy.runsShareSince(Date.now()),
    agents: () => this.#principals.agents(),
    operators: () => this.#principals.operators(),
    tools: () => this.#tools.active(),
    policies: () => this.#policySets.active(),
    shadow: () => this.#policySets.shadow(),
    workers: () => this.#workers.active(),
    secrets: () => this.#secrets.held(),
    formerSecrets: () => this.#secrets.former(),
    skills: () => this.#skills.enabled(),
    publishers: () => this.#skills.listed(),
    issuers: () => this.#issuers.held(),
    upstreams: () => this.#upstreams.listed(),
  }

  #readAll(): Directory {
    const { version } = this.#db.select().from(meta).get() ?? { version: 0 }
    this.#principals.forget()
    return { tenant: this.#tenant, version, ...this.#read(Object.keys(this.#parts) as Part[]) } // its keys are all parts
  }
  #read<P extends Part>(parts: readonly P[]): Pick<Directory, P> {
    return Object.fromEntries(parts.map((part) => [part, this.#parts[part]()])) as Pick<Directory, P> // one of each
  }

  /**
   * Makes a change of the directory: the writes and the new version in one transaction, then the copy
   * in memory. `parts`: those that the writes can have changed; without it, all are read again.
   */
  #change<T>(write: () => T, parts?: readonly Part[]): T {
    const version = this.#directory.version + 1
    const value = this.ctx.storage.transactionSync(() => {
      const done = write()
      this.#db.update(meta).set({ version }).run()
      return done
    })
    this.#directory =
      parts === undefined ? this.#readAll() : { ...this.#directory, version, ...this.#read(parts) }
    this.#listAsLocal()
    this.#inbox.news.notify() // open pages check their permissions again
    return value
  }

  /** For changes that belong into the tenant's journal: all that the other two journals don't record. */
  #recording(...parts: Part[]): RecordedChange {
    return recording(this.#journal, this.#delivery, (write) => this.#change(write, parts))
  }

  /** Records a change that another object is about to make. */
  async recordAhead(entry: EntryAhead): Promise<void> {
    this.#note(entry, () => undefined)
  }

  get tenancy(): InstallationRequests {
    return this.#installationRequests
  }

  async usage(): Promise<TenantUsage> {
    const use = await this.#installationRequests.use()
    return { tenant: this.#tenant, quota: this.#tenancy.quota(), use }
  }

  async takeCall(): Promise<Result<true>> {
    const room = await this.room()
    return room.ok ? this.#tenancy.takeCall(Date.now()) : room
  }
  takeStoredCall(): Result<true> | null {
    return this.hasRoom() ? this.#tenancy.takeStoredCall(Date.now()) : null
  }

  async room(): Promise<Result<true>> {
    return this.#quota.room()
  }
  hasRoom(): boolean {
    return this.#quota.hasRoom()
  }

  // ── Principals ──

  async putAgent(name: string, spec: AgentSpec, by: string): Promise<Result<AgentRecord>> {
    const home = { tenant: this.#tenant, loopback: this.env.LOOPBACK_CHANNELS !== undefined }
    return this.#principals.putAgent(home, name, spec, by)
  }
  async rotateAgentWebhook(name: string, by: string): Promise<Result<AgentRecord>> {
    return this.#principals.rotateWebhook(name, by)
  }
  async putOperator(
    name: string,
    spec: OperatorSpec,
    by: string,
  ): Promise<Result<PrincipalRecord<OperatorSpec>>> {
    return this.#principals.putOperator(this.#tenant, name, spec, by)
  }
  async rotateAgentKey(name: string, by: string): Promise<Result<PrincipalRecord<AgentSpec>>> {
    return this.#principals.rotate('agent', this.#tenant, name, by)
  }
  async rotateOperatorKey(name: string, by: string): Promise<Result<PrincipalRecord<OperatorSpec>>> {
    return this.#principals.rotate('operator', this.#tenant, name, by)
  }
  async deleteAgent(name: string, by: string): Promise<Result<{ done: true }>> {
    return this.#principals.remove('agent', name, by)
  }
  async deleteOperator(name: string, by: string): Promise<Result<{ done: true }>> {
    return this.#principals.remove('operator', name, by)
  }
  async listAgents(): Promise<PrincipalRecord<AgentSpec>[]> {
    return this.#principals.list('agent')
  }
  async listOperators(): Promise<PrincipalRecord<OperatorSpec>[]> {
    return this.#principals.list('operator')
  }

  /** Opens a console session for the holder of this operator's key. */
  async signIn(keyId: string, hash: string, session: string): Promise<Result<true>> {
    const known = this.#directory.operators.some(({ keyHash }) => keyHash === hash)
    return this.#console.open(keyId, known ? hash : null, session, Date.now())
  }
  /**
   * The hash of the key that opened a session. The caller looks it up in the directory: the key may
   * have been revoked.
   */
  async sessionKey(session: string, use: 'used' | 'watched'): Promise<string | null> {
    return this.#console.keyOf(session, use, Date.now())
  }
  async signOut(session: string): Promise<void> {
    this.#console.end(session)
    this.#inbox.news.notify()
  }

  // ── Tools and policies; callers have validated the input ──

  async putTool(name: string, spec: ToolSpec, by: string): Promise<Result<Tool>> {
    return this.#tools.put(name, spec, by)
  }
  async deleteTool(name: string, by: string): Promise<Result<{ done: true }>> {
    return this.#tools.remove(name, by)
  }
  async toolVersions(wanted: readonly Pick<Tool, 'name' | 'version'>[]): Promise<Tool[]> {
    return this.#tools.versions(wanted)
  }

  async putPolicies(put: PolicyPut): Promise<Result<CheckedVersion>> {
    return this.#policySets.put(put, this.#directory.tools)
  }

  /** Activates an older or a newer version. */
  async activatePolicies(version: number, by: string, expected: Expected): Promise<Result<CheckedVersion>> {
    return this.#policySets.activate({ version, by, expected }, this.#directory.tools)
  }

  async policyVersions(before: number): Promise<PolicyVersion[]> {
    return this.#policySets.list(before)
  }

  async policyVersion(version: number): Promise<StoredPolicySet | undefined> {
    return this.#policySets.read(version)
  }

  async policyShadow(): Promise<{ version: number; since: number; by: string } | null> {
    const shadow = this.#policySets.shadow()
    return shadow === null ? null : { version: shadow.version, since: shadow.since, by: shadow.by }
  }

  async shadowPolicies(version: number | null, by: string): Promise<Result<FieldError[]>> {
    return this.#policySets.putShadow(version, by, this.#directory.tools)
  }

  // ── Skills ──

  /** The RPC target for skills. */
  get skills(): SkillRegistry {
    return this.#skills
  }
  override async alarm(): Promise<void> {
    this.#alarm.rang()
    if (this.#directory.state === 'deleted') return // its log may be erased already
    await Promise.all([this.#delivery.send(), this.#retention.notifyArchives()])
  }

  /** The RPC target for retention and legal holds. */
  get retention(): Retention {
    return this.#retention
  }

  // ── Upstreams ──

  /** The RPC target for upstreams. */
  get upstreams(): UpstreamRegistry {
    return this.#upstreams
  }

  // ── Secrets ──

  async putSecret(name: string, spec: SecretSpec, by: string): Promise<Result<Secret>> {
    return this.#secrets.put(this.#sealing, name, spec, by)
  }
  async deleteSecret(name: string, by: string): Promise<Result<{ done: true }>> {
    return this.#secrets.remove(name, by)
  }
  async listSecrets(): Promise<Secret[]> {
    return this.#secrets.list()
  }

  // ── Export target ──

  async putExportTarget(target: SealedTarget): Promise<void> {
    this.#exportTarget.put(target)
  }
  async exportTarget(): Promise<SealedTarget | null> {
    return this.#exportTarget.get()
  }
  async deleteExportTarget(by: string): Promise<Result<{ done: true }>> {
    return this.#exportTarget.remove(by)
  }

  // ── Issuers of tokens ──

  async putIssuer(name: string, spec: IssuerSpec, by: string): Promise<Result<IssuerRecord>> {
    this.#issuerKeys.forget()
    return this.#issuers.put(name, spec, this.#directory.agents, by)
  }
  async deleteIssuer(name: string, by: string): Promise<Result<{ done: true }>> {
    this.#issuerKeys.forget()
    return this.#issuers.remove(name, by)
  }
  async listIssuers(): Promise<IssuerRecord[]> {
    return this.#issuers.list()
  }
  /** `unknown`: a token names a key that the caller does not have. */
  async issuerKeys(name: string, unknown: boolean): Promise<Result<FetchedKeys, string>> {
    const known = this.#directory.issuers.find((issuer) => issuer.name === name)
    return known === undefined ? err('no such issuer') : this.#issuerKeys.keysOf(known.spec, unknown)
  }

  // ── Workers ──

  async createEnrolment(pool: string, by: string): Promise<{ token: string; expires_at: number }> {
    return this.#workers.token(this.#tenant, pool, by, this.#note)
  }

  async enrol(id: string, hash: string, name: string, x: string) {
    if (this.#directory.state === 'suspended') return err(SUSPENDED)
    const room = this.#tenancy.mayEnrol()
    return room.ok ? this.#workers.enrol(id, hash, name, x) : room
  }

  /**
   * Checks that the signer is enrolled and the request fresh and not replayed (K01, K02). The
   * signature itself has been verified. Returns the directory if it has changed since `known`.
   */
  async admitWorker(input: SignatureInput, known: number): Promise<Result<Directory | null>> {
    if (this.#enrolled(input.worker) === undefined)
      return err(failure('bad_signature', 'no enrolled worker signed this request'))
    const fresh = this.#freshness.admit(input.worker, input, Date.now())
    return fresh.ok ? ok(await this.directory(known)) : fresh
  }

  #enrolled(id: string): EnrolledWorker | undefined {
    return this.#directory.workers.find((worker) => worker.id === id)
  }

  /** Records a heartbeat. Only one process may serve as a worker (D6). */
  async seen(id: string, tiers: Tier[], speaker: HeartbeatSender): Promise<Result<true>> {
    const [worker, now] = [this.#enrolled(id), Date.now()]
    if (worker === undefined) return ok(true) // revoked since it was admitted
    const verdict = this.#freshness.judgeHeartbeat(worker, speaker, now)
    if (verdict === 'refused') return err(WORKER_IN_USE)
    if (verdict === 'takes') this.#workers.serve(id, speaker.process ?? null)
    if (verdict === 'leaves') this.#workers.serve(id, null) // stored, because edge and worker may restart together, as `npm start` does
    if (verdict === 'doubled') this.#workers.doubled(worker, now)
    this.#workers.narrow(worker, tiers)
    return ok(true)
  }

  /**
   * Records a claim by a process other than the serving one, whose next heartbeat then stores the
   * warning (D6).
   */
  async claimRefused(id: string, process: string | null): Promise<void> {
    const worker = this.#enrolled(id)
    if (worker !== undefined) this.#freshness.claimRefused(worker, process)
  }

  async proveWorker(id: string, envelope: Envelope): Promise<Result<{ tiers: Tier[] }>> {
    const worker = this.#enrolled(id)
    if (worker === undefined) return err(NO_WORKER)
    return this.#workers.prove(this.#tenant, worker, envelope, Date.now())
  }

  /** When a worker of the pool last sent a heartbeat; null if it isn't in the pool. */
  async heardOf(id: string, pool: string): Promise<number | null> {
    const worker = this.#enrolled(id)
    return worker?.pool === pool ? Math.max(this.#freshness.lastHeartbeatAt(id), worker.enrolledAt) : null
  }

  async listWorkers(): Promise<ProvenWorker[]> {
    return this.#workers.list((id) => this.#freshness.seenAt(id), Date.now())
  }

  async rotateWorkerKey(id: string, link: Envelope): Promise<Result<{ kid: string }>> {
    const worker = this.#enrolled(id)
    return worker === undefined ? err(NO_WORKER) : this.#workers.rotateKey(worker, link)
  }

  async revokeWorker(id: string, distrustedFrom: number | null, by: string): Promise<Result<{ done: true }>> {
    return this.#workers.revoke(id, distrustedFrom, by)
  }

  async workerKeys() {
    return this.#workers.keys()
  }

  // ── Inbox ──

  async mirror(approvals: Approval[]): Promise<void> {
    this.#inbox.mirror(approvals)
  }
  async approvals(asked: ListQuery): Promise<ListedApproval[]> {
    return this.#inbox.list(asked)
  }
  /**
   * The changes after `after`, waiting up to `ms` for the next one. Without `after`, only the
   * latest number.
   */
  async changes(after: number | null, ms: number): Promise<Changes> {
    const { number } = this.#inbox.news
    const found = this.#inbox.changes(after)
    if (after === null || found.items.length > 0 || ms <= 0) return found
    await this.#inbox.news.after(number, ms)
    return this.#inbox.changes(after)
  }
  async alike(group: string, newest: string): Promise<string[]> {
    return this.#inbox.alike(group, newest)
  }
  async figures(): Promise<ApprovalMetrics> {
    return this.#inbox.figures.read()
  }
  async pending(asked: InboxQuery): Promise<InboxPage> {
    return this.#inbox.pending(asked)
  }
  /**
   * Waits until the change number of the inbox, or of one approval, differs from `known`, at most
   * `ms`, and returns it.
   */
  async news({ stream, whose, approval }: InboxStream, known: number, ms: number): Promise<number> {
    this.#followers.stay(stream, whose, Date.now())
    return approval === null ? this.#inbox.news.after(known, ms) : this.#inbox.follow(approval, known, ms)
  }
  /** Takes a stream slot, before a page is sent its first event. */
  async follow({ stream, whose }: InboxStream): Promise<Result<true>> {
    return this.#followers.enter(stream, whose, Date.now(), this.#tenancy.quota().streams)
  }
  async unfollow(stream: string): Promise<void> {
    this.#followers.leave(stream)
  }

  /**
   * Waits until the number of an approval's last change differs from `known`, at most `ms`, and
   * returns it.
   */
  async approvalChange(id: string, known: number, ms: number): Promise<number> {
    return this.#inbox.follow(id, known, ms)
  }
  /** Takes a place for an MCP request or a hook that has to wait; false if there is none (M05). */
  async holdRequest(request: string, agent: string): Promise<boolean> {
    return this.#holds.enter(request, agent, Date.now()).ok
  }
  async releaseRequest(request: string): Promise<void> {
    this.#holds.leave(request)
  }

  /** Sets the total bytes of files that the run holds, if the quotas permit it. */
  async holdFiles(run: string, agent: string, bytes: number): Promise<Result<true>> {
    const tenant = await this.#quota.forMore()
    const own = this.#directory.agents.find(({ name }) => name === agent)?.spec.files_bytes
    return this.#storage.hold({ run, agent, bytes }, { agent: own, tenant })
  }
  /** Sets the total bytes that a skill's storage holds, if the quota permits it. */
  async holdSkill(skill: string, bytes: number): Promise<Result<true>> {
    return this.#storage.holdForSkill(skill, bytes, await this.#quota.forMore())
  }

  async listStanding(entry: Standing): Promise<Result<true>> {
    return this.#standing.list(entry, Date.now())
  }
  async unlistStanding(ids: readonly string[]): Promise<void> {
    this.#standing.unlist(ids)
  }
  async standing(): Promise<Standing[]> {
    return this.#standing.all(Date.now())
  }
  async readStanding(id: string): Promise<Standing | undefined> {
    return this.#standing.read(id, Date.now())
  }
}
