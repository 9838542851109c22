// A tenant's directory, compiled and ready for use: its principals, tools, policies and secrets.

import type { KeyKind } from '../../shared/ids.ts'
import type { AgentSpec } from '../../shared/wire/principals.ts'
import type { TenantState } from '../../shared/wire/tenants.ts'
import type { Capability, Tool } from '../../shared/wire/tools.ts'
import type { ArgumentTypes } from '../policy/argument-typing.ts'
import type { EntityJson, PolicySet } from '../policy/engine.ts'
import type { Redaction } from '../secrets/redaction.ts'
import type { Vault } from '../secrets/vault.ts'
import type { ArgumentCheck } from '../tools/argument-check.ts'
import type { EnrolledWorker } from '../workers/request-freshness.ts'
import type { EnabledSkill } from './enabled-skill.ts'
import type { ListedUpstream } from './gatekeeper.ts'
import type { TrustedIssuer } from './trusted-issuer.ts'

export type Principal = {
  kind: 'Agent' | 'Operator' | 'Worker'
  tenant: string
  name: string
  /** The principal's own entity and the groups or roles it is in. */
  entities: EntityJson[]
}
/**
 * `since`: when it was created. An agent that is created again under the same name is a different
 * agent and inherits nothing.
 */
export type AgentPrincipal = Principal & {
  kind: 'Agent'
  spec: AgentSpec
  since: number
  webhookSecrets: readonly number[]
}
export type OperatorPrincipal = Principal & { kind: 'Operator'; since: number; keyHash: string }
export type LoadedTool = {
  tool: Tool
  check: ArgumentCheck
  types: ArgumentTypes
  /** As policies see them. */
  capabilities: readonly Capability[]
  sensitive: boolean
  entity: EntityJson
  action: EntityJson
}

/**
 * The policy set in shadow: evaluated for each call next to the active one, and never enforced. The
 * same directory with other policies.
 */
export type Shadow = { version: number; since: number; directory: LoadedDirectory }

/** A directory that is compiled and ready for use. */
export type LoadedDirectory = {
  tenant: string
  /**
   * A deleted tenant has no principals. While it is suspended, policy permits only that its workers
   * finish.
   */
  state: TenantState
  version: number
  /** A call whose idempotency key is older finds its run in an object of its own. */
  runsShareSince: number
  agents: ReadonlyMap<string, AgentPrincipal>
  operators: ReadonlyMap<string, OperatorPrincipal>
  keys: ReadonlyMap<string, { kind: KeyKind; hash: Buffer; principal: AgentPrincipal | Principal }>
  tools: ReadonlyMap<string, LoadedTool>
  policies: PolicySet
  /** The active version of the tenant's own set, which excludes the floor. */
  policyVersion: number
  shadow: Shadow | null
  roles: readonly string[]
  workers: ReadonlyMap<string, { row: EnrolledWorker; principal: Principal }>
  vault: Vault
  skills: ReadonlyMap<string, EnabledSkill>
  upstreams: ReadonlyMap<string, ListedUpstream>
  /** For calls that list the tools of an upstream, by the agent that stands for them. */
  listings: ReadonlyMap<string, { readonly agent: AgentPrincipal; readonly tool: LoadedTool }>
  /** Tools of upstreams that can't be called now, and why. `tools` does not contain them. */
  quarantine: ReadonlyMap<string, string>
  /** The public keys of each publisher of skills. */
  publishers: ReadonlyMap<string, readonly string[]>
  /** By the claim `iss` of their tokens. */
  issuers: ReadonlyMap<string, TrustedIssuer>
  /** Masks secrets in arguments that people of the tenant see. */
  redaction: Redaction
}
