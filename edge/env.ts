// The bindings of the edge: the only place that reads its environment.

import { hkdfSync } from 'node:crypto'
import type { PrivateJwk, Signer } from '../shared/dsse.ts'
import { signerFromJwk } from '../shared/dsse.ts'
import { INSTALLATION_LOG } from '../shared/ids.ts'
import type { ChannelObject } from './channel-object.ts'
import type { Outside, StandIns } from './channels/outside.ts'
import type { InstallationObject } from './installation-object.ts'
import type { LogObject } from './log-object.ts'
import type { PoolObject } from './pool-object.ts'
import type { RunObject } from './run/run-object.ts'
import type { SessionObject } from './session-object.ts'
import type { SkillDesk } from './skill-desk.ts'
import type { SkillObject } from './skill-object.ts'
import type Transpiler from './skills/transpiler/main.ts'
import type { TenancyDesk } from './tenancy-desk.ts'
import type { TenantObject } from './tenant-object.ts'

export type Env = {
  TENANT: DurableObjectNamespace<TenantObject>
  RUN: DurableObjectNamespace<RunObject>
  SESSION: DurableObjectNamespace<SessionObject>
  POOL: DurableObjectNamespace<PoolObject>
  LOG: DurableObjectNamespace<LogObject>
  CHANNEL: DurableObjectNamespace<ChannelObject>
  SKILL: DurableObjectNamespace<SkillObject>
  INSTALLATION: DurableObjectNamespace<InstallationObject>
  /** Makes modules of components (edge/skills/transpiler): a Worker of its own, for its size. */
  TRANSPILER: Fetcher
  /** Isolates for skills. */
  LOADER: WorkerLoader
  /** Ed25519 private JWK; everything the edge vouches for is signed with it. */
  EDGE_SIGNING_KEY: string
  /** SHA-256 of the first operator's key: how a new installation is entered. */
  ROOT_OPERATOR_HASH: string
  /** SHA-256 of the key of the installation's operator. Without it nobody can create or delete tenants. */
  INSTALLATION_KEY_HASH?: string
  REDIS_URL: string
  PUBLIC_URL: string
  /** Set where one process is all there is (self-hosted): what an object holds in memory is then at hand for the router beside it. */
  ONE_PROCESS?: string
  /**
   * What channels send through (self-hosted): a network without private addresses, whatever a name resolves to. Absent, the platform's
   * own.
   */
  OUTSIDE?: Outside
  /** Set for tests alone: channels may reach receivers on this very host, in plain HTTP; and these origins are stood in for by those. */
  LOOPBACK_CHANNELS?: StandIns
}

export const DEFAULT_TENANT = 'default'

export type Identity = {
  signer: Signer
  idKey: Buffer
  linkKey: Buffer
  markKey: Buffer
  vaultKey: Buffer
  publicUrl: string
}

let read: { key: string; identity: Identity } | undefined

/** Parsed once per isolate. Keys for ids and links are derived, so that one secret is all there is to keep. */
export function identityOf(env: Env): Identity {
  if (read?.key === env.EDGE_SIGNING_KEY) return read.identity
  const jwk = JSON.parse(env.EDGE_SIGNING_KEY) as PrivateJwk // our own secret, written by set-up
  const derive = (use: string) =>
    Buffer.from(hkdfSync('sha256', Buffer.from(jwk.d, 'base64url'), Buffer.alloc(0), `countersign ${use} v1`, 32))
  const identity = {
    signer: signerFromJwk(jwk),
    idKey: derive('run id'),
    linkKey: derive('approval link'),
    markKey: derive('hidden value'),
    vaultKey: derive('vault'),
    publicUrl: env.PUBLIC_URL.replace(/\/$/, ''),
  }
  read = { key: env.EDGE_SIGNING_KEY, identity }
  return identity
}

/**
 * An object as seen over RPC: its asynchronous methods, as they are. The platform's own stub type rewrites every type
 * for serialisation and loses ours on the way (JSON of unknown shape becomes `never`).
 */
export type Remote<T> = {
  [K in keyof T as T[K] extends (...given: never[]) => Promise<unknown> ? Exclude<K, 'fetch' | 'alarm'> : never]: T[K]
}

/** The way out, and for tests who stands in for whom. */
export const outsideOf = ({ OUTSIDE, LOOPBACK_CHANNELS }: Env): { outside: Outside; standIns: StandIns | undefined } => ({
  outside: OUTSIDE ?? { fetch: (to, init) => fetch(to, init) },
  standIns: LOOPBACK_CHANNELS,
})

export const transpiler = ({ TRANSPILER }: Env) => TRANSPILER as unknown as Remote<Transpiler>
export const tenantObject = (env: Env, tenant: string) => env.TENANT.getByName(tenant) as unknown as Remote<TenantObject>
/** What of a tenant is about skills, in one step. */
export const tenantSkills = (env: Env, tenant: string) => (env.TENANT.getByName(tenant) as unknown as { skills: Remote<SkillDesk> }).skills
/** The installation's requests to a tenant's object. */
export const tenancy = (env: Env, tenant: string) => (env.TENANT.getByName(tenant) as unknown as { tenancy: Remote<TenancyDesk> }).tenancy
export const runObject = (env: Env, tenant: string, run: string) => env.RUN.getByName(`${tenant}/${run}`) as unknown as Remote<RunObject>
/** A session is one agent's: its name is the agent's to choose. */
export const sessionObject = (env: Env, { tenant, agent, session }: { tenant: string; agent: string; session: string }) =>
  env.SESSION.getByName(`${tenant}/${agent}/${session}`) as unknown as Remote<SessionObject>
/** What is counted of an agent over all its sessions: no session has an empty name. */
export const agentQuestions = (env: Env, { tenant, agent }: { tenant: string; agent: string }) =>
  sessionObject(env, { tenant, agent, session: '' })
export const poolObject = (env: Env, tenant: string, pool: string) =>
  env.POOL.getByName(`${tenant}/${pool}`) as unknown as Remote<PoolObject>
export const logObject = (env: Env, tenant: string) => env.LOG.getByName(tenant) as unknown as Remote<LogObject>
export const channelObject = (env: Env, tenant: string) => env.CHANNEL.getByName(tenant) as unknown as Remote<ChannelObject>
/** One for the whole installation: the registry of tenants. */
export const installationObject = (env: Env) => env.INSTALLATION.getByName(INSTALLATION_LOG) as unknown as Remote<InstallationObject>
export const skillObject = (env: Env, tenant: string, skill: string) =>
  env.SKILL.getByName(`${tenant}/${skill}`) as unknown as Remote<SkillObject>
