// The bindings of the edge: typed access to its environment, its keys and its Durable Objects. No
// other file reads the environment.

import { z } from 'zod'
import type { Envelope, Signer } from '../shared/evidence/dsse.ts'
import { derive, edgeKeys, edgeSigner, readKeyRing, vaultId } from '../shared/evidence/key-ring.ts'
import type { KeyEntry } from '../shared/evidence/keys.ts'
import { type WitnessSetting, WitnessSettings } from '../shared/evidence/witnesses.ts'
import { INSTALLATION_LOG, runObjectName } from '../shared/ids.ts'
import { LIMITS } from '../shared/limits.ts'
import { Restore } from '../shared/wire/restore.ts'
import type { ArchiveObject } from './archive/archive-object.ts'
import type { ChannelObject } from './channels/channel-object.ts'
import type { InstallationObject } from './installation/installation-object.ts'
import type { LogObject } from './log/log-object.ts'
import type { Outside, StandIns } from './platform/outbound-fetch.ts'
import type { PoolObject } from './pool/pool-object.ts'
import type { RunObject, RunRequests } from './run/run-object.ts'
import type { SessionObject } from './session/session-object.ts'
import type { SkillObject } from './skills/skill-object.ts'
import type Transpiler from './skills/transpiler/main.ts'
import type { InstallationRequests } from './tenant/installation-requests.ts'
import type { Retention } from './tenant/retention-store.ts'
import type { SkillRegistry } from './tenant/skills/skill-registry.ts'
import type { TenantObject } from './tenant/tenant-object.ts'
import type { UpstreamRegistry } from './tenant/upstream-registry.ts'

export type Env = {
  TENANT: DurableObjectNamespace<TenantObject>
  RUN: DurableObjectNamespace<RunObject>
  SESSION: DurableObjectNamespace<SessionObject>
  POOL: DurableObjectNamespace<PoolObject>
  LOG: DurableObjectNamespace<LogObject>
  CHANNEL: DurableObjectNamespace<ChannelObject>
  SKILL: DurableObjectNamespace<SkillObject>
  INSTALLATION: DurableObjectNamespace<InstallationObject>
  ARCHIVE: DurableObjectNamespace<ArchiveObject>
  /**
   * Turns components into modules (edge/skills/transpiler). A separate Worker, because it is large.
   */
  TRANSPILER: Fetcher
  /** Creates the isolates that run skills. */
  LOADER: WorkerLoader
  /**
   * An Ed25519 private JWK, or a key ring (shared/evidence/key-ring.ts) after the first rotation. It
   * signs everything that the edge vouches for, and all other keys are derived from it.
   */
  EDGE_SIGNING_KEY: string
  /** SHA-256 of the key with which the first operator enters a new installation. */
  ROOT_OPERATOR_HASH: string
  /** SHA-256 of the installation operator's key. Without it nobody can create or delete tenants. */
  INSTALLATION_KEY_HASH?: string
  REDIS_URL: string
  PUBLIC_URL: string
  /**
   * Set if the edge is a single process (self-hosted): the router then shares memory with the
   * objects.
   */
  ONE_PROCESS?: string
  /**
   * Set once the installation's storage was restored from a backup: what the restore was, as JSON
   * (`Restore`). On Cloudflare the operator sets it after a point-in-time recovery.
   */
  RESTORED?: string
  /** How long an ended run rests before it is sealed, in seconds; by default `LIMITS.seal_after_s`. */
  SEAL_AFTER_S?: string
  /** The witnesses of all logs, as JSON (`WitnessSettings`); by default there are none. */
  WITNESSES?: string
  /**
   * The network through which channels send (self-hosted). It reaches no private address, whatever
   * a name resolves to. Without it channels use the platform's `fetch`.
   */
  OUTSIDE?: Outside
  /**
   * For tests and the demo only: lets channels and upstreams use plain HTTP on this host, and
   * replaces origins by test receivers.
   */
  LOOPBACK_CHANNELS?: StandIns
}

export const DEFAULT_TENANT = 'default'

export type Identity = {
  signer: Signer
  /** The public keys of the edge, the first one first, and the links that lead to the others. */
  edgeKeys: readonly KeyEntry[]
  keyChain: readonly Envelope[]
  idKey: Buffer
  linkKey: Buffer
  markKey: Buffer
  /** New values are sealed with the first; the others open what an earlier key has sealed. */
  vaultKeys: readonly Buffer[]
  vaultId: string
  webhookKey: Buffer
  mcpKey: Buffer
  publicUrl: string
  /** The last restore of the installation's storage; null if there was none. */
  restore: Restore | null
  /** How often the storage was restored. */
  restores: number
  /** How long an ended run rests before it is sealed. */
  sealAfterMs: number
  witnesses: readonly WitnessSetting[]
}

const Seconds = z.coerce.number().int().min(1)

let cached: { key: string; identity: Identity } | undefined

/** Parsed once per isolate. All keys are in one variable, so that an installation has one secret to keep. */
export function identityOf(env: Env): Identity {
  if (cached?.key === env.EDGE_SIGNING_KEY) return cached.identity
  const read = readKeyRing(JSON.parse(env.EDGE_SIGNING_KEY))
  if (!read.ok) throw new Error(`EDGE_SIGNING_KEY can’t be used: ${read.error}`)
  const ring = read.value
  // A mark that can't be read throws: without it a call of the backup could run again (L2, L6).
  const restore = env.RESTORED === undefined ? null : Restore.parse(JSON.parse(env.RESTORED))
  const identity = {
    signer: edgeSigner(ring),
    edgeKeys: edgeKeys(ring),
    keyChain: ring.chain,
    idKey: Buffer.from(ring.ids, 'base64url'),
    linkKey: derive(ring.root, 'approval link'),
    markKey: derive(ring.root, 'hidden value'),
    vaultKeys: ring.vaults.map((key) => Buffer.from(key, 'base64url')),
    vaultId: vaultId(ring),
    webhookKey: derive(ring.root, 'agent webhook'),
    mcpKey: derive(ring.root, 'mcp state'),
    publicUrl: env.PUBLIC_URL.replace(/\/$/, ''),
    restore,
    restores: restore?.restores ?? 0,
    sealAfterMs:
      1_000 * (env.SEAL_AFTER_S === undefined ? LIMITS.seal_after_s : Seconds.parse(env.SEAL_AFTER_S)),
    witnesses: env.WITNESSES === undefined ? [] : WitnessSettings.parse(JSON.parse(env.WITNESSES)),
  }
  cached = { key: env.EDGE_SIGNING_KEY, identity }
  return identity
}

/**
 * The RPC view of an object: its asynchronous methods with their own types. The platform's stub
 * type rewrites them for serialisation, and turns JSON of unknown shape into `never`.
 */
export type RpcStub<T> = {
  [K in keyof T as T[K] extends (...args: never[]) => Promise<unknown>
    ? Exclude<K, 'fetch' | 'alarm'>
    : never]: T[K]
}

/** The network for channels and skills, and the origins that tests replace. */
export const outboundNetwork = ({
  OUTSIDE,
  LOOPBACK_CHANNELS,
}: Env): { outside: Outside; standIns: StandIns | undefined } => ({
  outside: OUTSIDE ?? { fetch: (input, init) => fetch(input, init) },
  standIns: LOOPBACK_CHANNELS,
})

export const transpiler = ({ TRANSPILER }: Env) => TRANSPILER as unknown as RpcStub<Transpiler>
export const tenantObject = (env: Env, tenant: string) =>
  env.TENANT.getByName(tenant) as unknown as RpcStub<TenantObject>
/** The tenant's skill registry, reached in one RPC. */
export const tenantSkills = (env: Env, tenant: string) =>
  (env.TENANT.getByName(tenant) as unknown as { skills: RpcStub<SkillRegistry> }).skills
/** The tenant's upstreams, reached in one RPC. */
export const tenantUpstreams = (env: Env, tenant: string) =>
  (env.TENANT.getByName(tenant) as unknown as { upstreams: RpcStub<UpstreamRegistry> }).upstreams
/** The tenant's retention rule and legal holds, reached in one RPC. */
export const tenantRetention = (env: Env, tenant: string) =>
  (env.TENANT.getByName(tenant) as unknown as { retention: RpcStub<Retention> }).retention
/** The requests that only the installation makes to a tenant's object. */
export const tenancy = (env: Env, tenant: string) =>
  (env.TENANT.getByName(tenant) as unknown as { tenancy: RpcStub<InstallationRequests> }).tenancy
/** One run, in an object that it may share with others. */
export function runObject(env: Env, tenant: string, run: string): RpcStub<RunRequests> {
  const object = runsObject(env, tenant, run)
  return new Proxy({} as RpcStub<RunRequests>, {
    get: (_, method) =>
      method === 'then' // an async function looks for it in its result
        ? undefined
        : (...given: unknown[]) => object.request(run, method as keyof RunRequests, given),
  })
}
/** The object of a run, with all the runs that it holds. */
export const runsObject = (env: Env, tenant: string, run: string) =>
  env.RUN.getByName(runObjectName(tenant, run)) as unknown as RpcStub<RunObject>
/** The same, by the object's own name in the tenant. */
export const runsObjectNamed = (env: Env, tenant: string, name: string) =>
  env.RUN.getByName(`${tenant}/${name}`) as unknown as RpcStub<RunObject>
type SessionName = { readonly agent: string; readonly session: string }
/** Sessions belong to one agent, which chooses their names. No agent's name has a slash. */
export const sessionName = ({ agent, session }: SessionName): string => `${agent}/${session}`
export const sessionObject = (env: Env, { tenant, ...of }: SessionName & { readonly tenant: string }) =>
  env.SESSION.getByName(`${tenant}/${sessionName(of)}`) as unknown as RpcStub<SessionObject>
/** The counts of an agent over all its sessions. No session has an empty name. */
export const agentQuestions = (env: Env, { tenant, agent }: { tenant: string; agent: string }) =>
  sessionObject(env, { tenant, agent, session: '' })
export const poolObject = (env: Env, tenant: string, pool: string) =>
  env.POOL.getByName(`${tenant}/${pool}`) as unknown as RpcStub<PoolObject>
export const logObject = (env: Env, tenant: string) =>
  env.LOG.getByName(tenant) as unknown as RpcStub<LogObject>
export const channelObject = (env: Env, tenant: string) =>
  env.CHANNEL.getByName(tenant) as unknown as RpcStub<ChannelObject>
/** The registry of tenants, one for the whole installation. */
export const installationObject = (env: Env) =>
  env.INSTALLATION.getByName(INSTALLATION_LOG) as unknown as RpcStub<InstallationObject>
export const skillObject = (env: Env, tenant: string, skill: string) =>
  env.SKILL.getByName(`${tenant}/${skill}`) as unknown as RpcStub<SkillObject>
/** Runs the trials of a tenant. No skill has an empty name. */
export const trialObject = (env: Env, tenant: string) => skillObject(env, tenant, '')
/** The sealed runs of a tenant; `archive` is one of `archiveOf`. */
export const archiveObject = (env: Env, tenant: string, archive: string) =>
  env.ARCHIVE.getByName(`${tenant}/${archive}`) as unknown as RpcStub<ArchiveObject>
