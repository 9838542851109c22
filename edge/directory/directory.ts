// A tenant's directory as an isolate holds it: who exists, which tools there are, which policies
// are active. Compiled once per version. Each request asks the TenantObject whether its version is
// still the one: a revoked key is refused on the very next request.

import { timingSafeEqual } from 'node:crypto'
import { digestOf } from '../../shared/bytes/json.ts'
import { failure } from '../../shared/failures.ts'
import type { KeyKind } from '../../shared/ids.ts'
import { keyHash, parseKey } from '../../shared/ids.ts'
import type { Result } from '../../shared/result.ts'
import type { AgentSpec, OperatorSpec } from '../../shared/wire/principals.ts'
import type { TenantState } from '../../shared/wire/tenants.ts'
import type { Capability, Tool } from '../../shared/wire/tools.ts'
import type { Env, Identity } from '../bindings.ts'
import { identityOf, tenantObject } from '../bindings.ts'
import { logError } from '../platform/error-log.ts'
import type { ArgumentTypes } from '../policy/argument-typing.ts'
import { argumentTypes } from '../policy/argument-typing.ts'
import { readyUnderFloor, repairSet, suspendedSet } from '../policy/built-in.ts'
import type { EntityJson, PolicySet } from '../policy/engine.ts'
import { marker, Redaction } from '../secrets/redaction.ts'
import { Sealing } from '../secrets/sealing.ts'
import type { Vault } from '../secrets/vault.ts'
import { openVault, SUPPOSED_VAULT } from '../secrets/vault.ts'
import type { ArgumentCheck } from '../tools/argument-check.ts'
import { argumentCheck } from '../tools/argument-check.ts'
import { actionGroups, capabilitiesOf, isSensitive } from '../tools/capabilities.ts'
import type { EnrolledWorker } from '../workers/request-freshness.ts'
import type { EnabledSkill } from './enabled-skill.ts'
import type { Directory, Gatekeeper, Member } from './gatekeeper.ts'

export type Principal = {
  kind: 'Agent' | 'Operator' | 'Worker'
  tenant: string
  name: string
  /** The principal's own entity and the groups or roles it is in. */
  entities: EntityJson[]
}
/**
 * `since`: when it was made. Whoever is made again under the name is somebody else, and inherits
 * nothing.
 */
export type AgentPrincipal = Principal & { kind: 'Agent'; spec: AgentSpec; since: number }
export type OperatorPrincipal = Principal & { kind: 'Operator'; since: number; keyHash: string }
export type LoadedTool = {
  tool: Tool
  check: ArgumentCheck
  types: ArgumentTypes
  /** As policies see it. */
  capabilities: readonly Capability[]
  sensitive: boolean
  entity: EntityJson
  action: EntityJson
}

/**
 * A version that is asked about each call beside the one in force, and enforced never: the same
 * directory under other policies.
 */
export type Shadow = { version: number; since: number; directory: Loaded }

/** A directory ready for use. */
export type Loaded = {
  tenant: string
  /**
   * A deleted tenant has no known callers. While it is suspended, policy permits only that its
   * workers finish.
   */
  state: TenantState
  version: number
  agents: ReadonlyMap<string, AgentPrincipal>
  operators: ReadonlyMap<string, OperatorPrincipal>
  keys: ReadonlyMap<string, { kind: KeyKind; hash: Buffer; principal: AgentPrincipal | Principal }>
  tools: ReadonlyMap<string, LoadedTool>
  policies: PolicySet
  /** Which of the tenant's versions that is, the floor apart. */
  policyVersion: number
  shadow: Shadow | null
  roles: readonly string[]
  workers: ReadonlyMap<string, { row: EnrolledWorker; principal: Principal }>
  vault: Vault
  skills: ReadonlyMap<string, EnabledSkill>
  /** The public keys of those who may publish skills. */
  publishers: ReadonlyMap<string, readonly string[]>
  /** What of arguments its people are shown. */
  redaction: Redaction
}

export const SUSPENDED = failure(
  'tenant_suspended',
  'the operator of the installation has suspended this tenant',
)
const NO_ONE = { agents: [], operators: [], workers: [] }

const cache = new Map<string, Loaded>()

/**
 * Where one process is all there is: the objects themselves, while all that they know is on disk.
 * Over its stub the runtime holds an answer back until the writes before it are; here nothing does.
 */
export const atHand = new Map<string, Gatekeeper>()

export const gatekeeper = (env: Env, tenant: string): Pick<Gatekeeper, 'directory' | 'admitWorker'> =>
  atHand.get(tenant) ?? tenantObject(env, tenant)

/** Whether this tenant is deleted, so that its data has to go. */
export const isDeleted = async (env: Env, tenant: string): Promise<boolean> =>
  (await directoryOf(env, tenant)).state === 'deleted'

/** Counts a proposal towards the quota of the tenant. */
export const takeCall = async (env: Env, tenant: string): Promise<Result<true>> =>
  atHand.get(tenant)?.takeStoredCall() ?? tenantObject(env, tenant).takeCall()

/**
 * The tenant's present directory. One small message where nothing changed, and none where the
 * object is at hand.
 */
export const directoryOf = async (env: Env, tenant: string): Promise<Loaded> =>
  directoryFrom(identityOf(env), tenant, await gatekeeper(env, tenant).directory(knownVersion(tenant)))

/** The version to ask with: the tenant answers with its directory only where it has another. */
export const knownVersion = (tenant: string): number => cache.get(tenant)?.version ?? -1

type Keys = Pick<Identity, 'markKey' | 'vaultKey'>

/** What a tenant answered, made ready; `null` means that ours is the present one. */
export function directoryFrom(keys: Keys, tenant: string, fresh: Directory | null): Loaded {
  if (fresh !== null) return remember(keys, fresh)
  const known = cache.get(tenant)
  if (known === undefined) throw new Error('the directory says that it is unchanged, and we have none')
  return known
}

/** At least the version that the caller has just seen: for the objects behind the router. */
export async function directoryAt(env: Env, tenant: string, version: number): Promise<Loaded> {
  const known = cache.get(tenant)
  return known !== undefined && known.version >= version ? known : directoryOf(env, tenant)
}

/** One that knows this worker, if any does: for a check that is made before the tenant is asked. */
export async function directoryWith(env: Env, tenant: string, worker: string): Promise<Loaded> {
  const known = cache.get(tenant)
  return known?.workers.has(worker) === true ? known : directoryOf(env, tenant)
}

function remember(keys: Keys, directory: Directory): Loaded {
  const known = cache.get(directory.tenant)
  if (known !== undefined && known.version >= directory.version) return known
  const loaded = load(keys, directory)
  cache.set(directory.tenant, loaded)
  return loaded
}

function load(
  { markKey, vaultKey }: Keys,
  {
    tenant,
    state,
    version,
    tools,
    policies,
    shadow,
    secrets,
    formerSecrets,
    skills,
    publishers,
    ...people
  }: Directory,
): Loaded {
  const { agents, operators, workers } = state === 'deleted' ? NO_ONE : people
  const ready = readyUnderFloor(policies.texts)
  if (!ready.ok) logError(tenant, `policy set ${policies.version} can't be read: ${ready.error.detail}`)
  const vault = openVault(secrets, formerSecrets, new Sealing(vaultKey, tenant))
  const keys = new Map<string, { kind: KeyKind; hash: Buffer; principal: AgentPrincipal | Principal }>()
  const agentMap = new Map<string, AgentPrincipal>()
  for (const { name, keyHash: hash, spec, createdAt } of agents) {
    const principal = agentPrincipal(tenant, name, spec, createdAt)
    agentMap.set(name, principal)
    keys.set(hash, { kind: 'agent', hash: Buffer.from(hash, 'hex'), principal })
  }
  const operatorMap = new Map<string, OperatorPrincipal>()
  for (const member of operators) {
    const principal = operatorPrincipal(tenant, member)
    operatorMap.set(member.name, principal)
    keys.set(member.keyHash, { kind: 'operator', hash: Buffer.from(member.keyHash, 'hex'), principal })
  }
  const loaded: Loaded = {
    tenant,
    state,
    version,
    agents: agentMap,
    operators: operatorMap,
    keys,
    tools: new Map(tools.map((tool) => [tool.name, loadTool(tool)])),
    policies: state === 'suspended' ? suspendedSet() : ready.ok ? ready.value : repairSet(), // L6
    policyVersion: policies.version,
    shadow: null,
    roles: [...new Set(operators.flatMap(({ spec }) => spec.roles))],
    workers: new Map(workers.map((row) => [row.id, { row, principal: workerPrincipal(tenant, row) }])),
    vault,
    skills: new Map(skills.map((skill) => [skill.id, skill])),
    publishers: new Map(publishers.map(({ name, keys }) => [name, keys])),
    redaction: new Redaction(marker(markKey, tenant), vault.known),
  }
  return shadow === null || state !== 'active' ? loaded : { ...loaded, shadow: shadowing(loaded, shadow) }
}

/** One that does not compile shadows nothing, and harms nothing. */
function shadowing(
  loaded: Loaded,
  { version, since, texts }: NonNullable<Directory['shadow']>,
): Shadow | null {
  const ready = readyUnderFloor(texts)
  return ready.ok
    ? { version, since, directory: { ...loaded, policies: ready.value, policyVersion: version } }
    : null
}

const agentPrincipal = (tenant: string, name: string, spec: AgentSpec, since: number): AgentPrincipal => ({
  kind: 'Agent',
  tenant,
  name,
  spec,
  since,
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

type Others = {
  tools: readonly Tool[]
  agents: readonly [string, AgentSpec][]
  operators: readonly [string, OperatorSpec][]
}

/**
 * A directory as it would be with these too, or with these in the place of their namesakes.
 * Operators are not named by whoever asks, and who there is decides what is asked: if any are
 * given, they are all. They have no keys: nobody becomes them. Tools have the secrets that they
 * name.
 */
export function including(directory: Loaded, { tools, agents, operators }: Others): Loaded {
  const { tenant } = directory
  return {
    ...directory,
    vault: SUPPOSED_VAULT,
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

const supposing = new WeakMap<Loaded, Loaded>()

/**
 * The same where every secret is: what policy says of a call that was does not hang on what has
 * been removed since.
 */
export function withSupposedSecrets(directory: Loaded): Loaded {
  const known = supposing.get(directory) ?? { ...directory, vault: SUPPOSED_VAULT }
  supposing.set(directory, known)
  return known
}

function workerPrincipal(tenant: string, { id, pool, tiers, proven }: EnrolledWorker): Principal {
  const attrs = { pool, tiers, cgroups: proven?.means.cgroups ?? false }
  return { kind: 'Worker', tenant, name: id, entities: [{ uid: { type: 'Worker', id }, attrs, parents: [] }] }
}

const loadedTools = new Map<string, LoadedTool>()

/** Tools outlive a directory's version: compile each tool version once. */
export function loadTool(tool: Tool): LoadedTool {
  const id = digestOf([tool.name, tool.version, tool.digest])
  const known = loadedTools.get(id)
  if (known !== undefined) return known
  const [capabilities, sensitive] = [capabilitiesOf(tool), isSensitive(tool)]
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
  // Without attributes and parents an entity says nothing that its name does not.
  return parents.length === 0
    ? []
    : [{ uid: { type: kind, id: name }, attrs: {}, parents: parents.map((id) => ({ type: parentType, id })) }]
}

const NOBODY = Buffer.alloc(32)

/**
 * The principal whose key this is. What is looked up is the key's digest, which nobody can steer;
 * it is compared in constant time, by the same steps whether the key exists or not.
 */
export function principalOf(directory: Loaded, key: string): AgentPrincipal | Principal | undefined {
  const hash = keyHash(key)
  const entry = directory.keys.get(hash)
  const equal = timingSafeEqual(Buffer.from(hash, 'hex'), entry?.hash ?? NOBODY)
  return equal && entry !== undefined && entry.kind === parseKey(key)?.kind ? entry.principal : undefined
}
