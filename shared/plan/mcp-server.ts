// An MCP server that a worker starts for one call and speaks with over standard input and output:
// what is asked of it, and the digest that pins the definition of a tool. Edge and worker compute
// the same digest.

import { z } from 'zod'
import { digestOf, type Json } from '../bytes/json.ts'
import { PATTERNS } from '../ids.ts'
import { LIMITS } from '../limits.ts'

const upstream = z.string().regex(PATTERNS.upstream)

/**
 * One request to a server. `definition`: the digest of the definition that was accepted; the worker
 * compares it before it sends the call.
 */
export const McpRequest = z.discriminatedUnion('method', [
  z.strictObject({
    method: z.literal('tools/call'),
    upstream,
    /** The tool's name at the server. */
    tool: z.string().min(1).max(LIMITS.upstream_tool_chars),
    definition: z.string().regex(PATTERNS.sha256),
  }),
  z.strictObject({ method: z.literal('tools/list'), upstream }),
])
export type McpRequest = z.infer<typeof McpRequest>
export type McpToolCall = Extract<McpRequest, { method: 'tools/call' }>

/** The identity that every pin of an upstream covers: its name, and its address or command. */
export type UpstreamIdentity =
  | { readonly name: string; readonly url: string }
  | { readonly name: string; readonly command: readonly string[] }

const DIGEST_DOMAIN = 'countersign upstream tool v1'

/** The pin of a tool: everything that its server says about it, and the server's identity (U01). */
export const definitionDigest = (identity: UpstreamIdentity, tool: Json): string =>
  digestOf({ domain: DIGEST_DOMAIN, upstream: identityOf(identity), tool })

const identityOf = (identity: UpstreamIdentity): Json =>
  'url' in identity
    ? { name: identity.name, url: identity.url }
    : { name: identity.name, command: [...identity.command] }
