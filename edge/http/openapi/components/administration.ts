// Tools, agents, operators, secrets and workers, which operators administer; and tenants.

import { EvidenceRemoval, Removal } from '../../../../shared/evidence/removal.ts'
import { Credential } from '../../../../shared/plan/plan.ts'
import { OPERATORS } from '../../../../shared/routes/operators.ts'
import { TENANTS } from '../../../../shared/routes/tenants.ts'
import { ExportTarget, ExportTargetSpec } from '../../../../shared/wire/exports.ts'
import { Agent, AgentSpec, Operator, OperatorSpec } from '../../../../shared/wire/principals.ts'
import { Hold, Keep, Removed, RetentionRule } from '../../../../shared/wire/retention.ts'
import { Secret, SecretSpec } from '../../../../shared/wire/secrets.ts'
import { Quota, Tenant, TenantUsage, TenantUse } from '../../../../shared/wire/tenants.ts'
import {
  Capability,
  ProcessToolSpec,
  RegisteredTool,
  RegisteredToolSpec,
} from '../../../../shared/wire/tools.ts'
import { ProvenWorker, Worker } from '../../../../shared/wire/workers.ts'
import { base, type Component, object, opaque, outlined, plain } from './component.ts'

const CREATED = 'When it was created, in ms since 1970.'

const EXPORT_TARGET = {
  endpoint: 'The address of the store, without the bucket.',
  region: 'The region of the bucket.',
  bucket: 'The name of the bucket.',
  prefix: 'The folder in the bucket: empty, or ending in `/`.',
  access_key_id: 'The id of an access key that may store and read objects.',
}

const TOOL = {
  description: 'What the tool does, for the model and for people.',
  input_schema: 'JSON Schema 2020-12 of the arguments.',
  output_schema:
    'Standard output must be one JSON object that matches; else the call fails with `invalid_output`.',
  capabilities: 'What its calls are able to do. Hosts imply `network`, and secrets `secrets_read`.',
  groups: 'Groups that policies can name: `resource in ToolGroup::"…"`.',
  sensitive: 'Marks a tool as sensitive whose capabilities alone don’t.',
  idempotent: 'Safe to run twice. Only then is a lost execution retried.',
  spends: 'The argument that holds an amount to spend, in whole units. Policies limit its sum.',
  approval_ttl_s: 'How long operators have to answer.',
  executor: 'What executes its calls; `none`: the agent’s own program.',
  egress: 'The hosts that its calls may reach.',
  secrets: 'Secrets that the process receives.',
  credentials: 'Secrets that its proxy adds to requests, so that the process never holds them.',
  workspace: '`call`: a new folder for each call. `run`: one folder for the calls of a run.',
  input_files: 'Lets calls bring files, which are read-only in `/input`. Tier C only.',
  output_files: 'Keeps the files that a call leaves in `/output`. Tier C only.',
  limits: 'The most that one call may use.',
  result: '`mcp`: standard output is the result of an MCP tool, and is passed on as such.',
}

const AGENT = {
  tools: 'Tools that it may call; `*` is every registered tool.',
  channels: 'Channels that its runs may come from; absent means any.',
  groups: 'Groups that policies can name.',
  owners: 'Operators who are responsible for it; by default the one who creates it.',
  budget: 'The most that one of its runs may use.',
  files_bytes: 'Bytes of files that all of its runs may hold together.',
  pool: 'The workers that run its calls.',
  webhook: 'The address that gets the events of its calls.',
  mcp: 'How the MCP endpoint treats its clients.',
}

const NAMED = {
  name: '',
  created_at_ms: CREATED,
}

const TENANT = {
  name: 'Its name, which is never used again.',
  state: 'Whether its keys work and its data exists.',
  created_at_ms: CREATED,
  changed_at_ms: 'When state or quota last changed.',
  quota: 'The most that it may use.',
  erased: 'Whether the data of a deleted tenant has been removed, which may take a while.',
}

const WORKER = {
  id: 'The id of the worker.',
  name: '',
  pool: 'The pool that it serves.',
  kid: 'The id of its key.',
  tiers: 'The tiers that it may run now.',
  advertised: 'The same, with the names of profiles.',
  means: 'What calls may rely on: proven recently, and still reported.',
  enrolled_at_ms: 'When it was enrolled.',
  seen_at_ms: 'When it last sent a request.',
  doubled_at_ms: 'When two processes last used its key at the same time: one of them is a copy.',
  status: 'A revoked worker is refused.',
  proof: 'What it has shown about its own sandbox.',
}

/** The fields that a registered tool and its specification share. */
const { executor: _executor, limits: _limits, ...CONTRACT } = TOOL

export const ADMINISTRATION: Readonly<Record<string, Component>> = {
  Keep: object(Keep, 'For how many days after the last event of a run it is kept. `null`: for ever.', {
    outputs: 'What its calls wrote. Kept at most as long as `arguments`.',
    arguments:
      'The arguments of its calls, their plans, and the cards of their approvals. Kept at most as long as `evidence`.',
    evidence: 'Journals, attestations, approvals and policy snapshots. Digests stay.',
  }),
  RetentionRule: object(RetentionRule, 'How long a tenant keeps what it has of ended runs.', {
    rule: 'Its number in the tenant, which each removal names.',
    keep: '',
    by: 'The operator who set it.',
    at_ms: 'When it was set.',
  }),
  Hold: object(Hold, 'A legal hold: nothing of its subject is removed.', {
    subject: '`tenant`, or the id of a run.',
    reason: 'Why it was put.',
    by: 'The operator who put it.',
    at_ms: 'Since when.',
  }),
  Removal: object(Removal, 'When something was removed, and why.', {
    at_ms: 'When, in milliseconds since 1970.',
    rule: 'The number of the retention rule.',
    days: 'For how many days that rule keeps it.',
  }),
  Removed: object(Removed, 'What the retention rule has removed of a call.', {
    outputs: '',
    arguments: '',
    evidence: '',
  }),
  EvidenceRemoval: object(EvidenceRemoval, 'What is left of the evidence of a call.', {
    at_ms: 'When, in milliseconds since 1970.',
    rule: 'The number of the retention rule.',
    days: 'For how many days that rule keeps it.',
    statement_sha256: 'The SHA-256 of the signed bytes of its attestation.',
    entry: 'The journal entry that ended it. Its hash is a leaf of the log.',
    head: 'The last entry of the journal of its run.',
  }),
  ToolContract: base(
    object(
      RegisteredToolSpec.omit({ executor: true, limits: true }),
      'What an operator states about a tool.',
      CONTRACT,
    ),
  ),
  ToolSpec: object(RegisteredToolSpec, 'A tool as an operator registers it.', TOOL),
  ToolEgress: object(ProcessToolSpec.shape.egress, 'The hosts that calls of a tool may reach.', {
    mode: '`strict`: the kernel enforces it. `preflight`: arguments are checked. `none`: no restriction.',
    hosts: 'The hosts.',
    named_by: 'The argument that names the hosts of a call.',
  }),
  ToolLimits: opaque(
    ProcessToolSpec.shape.limits,
    'Limits that differ from the defaults: any fields of `Limits`.',
  ),
  RegisteredTool: outlined(
    object(RegisteredTool, 'A registered tool: that of an operator, or one of an enabled skill.', {
      ...TOOL,
      risk: 'The risk that the publisher of a skill declares. What the tool is granted may raise it.',
      name: 'Its name.',
      version: 'Each change is a new version.',
      digest: 'The digest of this version.',
      policy: 'The arguments as policies read them.',
    }),
    'limits',
    'policy',
  ),
  Capability: plain(Capability, 'What calls of a tool are able to do.'),
  Credential: object(Credential, 'A secret that the proxy adds to requests to one host.', {
    secret: 'The name of the secret.',
    host: '',
    header: 'The header that carries it.',
    format: 'The header’s value, in which `{}` is the secret. By default the secret alone.',
    tls: 'Adds it to HTTPS requests: the proxy terminates TLS for this host, for this call alone.',
  }),
  AgentSpec: object(AgentSpec, 'An agent as an operator sets it up.', AGENT),
  Agent: object(Agent, 'A machine principal that proposes calls.', {
    ...AGENT,
    ...NAMED,
  }),
  AgentWithKey: object(OPERATORS.putAgent.result, 'An agent, with its key if this request made it.', {
    ...AGENT,
    ...NAMED,
    key: 'Shown this once.',
    webhook_secret: 'The secret that signs its events. Shown this once.',
  }),
  RekeyedAgent: object(OPERATORS.rotateAgentKey.result, 'An agent, with its new key.', {
    ...AGENT,
    ...NAMED,
    key: 'Shown this once.',
  }),
  OperatorSpec: object(OperatorSpec, 'An operator as another sets them up.', {
    roles: 'Roles that policies can name. `admin`, `approver` and `auditor` come with permissions.',
  }),
  Operator: object(Operator, 'A human principal with roles.', {
    roles: 'Roles that policies can name.',
    name: '',
    created_at_ms: CREATED,
  }),
  OperatorWithKey: object(OPERATORS.rotateOperatorKey.result, 'An operator, with a new key.', {
    roles: 'Roles that policies can name.',
    name: '',
    created_at_ms: CREATED,
    key: 'Shown this once.',
  }),
  SecretSpec: object(SecretSpec, 'A secret to store.', {
    value: 'The value, which nobody can read back.',
    tools: 'The tools that may use it.',
    hosts: 'If set, no tool receives the value: the proxy adds it to requests to these hosts only.',
  }),
  Secret: object(Secret, 'A secret without its value.', {
    name: '',
    version: 'Increases with each value.',
    tools: 'The tools that may use it.',
    hosts: 'The hosts that it is bound to.',
    put_by: '',
    put_at_ms: 'When it was stored.',
  }),
  Worker: outlined(object(Worker, 'An enrolled host that runs calls.', WORKER), 'means'),
  ProvenWorker: outlined(
    object(ProvenWorker, 'A worker, with its signature under its last proof.', {
      ...WORKER,
      envelope: 'The proof as it was signed, to verify it offline.',
    }),
    'means',
  ),
  Quota: object(Quota, 'The most that a tenant may use.', {
    calls_per_day: 'Calls that its agents may propose within one day in UTC.',
    storage_bytes:
      'Bytes that it may store: what calls leave, files of runs, and storage and code of skills.',
    workers: 'Workers that may be enrolled at a time.',
    streams: 'Pages and streams that may be open at a time.',
  }),
  Tenant: object(Tenant, 'A tenant of the installation.', TENANT),
  NewTenant: object(TENANTS.createTenant.result, 'A new tenant, with the key of its first operator.', {
    ...TENANT,
    operator: 'The name of its first operator.',
    key: 'The key of that operator, shown this once.',
  }),
  TenantWithUse: object(TENANTS.readTenant.result, 'A tenant, and what it uses now.', {
    ...TENANT,
    use: 'What it uses; null for a deleted tenant.',
  }),
  TenantUse: object(TenantUse, 'What a tenant uses now.', {
    calls_today: 'Calls proposed since midnight UTC.',
    storage_bytes: 'Bytes that it stores.',
    calls_bytes: 'Those of them that calls have left.',
    skills_bytes: 'Those of them that skills hold, in steps of 64 KiB.',
    workers: 'Workers enrolled.',
    streams: 'Pages and streams open.',
    calls_ended: 'Calls that have ended, over the tenant’s whole life.',
    calls_open: 'Calls that have not ended.',
    runs_open: 'Runs with calls that have not ended.',
    vault_key: 'The id of the edge’s key under which all its secrets are sealed.',
  }),
  ExportTarget: object(ExportTarget, 'The bucket that receives exports.', {
    ...EXPORT_TARGET,
    put_by: 'The operator who set it.',
    put_at_ms: 'When, in ms since 1970.',
  }),
  ExportTargetSpec: object(ExportTargetSpec, 'A bucket of an S3-compatible store.', {
    ...EXPORT_TARGET,
    secret_access_key: 'The secret of the access key. Nobody can read it back.',
  }),
  TenantUsage: object(TenantUsage, 'A tenant’s quota, and what it uses of it.', {
    tenant: 'The tenant.',
    quota: 'The most that it may use.',
    use: 'What it uses now.',
  }),
}
