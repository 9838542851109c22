// What exactly would run. The edge makes a plan, policy sees it, the digest covers it, the worker obeys it to the letter.

import { z } from 'zod'
import { TOLD_CHARS } from '../bytes/signable-text.ts'
import { PATTERNS } from '../ids.ts'
import { LIMITS, MAX_BUDGET, MAX_LIMITS, MAX_SKILL_LIMITS } from '../limits.ts'
import { InputFiles } from './call-files.ts'

const bounded = (max: number) => z.int().min(1).max(max)

export const Limits = z.strictObject({
  timeout_ms: bounded(MAX_LIMITS.timeout_ms),
  cpu_ms: bounded(MAX_LIMITS.cpu_ms),
  memory_bytes: bounded(MAX_LIMITS.memory_bytes),
  pids: bounded(MAX_LIMITS.pids),
  open_files: bounded(MAX_LIMITS.open_files),
  file_bytes: bounded(MAX_LIMITS.file_bytes),
  workspace_bytes: bounded(MAX_LIMITS.workspace_bytes),
  /** Files and folders of a workspace on disk. Plans of before have none; new ones always do. */
  workspace_inodes: bounded(MAX_LIMITS.workspace_inodes).optional(),
  output_bytes: bounded(MAX_LIMITS.output_bytes),
  /** Through the proxy of a call, both ways, and attempts to connect. Plans of before have none; new ones always do. */
  net_bytes: bounded(MAX_LIMITS.net_bytes).optional(),
  net_connections: bounded(MAX_LIMITS.net_connections).optional(),
})
export type Limits = z.infer<typeof Limits>

/** What a run may use: calls, the time that they execute, and denials. */
export const Budget = z.strictObject({
  max_calls_per_run: z.int().min(0).max(MAX_BUDGET.max_calls_per_run),
  execution_timeout_ms: z.int().min(1).max(MAX_BUDGET.execution_timeout_ms),
  max_denied_per_run: z.int().min(0).max(MAX_BUDGET.max_denied_per_run),
})
export type Budget = z.infer<typeof Budget>

export const Tier = z.enum(['B', 'C'])
export type Tier = z.infer<typeof Tier>

/** none: no restriction (tier B only). preflight: named hosts are checked, not enforced. strict: enforced by the kernel. */
export const EgressMode = z.enum(['none', 'preflight', 'strict'])
export type EgressMode = z.infer<typeof EgressMode>

/** `host:port`, `host` (any of 80 and 443), or `.suffix[:port]`, in lower case. */
export const HostPattern = z
  .string()
  .max(260)
  .regex(
    /^\.?(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)(?:\.[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)*(?::[1-9][0-9]{0,4})?$/,
    'is not a host: write `api.example.com`, `api.example.com:8443` or `.example.com`, in lower case, without `https://` and without a path',
  )

/** One host and one port. */
export const HostPort = HostPattern.refine(
  (host) => /^[^.].*:[0-9]+$/.test(host),
  'name one host and its port: `api.example.com:80`',
)

/** A secret that the proxy adds to requests to one host, so that the tool never holds it. */
export const Credential = z.strictObject({
  secret: z.string().regex(PATTERNS.name),
  host: HostPort,
  /** Of those that carry credentials: with another one a request could be made to mean something else. */
  header: z
    .string()
    .max(64)
    .regex(
      /^(?:authorization|cookie|x-[a-z0-9-]+|[a-z0-9-]+-(?:token|key))$/,
      'is no header for credentials; write it in lower case',
    ),
  /** What the header says, with `{}` where the value stands; the value alone if it says nothing. */
  format: z
    .string()
    .max(128)
    .regex(
      /^[\x20-\x7a|~]*\{\}[\x20-\x7a|~]*$/,
      'must be plain text with one `{}`, which stands for the value: `Bearer {}`',
    )
    .optional(),
  /** Over TLS, and then only there: the proxy ends it for this host, by an authority of this call that no other sandbox knows. */
  tls: z.literal('intercept').optional(),
})
export type Credential = z.infer<typeof Credential>
/** One host is told one thing in one header. */
export const Credentials = z
  .array(Credential)
  .max(16)
  .refine(
    (all) => new Set(all.map(({ host, header }) => `${host} ${header}`)).size === all.length,
    'name each header of a host once',
  )

const NUL_FREE = /^[^\0]*$/
export const ArgvItem = z.string().max(LIMITS.argv_item_bytes).regex(NUL_FREE, 'NUL is not allowed')
export const Argv = z.array(ArgvItem).min(1).max(LIMITS.argv_items)
export const EnvName = z
  .string()
  .regex(
    /^[A-Z_][A-Z0-9_]{0,63}$/,
    'must be the name of a variable: 1 to 64 of `A-Z`, `0-9` and `_`, not beginning with a digit',
  )

/** Where the process's standard input comes from: nothing, all arguments as canonical JSON, or the text of one argument. */
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
    env: z.record(EnvName, ArgvItem),
    /** Relative to the workspace; never leaves it. */
    cwd: z.string().max(4096).regex(NUL_FREE),
    /** JSON Schema of the one value on standard output, where the tool promises one. */
    output: z.record(z.string(), z.unknown()).optional(),
  }),
  egress: z.strictObject({ mode: EgressMode, hosts: z.array(HostPattern).max(64) }),
  /** One of the worker's own sandbox profiles; a worker without it refuses. */
  profile: z.string().regex(PATTERNS.name).optional(),
  /** Handed to the process. */
  secrets: z.array(z.string().regex(PATTERNS.name)).max(32),
  /** Handed to its proxy alone. */
  credentials: Credentials.optional(),
  /** call: a fresh folder, gone afterwards. run: one folder that the calls of a run share on one worker. */
  workspace: Workspace,
  /** Files that the call brings, read-only in a folder of their own; absent where it brings none. */
  files: InputFiles.optional(),
  /** Files that the call leaves in a folder of their own are kept. */
  outputs: z.literal(true).optional(),
  limits: Limits,
  /** Only where the worker counts and ends all processes of the call together, by a cgroup. Absent: where it can. */
  cgroup: z.literal(true).optional(),
})
export type ProcessPlan = z.infer<typeof ProcessPlan>

/** What a skill may import of its host: the interfaces of its world. A plan names those that a call is granted. */
export const SkillCapability = z.enum(['log', 'clock', 'random', 'http', 'secrets', 'kv', 'channel'])
export type SkillCapability = z.infer<typeof SkillCapability>
export const HttpMethod = z.enum(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'])
export type HttpMethod = z.infer<typeof HttpMethod>
/** What the keys of its storage begin with that a skill may use; the empty one is all of them. */
export const KeyPrefix = z
  .string()
  .max(128)
  .regex(
    /^(?:[A-Za-z0-9][A-Za-z0-9_./-]*)?$/,
    'must be the beginning of keys: `A-Z`, `a-z`, `0-9`, `_`, `.`, `/` and `-`',
  )
  .refine((prefix) => !prefix.includes('..'), 'holds `..`')
export const SkillVersion = z
  .string()
  .max(32)
  .regex(/^(?:0|[1-9][0-9]*)\.(?:0|[1-9][0-9]*)\.(?:0|[1-9][0-9]*)$/, 'write three numbers: `1.0.0`')

/** What its isolate is given. Fuel is what its code pays with, and its memory was bounded when it was published. */
export const SkillLimits = z.strictObject({
  timeout_ms: bounded(MAX_SKILL_LIMITS.timeout_ms),
  fuel: bounded(MAX_SKILL_LIMITS.fuel),
  memory_bytes: bounded(MAX_SKILL_LIMITS.memory_bytes),
  output_bytes: bounded(MAX_SKILL_LIMITS.output_bytes),
  /** Of its requests together, both ways, and how many they may be. Absent where it makes none. */
  net_bytes: bounded(MAX_SKILL_LIMITS.net_bytes).optional(),
  net_connections: bounded(MAX_SKILL_LIMITS.net_connections).optional(),
})
export type SkillLimits = z.infer<typeof SkillLimits>

/** One version of a skill and one of its tools. `digest`: of manifest and component, as their publisher signed them. */
export type SkillExecutor = z.infer<typeof SkillExecutor>
export const SkillExecutor = z.strictObject({
  kind: z.literal('skill'),
  skill: z.string().regex(PATTERNS.name),
  version: SkillVersion,
  digest: z.string().regex(PATTERNS.sha256),
  tool: z.string().regex(PATTERNS.name),
  capabilities: z.array(SkillCapability).max(8),
  /** Of `http`: how it may ask; whom, egress says. */
  methods: z.array(HttpMethod).max(8).optional(),
  /** Of `kv`. */
  kv: z.array(KeyPrefix).max(16).optional(),
  /** Of `channel`: those that it may write to. */
  channels: z.array(z.string().regex(PATTERNS.name)).max(16).optional(),
})

/** Tier A: an isolate of the edge. It reaches nothing but what it was granted. */
export const SkillPlan = z.strictObject({
  tier: z.literal('A'),
  executor: SkillExecutor.extend({ output: z.record(z.string(), z.unknown()).optional() }),
  egress: z.strictObject({ mode: z.literal('strict'), hosts: z.array(HostPattern).max(64) }),
  /** That it may read. */
  secrets: z.array(z.string().regex(PATTERNS.name)).max(32),
  /** That the edge adds to what it asks, so that it never holds them. */
  credentials: Credentials.optional(),
  limits: SkillLimits,
})
export type SkillPlan = z.infer<typeof SkillPlan>

export const Plan = z.discriminatedUnion('tier', [ProcessPlan, SkillPlan])
export type Plan = ProcessPlan | SkillPlan

/** The files that its call brings; a skill’s brings none. */
export const broughtBy = (plan: Plan | null | undefined): ProcessPlan['files'] =>
  plan === null || plan === undefined || plan.tier === 'A' ? undefined : plan.files

/** All that a claim hands over, to the process or to its proxy. */
type Given = {
  readonly secrets?: readonly string[] | undefined
  readonly credentials?: readonly Credential[] | undefined
}
export const secretsOf = ({ secrets = [], credentials = [] }: Given): string[] => [
  ...new Set([...secrets, ...credentials.map(({ secret }) => secret)]),
]

/** Why a worker would not begin. */
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
])

/** How an execution ended, as the worker saw it. One shape for every ending. */
export const Outcome = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('exit'), code: z.int().min(0).max(255) }),
  z.strictObject({ kind: z.literal('signal'), signal: z.string().max(16) }),
  z.strictObject({ kind: z.literal('timeout') }),
  z.strictObject({ kind: z.literal('output_cap') }),
  /** The kernel ended it: all of the call together wanted more memory than its limit, what it wrote into memory included. */
  z.strictObject({ kind: z.literal('memory_cap') }),
  /** All of the call together took more CPU time than its limit, where the worker counts that; elsewhere a process alone is ended by SIGXCPU. */
  z.strictObject({ kind: z.literal('cpu_cap') }),
  /** Its workspace on disk took more bytes or files than its limit. */
  z.strictObject({ kind: z.literal('workspace_cap') }),
  /** It ended well, and what it wrote is not the result that its tool promises. */
  z.strictObject({ kind: z.literal('invalid_output'), detail: z.string().max(TOLD_CHARS.detail) }),
  z.strictObject({ kind: z.literal('cancelled') }),
  /** Of a skill: it returned a result, or an error of its own; it trapped; it had paid for more than it had; or it used what it had not been granted. */
  z.strictObject({ kind: z.literal('returned') }),
  z.strictObject({ kind: z.literal('skill_error'), detail: z.string().max(TOLD_CHARS.detail) }),
  z.strictObject({ kind: z.literal('trap'), detail: z.string().max(TOLD_CHARS.detail) }),
  z.strictObject({ kind: z.literal('fuel_exhausted') }),
  z.strictObject({ kind: z.literal('capability_denied'), detail: z.string().max(TOLD_CHARS.detail) }),
  /** The worker would not run it: the plan asks for what this host has not proven or has no more, or names a host it may not reach. */
  z.strictObject({
    kind: z.literal('refused'),
    code: RefusalCode,
    detail: z.string().max(TOLD_CHARS.detail),
  }),
  /** The sandbox itself failed before or beside the tool; what the tool did, if anything, did not finish. */
  z.strictObject({ kind: z.literal('infra'), detail: z.string().max(TOLD_CHARS.detail) }),
])
export type Outcome = z.infer<typeof Outcome>

/** What is known of one output stream: every byte is counted and digested, `kept` bytes of it (head, then tail) are sent. */
export const StreamSummary = z.strictObject({
  bytes: z.int().min(0),
  sha256: z.string().regex(PATTERNS.sha256),
  kept: z.int().min(0),
  truncated: z.boolean(),
})
export type StreamSummary = z.infer<typeof StreamSummary>

/** This many connections are listed one by one (about 20 kB of a statement); the rest are summed up. */
export const CONNECTIONS_TOLD = 128

/** One connection that the egress proxy saw, or the sum of many. */
export const Connection = z.strictObject({
  host: z.string().max(TOLD_CHARS.host),
  port: z.int().min(0).max(65535),
  address: z.string().max(64),
  bytes_out: z.int().min(0),
  bytes_in: z.int().min(0),
  /** Of how many this is the sum; beyond the first, they are added up by host, port and verdict, and lastly by verdict alone. */
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
