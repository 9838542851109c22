// The contract between a tenant's object and the isolates that admit its requests. Types only.

import type { SignatureInput } from '../../shared/evidence/http-signature.ts'
import type { Result } from '../../shared/result.ts'
import type { AgentSpec, OperatorSpec } from '../../shared/wire/principals.ts'
import type { TenantState } from '../../shared/wire/tenants.ts'
import type { Tool } from '../../shared/wire/tools.ts'
import type { UpstreamSpec } from '../../shared/wire/upstreams.ts'
import type { PolicyTexts } from '../policy/engine.ts'
import type { SealedSecret } from '../secrets/sealing.ts'
import type { HeldSecret } from '../secrets/vault.ts'
import type { EnrolledWorker } from '../workers/request-freshness.ts'
import type { EnabledSkill } from './enabled-skill.ts'
import type { HeldIssuer } from './trusted-issuer.ts'

/** A publisher's public keys, which verify its packages. */
export type ListedKeys = { readonly name: string; readonly keys: readonly string[] }

/** An upstream as it is called. `withheld`: its tools that can't be called now, and why. */
export type ListedUpstream = {
  readonly name: string
  readonly spec: UpstreamSpec
  /** Increases with each change of the upstream, so that nothing cached of an earlier one is used. */
  readonly revision: number
  readonly withheld: readonly (readonly [tool: string, why: string])[]
}

export type Member<S> = { name: string; keyHash: string; spec: S; createdAt: number }
/** `webhookSecrets`: when the secrets of its webhook were made, the newest first. */
export type AgentMember = Member<AgentSpec> & { webhookSecrets?: readonly number[] | null }

/** A tenant as its object returns it: everything that a decision depends on. */
export type Directory = {
  tenant: string
  state: TenantState
  version: number
  runsShareSince: number
  agents: AgentMember[]
  operators: Member<OperatorSpec>[]
  tools: Tool[]
  policies: { version: number; texts: PolicyTexts }
  /** The version in shadow, if there is one. */
  shadow: { version: number; since: number; texts: PolicyTexts } | null
  /** Only enrolled workers. */
  workers: EnrolledWorker[]
  secrets: HeldSecret[]
  /** Former values of secrets. No call gets them, and the redaction still masks them. */
  formerSecrets: SealedSecret[]
  /** Each enabled skill, in its enabled version. */
  skills: EnabledSkill[]
  publishers: ListedKeys[]
  /** Issuers whose tokens authenticate agents. */
  issuers: HeldIssuer[]
  upstreams: ListedUpstream[]
}

/** The methods of a tenant's object that every request calls. It answers them from memory. */
export type Gatekeeper = {
  /** Returns `null` if the known version is the current one. */
  directory: (known: number) => Promise<Directory | null>
  /** Checks the freshness of a signed request, then returns what `directory` returns. */
  admitWorker: (input: SignatureInput, known: number) => Promise<Result<Directory | null>>
  /** Counts a proposal against the quotas; `null` if counting needs storage or a request. */
  takeStoredCall: () => Result<true> | null
  /** Whether the quota of storage has room. `false` also if the answer needs storage or a request. */
  hasRoom: () => boolean
}
