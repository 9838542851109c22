// The plan of a call: exactly what would run. The edge makes it, policy sees it, the digest covers
// it, and the worker follows it to the letter.

import { z } from 'zod'
import { SIGNED_TEXT_CHARS } from '../bytes/signable-text.ts'
import { PATTERNS } from '../ids.ts'
import { LIMITS, MAX_BUDGET, MAX_LIMITS, MAX_SKILL_LIMITS } from '../limits.ts'
import { MAX_UPSTREAM_LIMITS } from '../upstream-limits.ts'
import { InputFiles } from './call-files.ts'
import { McpRequest } from './mcp-server.ts'

const bounded = (max: number) => z.int().min(1).max(max)

export const Limits = z.strictObject({
  timeout_ms: bounded(MAX_LIMITS.timeout_ms),
  cpu_ms: bounded(MAX_LIMITS.cpu_ms),
  memory_bytes: bounded(MAX_LIMITS.memory_bytes),
  pids: bounded(MAX_LIMITS.pids),
  open_files: bounded(MAX_LIMITS.open_files),
  file_bytes: bounded(MAX_LIMITS.file_bytes),
  workspace_bytes: bounded(MAX_LIMITS.workspace_bytes),
  /** Files and folders of a workspace on disk. Absent only in older plans. */
  workspace_inodes: bounded(MAX_LIMITS.workspace_inodes).optional(),
  output_bytes: bounded(MAX_LIMITS.output_bytes),
  /**
   * Bytes through the call's proxy, both ways, and attempts to connect. Absent only in older plans.
   */
  net_bytes: bounded(MAX_LIMITS.net_bytes).optional(),
  net_connections: bounded(MAX_LIMITS.net_connections).optional(),
})
export type Limits = z.infer<typeof Limits>

/** The budget of a run: calls, execution time, and denials. */
export const Budget = z.strictObject({
  max_calls_per_run: z.int().min(0).max(MAX_BUDGET.max_calls_per_run),
  execution_timeout_ms: z.int().min(1).max(MAX_BUDGET.execution_timeout_ms),
  max_denied_per_run: z.int().min(0).max(MAX_BUDGET.max_denied_per_run),
})
export type Budget = z.infer<typeof Budget>

export const Tier = z.enum(['B', 'C'])
export type Tier = z.infer<typeof Tier>

/**
 * `none`: no restriction (tier B only). `preflight`: the hosts named in arguments are checked, but
 * not enforced. `strict`: enforced by the kernel.
 */
export const EgressMode = z.enum(['none', 'preflight', 'strict'])
export type EgressMode = z.infer<typeof EgressMode>

/** `host:port`, `host` (any of 80 and 443), or `.suffix[:port]`, in lower case. */
export const HostPattern = z
  .string()
  .max(260)
  .regex(
    /^\.?(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)(?:\.[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)*(?::[1-9][0-9]{0,4})?$/,
    'is not a host: use `api.example.com`, `api.example.com:8443` or `.example.com`, in lower case, without `https://` and without a path',
  )

/** One host and one port. */
export const HostPort = HostPattern.refine(
  (host) => /^[^.].*:[0-9]+$/.test(host),
  'must be one host with its port, such as `api.example.com:80`',
)

/** A secret that the proxy adds to requests to one host, so that the tool never holds it. */
export const Credential = z.strictObject({
  secret: z.string().regex(PATTERNS.name),
  host: HostPort,
  /** Only headers that carry credentials; another header could change the meaning of a request. */
  header: z
    .string()
    .max(64)
    .regex(
      /^(?:authorization|cookie|x-[a-z0-9-]+|[a-z0-9-]+-(?:token|key))$/,
      'is not a header for credentials; use `authorization`, `cookie`, `x-…`, `…-token` or `…-key`, in lower case',
    ),
  /**
   * The template of the header's value, in which `{}` is the secret. By default the secret alone.
   */
  format: z
    .string()
    .max(128)
    .regex(
      /^[\x20-\x7a|~]*\{\}[\x20-\x7a|~]*$/,
      'must be plain text with one `{}`, which stands for the value: `Bearer {}`',
    )
    .optional(),
  /**
   * Adds the credential to HTTPS requests only: the proxy terminates TLS for this host, with a CA
   * that only this call's sandbox trusts.
   */
  tls: z.literal('intercept').optional(),
})
export type Credential = z.infer<typeof Credential>
/** Each header of a host appears at most once. */
export const Credentials = z
  .array(Credential)
  .max(16)
  .refine(
    (all) => new Set(all.map(({ host, header }) => `${host} ${header}`)).size === all.length,
    'must name each header of a host once',
  )

const NUL_FREE = /^[^\0]*$/
const ArgvItem = z.string().max(LIMITS.argv_item_bytes).regex(NUL_FREE, 'NUL is not allowed')
export const Argv = z.array(ArgvItem).min(1).max(LIMITS.argv_items)
const EnvName = z
  .string()
  .regex(
    /^[A-Z_][A-Z0-9_]{0,63}$/,
    'must be the name of an environment variable: 1 to 64 of `A-Z`, `0-9` and `_`, not beginning with a digit',
  )

export const Environment = z.record(EnvName, ArgvItem)

/**
 * The source of standard input: nothing, all arguments as canonical JSON, or the text of one
 * argument.
 */
export const Stdin = z.union([
  z.literal('none'),
  z.literal('args'),
  z.strictObject({ arg: z.string().max(64) }),
])
export type Stdin = z.infer<typeof Stdin>

export const Workspace = z.enum(['call', 'run'])

export const ProcessPlan = z.strictObject({
  tier: Tier,
  executor: z.strictObject({
    kind: z.literal('process'),
    argv: Argv,
    stdin: Stdin,
    env: Environment,
    /** Relative to the workspace; never leaves it. */
    cwd: z.string().max(4096).regex(NUL_FREE),
    /** JSON Schema of the single value on standard output, if the tool declares one. */
    output: z.record(z.string(), z.unknown()).optional(),
    /** The program is an MCP server; the worker sends it this request. Tier C only. */
    mcp: McpRequest.optional(),
  }),
  egress: z.strictObject({ mode: EgressMode, hosts: z.array(HostPattern).max(64) }),
  /** A profile that the worker's operator added; a worker without it refuses. */
  profile: z.string().regex(PATTERNS.name).optional(),
  /** Secrets that the process receives. */
  secrets: z.array(z.string().regex(PATTERNS.name)).max(32),
  /** Secrets that only its proxy receives. */
  credentials: Credentials.optional(),
  /**
   * `call`: a new folder, deleted afterwards. `run`: a folder that the calls of a run share on one
   * worker.
   */
  workspace: Workspace,
  /** Input files, read-only in `/input`; absent if there are none. */
  files: InputFiles.optional(),
  /** Whether files that the call leaves in `/output` are kept. */
  outputs: z.literal(true).optional(),
  limits: Limits,
  /**
   * Requires a worker that limits and ends all processes of the call with a cgroup. Absent: a
   * cgroup is used if available.
   */
  cgroup: z.literal(true).optional(),
})
export type ProcessPlan = z.infer<typeof ProcessPlan>

/** The interfaces of its world, which a skill may import. A plan names those that are granted. */
export const SkillCapability = z.enum(['log', 'clock', 'random', 'http', 'secrets', 'kv', 'channel'])
export type SkillCapability = z.infer<typeof SkillCapability>
export const HttpMethod = z.enum(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'])
export type HttpMethod = z.infer<typeof HttpMethod>
/** A prefix of storage keys that a skill may use; the empty prefix covers all keys. */
export const KeyPrefix = z
  .string()
  .max(128)
  .regex(
    /^(?:[A-Za-z0-9][A-Za-z0-9_./-]*)?$/,
    'must be a prefix of keys: letters, digits, `_`, `.`, `/` and `-`, beginning with a letter or digit',
  )
  .refine((prefix) => !prefix.includes('..'), 'must not contain `..`')
export const SkillVersion = z
  .string()
  .max(32)
  .regex(
    /^(?:0|[1-9][0-9]*)\.(?:0|[1-9][0-9]*)\.(?:0|[1-9][0-9]*)$/,
    'must be three numbers, such as `1.0.0`',
  )

/**
 * The limits of a skill's isolate. Fuel limits computation; the memory limit was built into the
 * module at publication.
 */
export const SkillLimits = z.strictObject({
  timeout_ms: bounded(MAX_SKILL_LIMITS.timeout_ms),
  fuel: bounded(MAX_SKILL_LIMITS.fuel),
  memory_bytes: bounded(MAX_SKILL_LIMITS.memory_bytes),
  output_bytes: bounded(MAX_SKILL_LIMITS.output_bytes),
  /** Bytes of all its requests, both ways, and their number. Absent if it makes none. */
  net_bytes: bounded(MAX_SKILL_LIMITS.net_bytes).optional(),
  net_connections: bounded(MAX_SKILL_LIMITS.net_connections).optional(),
})
export type SkillLimits = z.infer<typeof SkillLimits>

/** A tool of one version of a skill. `digest` covers manifest and component. */
export type SkillExecutor = z.infer<typeof SkillExecutor>
export const SkillExecutor = z.strictObject({
  kind: z.literal('skill'),
  skill: z.string().regex(PATTERNS.tool),
  version: SkillVersion,
  digest: z.string().regex(PATTERNS.sha256),
  tool: z.string().regex(PATTERNS.name),
  capabilities: z.array(SkillCapability).max(8),
  /** For `http`: the permitted methods. `egress` lists the hosts. */
  methods: z.array(HttpMethod).max(8).optional(),
  /** For `kv`: the permitted prefixes. */
  kv: z.array(KeyPrefix).max(16).optional(),
  /** For `channel`: the channels that it may write to. */
  channels: z.array(z.string().regex(PATTERNS.name)).max(16).optional(),
})

/** How the edge authenticates to an upstream. The secret is in the vault, for this upstream. */
export const UpstreamAuth = z.discriminatedUnion('kind', [
  z.strictObject({
    kind: z.literal('header'),
    secret: Credential.shape.secret,
    header: Credential.shape.header,
    format: Credential.shape.format,
  }),
  /** OAuth 2.1 client credentials; the secret authenticates the client at the token endpoint. */
  z.strictObject({
    kind: z.literal('client_credentials'),
    secret: Credential.shape.secret,
    client_id: z
      .string()
      .max(256)
      .regex(/^[\x21-\x7e]+$/, 'must be printable ASCII without spaces'),
    token_url: z.string().max(LIMITS.upstream_url_chars),
    scope: z
      .string()
      .max(512)
      .regex(/^[\x20-\x7e]+$/, 'must be printable ASCII')
      .optional(),
  }),
])
export type UpstreamAuth = z.infer<typeof UpstreamAuth>

/** An argument that the upstream wants repeated in the header `Mcp-Param-{header}`. */
const MirroredArgument = z.strictObject({
  header: z.string().max(64),
  path: z.array(z.string().max(128)).min(1).max(16),
})

/** A tool of a remote MCP server. `definition`: the digest of the definition that was accepted. */
export const UpstreamExecutor = z.strictObject({
  kind: z.literal('upstream'),
  upstream: z.string().regex(PATTERNS.upstream),
  url: z.string().max(LIMITS.upstream_url_chars),
  /** The tool's name at the server. */
  tool: z.string().min(1).max(LIMITS.upstream_tool_chars),
  definition: z.string().regex(PATTERNS.sha256),
  mirrored: z.array(MirroredArgument).max(32).optional(),
  auth: UpstreamAuth.optional(),
})
export type UpstreamExecutor = z.infer<typeof UpstreamExecutor>

/** The bounds of one call of an upstream: time, output that is kept, and its HTTP requests. */
export const UpstreamLimits = z.strictObject({
  timeout_ms: bounded(MAX_UPSTREAM_LIMITS.timeout_ms),
  output_bytes: bounded(MAX_UPSTREAM_LIMITS.output_bytes),
  net_bytes: bounded(MAX_UPSTREAM_LIMITS.net_bytes),
  net_connections: bounded(MAX_UPSTREAM_LIMITS.net_connections),
})
export type UpstreamLimits = z.infer<typeof UpstreamLimits>

/** A plan of tier A: an isolate at the edge with only the granted capabilities. */
export const SkillPlan = z.strictObject({
  tier: z.literal('A'),
  executor: SkillExecutor.extend({ output: z.record(z.string(), z.unknown()).optional() }),
  egress: z.strictObject({ mode: z.literal('strict'), hosts: z.array(HostPattern).max(64) }),
  /** Secrets that it may read. */
  secrets: z.array(z.string().regex(PATTERNS.name)).max(32),
  /** Secrets that the edge adds to its requests, so that it never sees them. */
  credentials: Credentials.optional(),
  limits: SkillLimits,
})
export type SkillPlan = z.infer<typeof SkillPlan>

/** A plan of tier M: the edge calls a tool of a remote MCP server, which nothing isolates. */
export const UpstreamPlan = z.strictObject({
  tier: z.literal('M'),
  executor: UpstreamExecutor.extend({ output: z.record(z.string(), z.unknown()).optional() }),
  egress: z.strictObject({ mode: z.literal('strict'), hosts: z.array(HostPattern).max(64) }),
  /** Always empty: the server receives arguments and the credentials of its requests only. */
  secrets: z.array(z.string().regex(PATTERNS.name)).max(0),
  credentials: Credentials.optional(),
  limits: UpstreamLimits,
})
export type UpstreamPlan = z.infer<typeof UpstreamPlan>

export const Plan = z.discriminatedUnion('tier', [ProcessPlan, SkillPlan, UpstreamPlan])
export type Plan = ProcessPlan | SkillPlan | UpstreamPlan

/** Whether the edge itself executes the plan, without a worker. */
export const isEdgePlan = (plan: Plan): plan is SkillPlan | UpstreamPlan =>
  plan.tier === 'A' || plan.tier === 'M'

/** The request of a plan whose program is an MCP server. */
export const mcpRequestOf = (plan: Plan | null | undefined): McpRequest | undefined =>
  plan === null || plan === undefined || isEdgePlan(plan) ? undefined : plan.executor.mcp

/** The upstream that a call reaches, at the edge or on a worker; undefined if it reaches none. */
export const upstreamOfPlan = (plan: Plan | null): string | undefined =>
  plan?.tier === 'M' ? plan.executor.upstream : mcpRequestOf(plan)?.upstream

/** The input files of a plan. A call that the edge executes has none. */
export const inputFilesOf = (plan: Plan | null | undefined): ProcessPlan['files'] =>
  plan === null || plan === undefined || isEdgePlan(plan) ? undefined : plan.files

/** The part of a plan or tool that names secrets. */
type SecretUse = {
  readonly secrets?: readonly string[] | undefined
  readonly credentials?: readonly Credential[] | undefined
}
/** All secrets that a claim hands over, to the process or to its proxy. */
export const secretsOf = ({ secrets = [], credentials = [] }: SecretUse): string[] => [
  ...new Set([...secrets, ...credentials.map(({ secret }) => secret)]),
]

/** Why a worker refused to begin. */
const RefusalCode = z.enum([
  'disabled',
  'unsupported_platform',
  'invalid_input',
  'workspace_scope_denied',
  'egress_denied',
  'sandbox_unavailable',
  'grant_invalid',
  'workspace_lost',
  'quota_exceeded',
  'skill_disabled',
  'tool_changed',
  'upstream_unavailable',
])

/** How an execution ended, as its executor saw it. */
export const Outcome = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('exit'), code: z.int().min(0).max(255) }),
  z.strictObject({ kind: z.literal('signal'), signal: z.string().max(16) }),
  z.strictObject({ kind: z.literal('timeout') }),
  z.strictObject({ kind: z.literal('output_cap') }),
  /**
   * The kernel ended it: the whole call used more memory than its limit, including files in memory.
   */
  z.strictObject({ kind: z.literal('memory_cap') }),
  /**
   * The whole call used more CPU time than its limit. Needs a cgroup; without one, SIGXCPU ends a
   * single process.
   */
  z.strictObject({ kind: z.literal('cpu_cap') }),
  /** Its workspace on disk exceeded its limit of bytes or files. */
  z.strictObject({ kind: z.literal('workspace_cap') }),
  /** It succeeded, but its output does not match the schema of its tool. */
  z.strictObject({ kind: z.literal('invalid_output'), detail: z.string().max(SIGNED_TEXT_CHARS.detail) }),
  z.strictObject({ kind: z.literal('cancelled') }),
  /**
   * Endings of a skill: it returned a result or an error, trapped, used up its fuel, or used an
   * import that was not granted.
   */
  z.strictObject({ kind: z.literal('returned') }),
  z.strictObject({ kind: z.literal('skill_error'), detail: z.string().max(SIGNED_TEXT_CHARS.detail) }),
  z.strictObject({ kind: z.literal('trap'), detail: z.string().max(SIGNED_TEXT_CHARS.detail) }),
  z.strictObject({ kind: z.literal('fuel_exhausted') }),
  z.strictObject({ kind: z.literal('capability_denied'), detail: z.string().max(SIGNED_TEXT_CHARS.detail) }),
  /**
   * Endings of an upstream's tool: it reported an error, or asked for something that we do not give.
   */
  z.strictObject({ kind: z.literal('upstream_error'), detail: z.string().max(SIGNED_TEXT_CHARS.detail) }),
  z.strictObject({
    kind: z.literal('upstream_wants_input'),
    detail: z.string().max(SIGNED_TEXT_CHARS.detail),
  }),
  /** The request was sent to the upstream and no usable answer came: it may or may not have run. */
  z.strictObject({ kind: z.literal('no_answer'), detail: z.string().max(SIGNED_TEXT_CHARS.detail) }),
  /**
   * The worker refused: the plan needs something that this host has not proven or no longer has, or
   * names a host that it may not reach.
   */
  z.strictObject({
    kind: z.literal('refused'),
    code: RefusalCode,
    detail: z.string().max(SIGNED_TEXT_CHARS.detail),
  }),
  /** The sandbox failed before or during the tool's execution, which did not finish. */
  z.strictObject({ kind: z.literal('infra'), detail: z.string().max(SIGNED_TEXT_CHARS.detail) }),
])
export type Outcome = z.infer<typeof Outcome>

/**
 * One output stream: every byte is counted and hashed, and `kept` bytes (head, then tail) are sent.
 */
export const StreamSummary = z.strictObject({
  bytes: z.int().min(0),
  sha256: z.string().regex(PATTERNS.sha256),
  kept: z.int().min(0),
  truncated: z.boolean(),
})
export type StreamSummary = z.infer<typeof StreamSummary>
/** A process whose stream has more than this many times `output_bytes` is stopped. */
export const FLOOD_FACTOR = 8

/**
 * The number of connections that are listed one by one (about 20 kB of a statement); the others are
 * summed up.
 */
export const MAX_LISTED_CONNECTIONS = 128
/** The most sums by host, port and verdict. Beyond them there is one sum for each verdict. */
export const MAX_SUMMED_CONNECTIONS = 128

/** One connection that the egress proxy saw, or the sum of many. */
export const Connection = z.strictObject({
  host: z.string().max(SIGNED_TEXT_CHARS.host),
  port: z.int().min(0).max(65535),
  address: z.string().max(64),
  bytes_out: z.int().min(0),
  bytes_in: z.int().min(0),
  /**
   * The number of connections in this sum. Connections beyond the listed ones are summed by host,
   * port and verdict, and finally by verdict alone.
   */
  folded: z.int().min(1).optional(),
  /** Names of secrets that the proxy added. */
  credentials: z.array(z.string().regex(PATTERNS.name)).max(16).optional(),
  verdict: z.enum([
    'allowed',
    'host_not_listed',
    'address_refused',
    'unresolvable',
    'malformed',
    'unknown_client',
    'sni_mismatch',
    'cap',
    'failed',
  ]),
})
export type Connection = z.infer<typeof Connection>
