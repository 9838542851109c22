// A tenant's directory as an isolate caches it: principals, tools, policies, workers, compiled once
// per version. Each request asks the TenantObject whether the cached version is current, so a
// revoked key is refused on the next request.

import { timingSafeEqual } from 'node:crypto'
import { digestOf } from '../../shared/bytes/json.ts'
import { failure } from '../../shared/failures.ts'
import type { KeyKind } from '../../shared/ids.ts'
import { keyHash, parseKey } from '../../shared/ids.ts'
import { ok, type Result } from '../../shared/result.ts'
import type { AgentSpec, OperatorSpec } from '../../shared/wire/principals.ts'
import { type Tool, upstreamOf } from '../../shared/wire/tools.ts'
import type { Env, Identity } from '../bindings.ts'
import { identityOf, tenantObject } from '../bindings.ts'
import { logError } from '../platform/error-log.ts'
import { argumentTypes } from '../policy/argument-typing.ts'
import { compileWithFloor, repairSet, suspendedSet } from '../policy/built-in.ts'
import type { EntityJson } from '../policy/engine.ts'
import { markerFor, Redaction } from '../secrets/redaction.ts'
import { Sealing } from '../secrets/sealing.ts'
import { HYPOTHETICAL_VAULT, openVault } from '../secrets/vault.ts'
import { argumentCheck } from '../tools/argument-check.ts'
import { actionGroups, capabilitiesOf, isSensitive } from '../tools/capabilities.ts'
import { listingTool } from '../tools/stdio-server.ts'
import type { EnrolledWorker } from '../workers/request-freshness.ts'
import type { Directory, Gatekeeper, ListedUpstream, Member } from './gatekeeper.ts'
import type {
  AgentPrincipal,
  LoadedDirectory,
  LoadedTool,
  OperatorPrincipal,
  Principal,
  Shadow,
} from './loaded-directory.ts'
import { listerOf } from './own-agents.ts'
import type { HeldIssuer, TrustedIssuer } from './trusted-issuer.ts'
import { audiencesFor } from './trusted-issuer.ts'

export const SUSPENDED = failure(
  'tenant_suspended',
  'the operator of the installation has suspended this tenant',
)
const NO_ONE = { agents: [], operators: [], workers: [], issuers: [] }

const cache = new Map<string, LoadedDirectory>()

/**
 * In a single-process installation: the tenants' objects themselves, to skip a message per request.
 * An object is listed only while all its writes are on disk, because only calls through a stub wait
 * for earlier writes (the output gate).
 */
export const localGatekeepers = new Map<string, Gatekeeper>()

export const gatekeeper = (env: Env, tenant: string): Pick<Gatekeeper, 'directory' | 'admitWorker'> =>
  localGatekeepers.get(tenant) ?? tenantObject(env, tenant)

/** Whether this tenant is deleted, so that its data must be removed. */
export const isDeleted = async (env: Env, tenant: string): Promise<boolean> =>
  (await directoryOf(env, tenant)).state === 'deleted'

/** When a tenant's object last answered that it has room. The answer counts for a second: few claims ask. */
const roomAt = new Map<string, number>()
const ROOM_MS = 1_000

function noteRoom(tenant: string, answer: Result<true>): Result<true> {
  if (answer.ok) roomAt.set(tenant, Date.now())
  else roomAt.delete(tenant)
  return answer
}

/** Counts a proposal towards the quotas of the tenant. */
export const takeCall = async (env: Env, tenant: string): Promise<Result<true>> =>
  localGatekeepers.get(tenant)?.takeStoredCall() ??
  noteRoom(tenant, await tenantObject(env, tenant).takeCall())

/** Whether the tenant has room to store more. */
export async function roomToStore(env: Env, tenant: string): Promise<Result<true>> {
  const local = localGatekeepers.get(tenant)
  const sinceAnswer = Math.abs(Date.now() - (roomAt.get(tenant) ?? 0))
  const hasRoom = local === undefined ? sinceAnswer < ROOM_MS : local.hasRoom()
  return hasRoom ? ok(true) : noteRoom(tenant, await tenantObject(env, tenant).room())
}

/**
 * The tenant's current directory. It costs a small message if nothing has changed, and none in a
 * single-process installation.
 */
export const directoryOf = async (env: Env, tenant: string): Promise<LoadedDirectory> =>
  directoryFrom(identityOf(env), tenant, await gatekeeper(env, tenant).directory(knownVersion(tenant)))

/** The cached version, which the tenant's object compares with its own. */
export const knownVersion = (tenant: string): number => cache.get(tenant)?.version ?? -1

type Keys = Pick<Identity, 'markKey' | 'vaultKeys' | 'publicUrl'>

/** Compiles the answer of a tenant's object; `null` means that the cached version is current. */
export function directoryFrom(keys: Keys, tenant: string, fresh: Directory | null): LoadedDirectory {
  if (fresh !== null) return cacheDirectory(keys, fresh)
  const known = cache.get(tenant)
  if (known === undefined) throw new Error('the tenant reported an unchanged directory, but none is cached')
  return known
}

/** A directory of at least the version that the caller has seen; for objects behind the router. */
export async function directoryAt(env: Env, tenant: string, version: number): Promise<LoadedDirectory> {
  const known = cache.get(tenant)
  return known !== undefined && known.version >= version ? known : directoryOf(env, tenant)
}

/**
 * A directory that contains the worker, if it is enrolled; for the signature check before the
 * tenant is asked.
 */
export async function directoryWith(env: Env, tenant: string, worker: string): Promise<LoadedDirectory> {
  const known = cache.get(tenant)
  return known?.workers.has(worker) === true ? known : directoryOf(env, tenant)
}

function cacheDirectory(keys: Keys, directory: Directory): LoadedDirectory {
  const known = cache.get(directory.tenant)
  if (known !== undefined && known.version >= directory.version) return known
  const loaded = load(keys, directory)
  cache.set(directory.tenant, loaded)
  return loaded
}

function load(
  { markKey, vaultKeys, publicUrl }: Keys,
  {
    tenant,
    state,
    version,
    runsShareSince,
    tools,
    policies,
    shadow,
    secrets,
    formerSecrets,
    skills,
    publishers,
    upstreams,
    ...people
  }: Directory,
): LoadedDirectory {
  const { agents, operators, workers, issuers } = state === 'deleted' ? NO_ONE : people
  const ready = compileWithFloor(policies.texts)
  if (!ready.ok)
    logError(`policy set ${policies.version} can’t be compiled: ${ready.error.detail}`, { tenant })
  const quarantine = new Map(upstreams.flatMap(({ withheld }) => withheld))
  const vault = openVault(secrets, formerSecrets, new Sealing(vaultKeys, tenant))
  const keys = new Map<string, { kind: KeyKind; hash: Buffer; principal: AgentPrincipal | Principal }>()
  const agentMap = new Map<string, AgentPrincipal>()
  for (const { name, keyHash: hash, spec, createdAt, webhookSecrets } of agents) {
    const principal = agentPrincipal(tenant, name, spec, createdAt, webhookSecrets ?? [])
    agentMap.set(name, principal)
    keys.set(hash, { kind: 'agent', hash: Buffer.from(hash, 'hex'), principal })
  }
  const operatorMap = new Map<string, OperatorPrincipal>()
  for (const member of operators) {
    const principal = operatorPrincipal(tenant, member)
    operatorMap.set(member.name, principal)
    keys.set(member.keyHash, { kind: 'operator', hash: Buffer.from(member.keyHash, 'hex'), principal })
  }
  const loaded: LoadedDirectory = {
    tenant,
    state,
    version,
    runsShareSince,
    agents: agentMap,
    operators: operatorMap,
    keys,
    tools: new Map(
      tools.filter(({ name }) => !quarantine.has(name)).map((tool) => [tool.name, loadTool(tool)]),
    ),
    policies: state === 'suspended' ? suspendedSet() : ready.ok ? ready.value : repairSet(), // L6
    policyVersion: policies.version,
    shadow: null,
    roles: [...new Set(operators.flatMap(({ spec }) => spec.roles))],
    workers: new Map(workers.map((row) => [row.id, { row, principal: workerPrincipal(tenant, row) }])),
    vault,
    skills: new Map(skills.map((skill) => [skill.id, skill])),
    upstreams: new Map(upstreams.map((upstream) => [upstream.name, upstream])),
    listings: new Map(upstreams.flatMap((upstream) => listingOf(tenant, upstream))),
    quarantine,
    publishers: new Map(publishers.map(({ name, keys }) => [name, keys])),
    issuers: new Map(issuers.map((issuer) => [issuer.spec.issuer, trusted(publicUrl, tenant, issuer)])),
    redaction: new Redaction(markerFor(markKey, tenant), vault.known),
  }
  return shadow === null || state !== 'active' ? loaded : { ...loaded, shadow: shadowOf(loaded, shadow) }
}

type Listing = { readonly agent: AgentPrincipal; readonly tool: LoadedTool }

function listingOf(tenant: string, { name, revision, spec }: ListedUpstream): [string, Listing][] {
  if (spec.kind !== 'stdio') return []
  const tool = loadTool(listingTool(name, revision, spec))
  const may = { tools: [tool.tool.name], ...(spec.pool === undefined ? {} : { pool: spec.pool }) }
  const agent = agentPrincipal(tenant, listerOf(name), may, 0)
  return [[agent.name, { agent, tool }]]
}

/** The agent with this name, or the one that stands for listing the tools of an upstream. */
export const agentNamed = ({ agents, listings }: LoadedDirectory, name: string): AgentPrincipal | undefined =>
  listings.get(name)?.agent ?? agents.get(name)

/** A tool that this agent can name. Only the agent of a listing can name its tool. */
export function toolNamed(
  { tools, listings }: LoadedDirectory,
  agent: string,
  name: string,
): LoadedTool | undefined {
  const listing = listings.get(agent)
  if (listing === undefined) return tools.get(name)
  return listing.tool.tool.name === name ? listing.tool : undefined
}

const trusted = (publicUrl: string, tenant: string, issuer: HeldIssuer): TrustedIssuer => ({
  ...issuer,
  audiences: new Set(audiencesFor(publicUrl, tenant, issuer.spec)),
})

/** Returns `null` for a set that does not compile: nothing is shadowed then. */
function shadowOf(
  loaded: LoadedDirectory,
  { version, since, texts }: NonNullable<Directory['shadow']>,
): Shadow | null {
  const ready = compileWithFloor(texts)
  return ready.ok
    ? { version, since, directory: { ...loaded, policies: ready.value, policyVersion: version } }
    : null
}

const agentPrincipal = (
  tenant: string,
  name: string,
  spec: AgentSpec,
  since: number,
  webhookSecrets: readonly number[] = [],
): AgentPrincipal => ({
  kind: 'Agent',
  tenant,
  name,
  spec,
  since,
  webhookSecrets,
  entities: entitiesOf('Agent', name, 'Group', spec.groups ?? []),
})
const operatorPrincipal = (
  tenant: string,
  { name, keyHash, spec, createdAt }: Member<OperatorSpec>,
): OperatorPrincipal => ({
  kind: 'Operator',
  tenant,
  name,
  since: createdAt,
  keyHash,
  entities: entitiesOf('Operator', name, 'Role', spec.roles),
})

type HypotheticalEntries = {
  tools: readonly Tool[]
  agents: readonly [string, AgentSpec][]
  operators: readonly [string, OperatorSpec][]
}

/**
 * A hypothetical directory, for policy cases: tools and agents are added or replace those of the
 * same name. Operators, if any are given, replace all others, because the set of operators
 * determines who is asked. Nobody can authenticate as any of them. Tools have all secrets that they
 * name.
 */
export function withHypothetical(
  directory: LoadedDirectory,
  { tools, agents, operators }: HypotheticalEntries,
): LoadedDirectory {
  const { tenant } = directory
  return {
    ...directory,
    vault: HYPOTHETICAL_VAULT,
    tools: new Map([...directory.tools, ...tools.map((tool) => [tool.name, loadTool(tool)] as const)]),
    agents: new Map([
      ...directory.agents,
      ...agents.map(([name, spec]) => [name, agentPrincipal(tenant, name, spec, 0)] as const),
    ]),
    operators:
      operators.length === 0
        ? directory.operators
        : new Map(
            operators.map(([name, spec]) => [
              name,
              operatorPrincipal(tenant, { name, spec, keyHash: '', createdAt: 0 }),
            ]),
          ),
    roles: [...new Set([...directory.roles, ...operators.flatMap(([, { roles }]) => roles)])],
  }
}

const hypothetical = new WeakMap<LoadedDirectory, LoadedDirectory>()

/**
 * The directory as if every secret existed, so that a rehearsal of past calls does not depend on
 * secrets removed since.
 */
export function withHypotheticalSecrets(directory: LoadedDirectory): LoadedDirectory {
  const known = hypothetical.get(directory) ?? { ...directory, vault: HYPOTHETICAL_VAULT }
  hypothetical.set(directory, known)
  return known
}

function workerPrincipal(tenant: string, { id, pool, tiers, proven }: EnrolledWorker): Principal {
  const attrs = { pool, tiers, cgroups: proven?.means.cgroups ?? false }
  return { kind: 'Worker', tenant, name: id, entities: [{ uid: { type: 'Worker', id }, attrs, parents: [] }] }
}

const loadedTools = new Map<string, LoadedTool>()

/** Compiles each version of a tool once; tools change less often than directories. */
export function loadTool(tool: Tool): LoadedTool {
  const id = digestOf([tool.name, tool.version, tool.digest])
  const known = loadedTools.get(id)
  if (known !== undefined) return known
  const [capabilities, sensitive] = [capabilitiesOf(tool), isSensitive(tool)]
  const upstream = upstreamOf(tool)
  const loaded: LoadedTool = {
    tool,
    check: argumentCheck(tool.input_schema),
    types: argumentTypes(tool.input_schema),
    capabilities,
    sensitive,
    entity: {
      uid: { type: 'Tool', id: tool.name },
      attrs: { version: tool.version, sensitive, capabilities },
      parents: [
        ...(tool.groups ?? []).map((id) => ({ type: 'ToolGroup', id })),
        ...(tool.executor.kind === 'skill' ? [{ type: 'Skill', id: tool.executor.skill }] : []),
        ...(upstream === undefined ? [] : [{ type: 'Upstream', id: upstream }]),
      ],
    },
    action: {
      uid: { type: 'Action', id: `tool.execute/${tool.name}` },
      attrs: {},
      parents: actionGroups(tool).map((id) => ({ type: 'Action', id })),
    },
  }
  if (loadedTools.size > 5_000) loadedTools.clear()
  loadedTools.set(id, loaded)
  return loaded
}

function entitiesOf(
  kind: Principal['kind'],
  name: string,
  parentType: 'Group' | 'Role',
  parents: readonly string[],
): EntityJson[] {
  // An entity without attributes and parents adds nothing to its name.
  return parents.length === 0
    ? []
    : [{ uid: { type: kind, id: name }, attrs: {}, parents: parents.map((id) => ({ type: parentType, id })) }]
}

const NO_HASH = Buffer.alloc(32)

/**
 * The principal with this key. The look-up uses the key's digest, which a caller can't choose, and
 * compares in constant time, with the same steps whether the key exists or not.
 */
export function principalOf(directory: LoadedDirectory, key: string): AgentPrincipal | Principal | undefined {
  const hash = keyHash(key)
  const entry = directory.keys.get(hash)
  const equal = timingSafeEqual(Buffer.from(hash, 'hex'), entry?.hash ?? NO_HASH)
  return equal && entry !== undefined && entry.kind === parseKey(key)?.kind ? entry.principal : undefined
}
