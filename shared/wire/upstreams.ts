// Upstreams: MCP servers whose tools agents call through Countersign, as operators store them,
// and their tools as operators see and accept them.

import { z } from 'zod'
import { Name, Sha256, Time, ToolName } from '../fields.ts'
import { PATTERNS } from '../ids.ts'
import { LIMITS } from '../limits.ts'
import { ServerProcess } from '../plan/executor.ts'
import { Credentials, HostPattern, Limits, UpstreamAuth, UpstreamLimits, Workspace } from '../plan/plan.ts'
import { Capability } from './tools.ts'

export const UpstreamName = z
  .string()
  .regex(PATTERNS.upstream, 'must be 1 to 24 of `a-z`, `0-9` and `-`, beginning with a letter')

export const HttpUpstream = z.strictObject({
  /** A server that speaks MCP over Streamable HTTP, which the edge calls. */
  kind: z.literal('http'),
  /** Part of the identity of every tool: with another address, each has to be accepted again. */
  url: z.string().min(1).max(LIMITS.upstream_url_chars),
  /** The secret's `tools` must list `upstream:NAME`, and its `hosts` the host that receives it. */
  auth: UpstreamAuth.optional(),
  /**
   * Before a call, the list of tools is compared again if that was this long ago. 0: before each
   * call.
   */
  look_ms: z.int().min(0).max(LIMITS.upstream_look_ms).optional(),
  limits: UpstreamLimits.omit({ net_connections: true }).partial().optional(),
})
export type HttpUpstream = z.infer<typeof HttpUpstream>

export const StdioUpstream = ServerProcess.extend({
  /**
   * A server that speaks MCP over standard input and output, which a worker starts in tier C for
   * each call. With another command each tool has to be accepted again.
   */
  kind: z.literal('stdio'),
  /** The hosts that it may reach, through the proxy of its call. */
  hosts: z.array(HostPattern).max(64).optional(),
  /** Secrets that it reads as files. The secret's `tools` must list `upstream:NAME`. */
  secrets: z.array(Name).max(32).optional(),
  /** Secrets that only its proxy receives. Their `tools` must list `upstream:NAME`. */
  credentials: Credentials.optional(),
  workspace: Workspace.optional(),
  /** The pool whose workers list its tools. A call runs in the pool of its agent. */
  pool: Name.optional(),
  limits: Limits.partial().optional(),
})
export type StdioUpstream = z.infer<typeof StdioUpstream>

export const UpstreamSpec = z.discriminatedUnion('kind', [HttpUpstream, StdioUpstream])
export type UpstreamSpec = z.infer<typeof UpstreamSpec>

/**
 * new: never accepted, so agents don't see it. accepted: agents may call it. changed: it was
 * accepted and the server has shown another definition since, so that calls are refused. gone:
 * accepted, and no longer listed by the server. refused: it can't be accepted, for the reasons in
 * `faults`.
 */
export const UpstreamToolState = z.enum(['new', 'accepted', 'changed', 'gone', 'refused'])
export type UpstreamToolState = z.infer<typeof UpstreamToolState>

/** The operator's statement about a tool. Nothing of it comes from the server. */
export const UpstreamToolTerms = z.strictObject({
  capabilities: z.array(Capability).max(6).default([]),
  groups: z.array(Name).max(32).optional(),
  /** Whether its calls need an approval. The server's own hints decide nothing. */
  sensitive: z.boolean().default(true),
  /** For clients alone: a call whose end is unknown is not repeated in any case. */
  idempotent: z.boolean().default(false),
  approval_ttl_s: z.int().min(1).max(LIMITS.approval_ttl_max_s).optional(),
  /**
   * `mcp`: the output of a call is the server's result as JSON, `{content, structuredContent?}`, which
   * MCP clients get with its images, audio and resources. Otherwise it is the result's text.
   */
  result: z.literal('mcp').optional(),
})
export type UpstreamToolTerms = z.infer<typeof UpstreamToolTerms>

export const UpstreamTool = z.strictObject({
  /** The name that agents use. */
  name: ToolName,
  /** The name that the server uses, with invisible characters escaped. */
  upstream_name: z.string(),
  state: UpstreamToolState,
  /** The digest of the accepted definition, and of the one that the server shows now. */
  pinned: Sha256.nullable(),
  seen: Sha256.nullable(),
  /** The description that the server shows now, with invisible characters escaped. */
  description: z.string(),
  faults: z.array(z.string()),
  terms: UpstreamToolTerms.nullable(),
  accepted_by: Name.nullable(),
  accepted_at_ms: Time.nullable(),
})
export type UpstreamTool = z.infer<typeof UpstreamTool>

const state = {
  name: UpstreamName,
  put_by: Name,
  put_at_ms: Time,
  /** When its tools were last read, and the generation of the protocol that it spoke then. */
  looked_at_ms: Time.nullable(),
  era: z.enum(['modern', 'legacy']).nullable(),
  /** Why the last look failed; null if it succeeded. */
  fault: z.string().nullable(),
}
/** The number of tools in each state. */
const UpstreamToolCounts = z.strictObject({
  new: z.int(),
  accepted: z.int(),
  changed: z.int(),
  gone: z.int(),
  refused: z.int(),
})
const counts = { tools: UpstreamToolCounts }
export const Upstream = z.discriminatedUnion('kind', [
  HttpUpstream.extend({ ...state, ...counts }),
  StdioUpstream.extend({ ...state, ...counts }),
])
export type Upstream = z.infer<typeof Upstream>

const whole = {
  tools: z.array(UpstreamTool),
  /** Listed tools that can have no name here, and why. */
  refused: z.array(z.strictObject({ tool: z.string(), why: z.string() })),
}
export const UpstreamWithTools = z.discriminatedUnion('kind', [
  HttpUpstream.extend({ ...state, ...whole }),
  StdioUpstream.extend({ ...state, ...whole }),
])
export type UpstreamWithTools = z.infer<typeof UpstreamWithTools>

/** Both definitions as JSON text with invisible characters escaped, and where they differ. */
export const UpstreamDiff = z.strictObject({
  tool: UpstreamTool,
  pinned: z.string().nullable(),
  seen: z.string().nullable(),
  changes: z.array(z.strictObject({ at: z.string(), was: z.string(), is: z.string() })),
})
export type UpstreamDiff = z.infer<typeof UpstreamDiff>

/** `definition`: the digest that the operator has looked at. Another one refuses the request. */
export const UpstreamAcceptance = UpstreamToolTerms.extend({ definition: Sha256 })
export type UpstreamAcceptance = z.infer<typeof UpstreamAcceptance>

/** Kinds of entries in the journal of upstreams. */
export type UpstreamEntry =
  | 'upstream.put'
  | 'upstream.removed'
  | 'upstream.tool_accepted'
  | 'upstream.tool_withdrawn'
  | 'upstream.tool_quarantined'
