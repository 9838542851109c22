// Tool definitions of upstreams: what a server lists, as received, and the contract that follows
// from a definition which an operator has accepted. Pure. U01: the digest covers the whole
// definition and the server's identity, so nothing in it can change unseen.

import { CONFUSABLE } from '../../shared/bytes/confusable-characters.ts'
import { canonical, type Json } from '../../shared/bytes/json.ts'
import { LIMITS } from '../../shared/limits.ts'
import { isObject, type JsonObject } from '../../shared/mcp/messages.ts'
import { definitionDigest, type UpstreamIdentity } from '../../shared/plan/mcp-server.ts'
import type { UpstreamExecutor } from '../../shared/plan/plan.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { ToolSpec } from '../../shared/wire/tools.ts'
import type { UpstreamSpec, UpstreamToolTerms } from '../../shared/wire/upstreams.ts'
import { completeUtf8Length } from '../platform/utf8-boundary.ts'
import { escapeConfusables } from '../platform/visible-text.ts'
import { upstreamHosts } from '../tools/planner.ts'
import { checkSchema } from '../tools/schema-rules.ts'
import { type ServerContract, serverContract } from '../tools/stdio-server.ts'
import { MirroredArguments, publishedSchema } from './published-schema.ts'

/** A tool as its server lists it. `name` is ours, `upstreamName` the server's. */
export type Definition = {
  readonly name: string
  readonly upstreamName: string
  readonly digest: string
  readonly json: JsonObject
}
/** The tools of one list, and those that can have no name here. */
export type ListedTools = {
  readonly tools: readonly Definition[]
  readonly refused: readonly { readonly tool: string; readonly why: string }[]
}

const TOOL_NAME = /^[a-z][a-z0-9_-]*$/

/** Parses a list. Of tools that would get the same name here, none gets it (U04). */
export function parseTools(items: readonly Json[], upstream: UpstreamIdentity): ListedTools {
  const refused: { tool: string; why: string }[] = []
  const byName = new Map<string, Definition[]>()
  for (const item of items) {
    const parsed = parseTool(item, upstream)
    if (parsed.ok) byName.set(parsed.value.name, [...(byName.get(parsed.value.name) ?? []), parsed.value])
    else refused.push(parsed.error)
  }
  for (const [name, same] of byName) {
    if (same.length === 1) continue
    byName.delete(name)
    const names = same.map(({ upstreamName }) => `\`${escapeConfusables(upstreamName)}\``).join(' and ')
    for (const { upstreamName } of same)
      refused.push({ tool: escapeConfusables(upstreamName), why: `${names} would all be called \`${name}\`` })
  }
  const tools = [...byName.values()].flat().sort((a, b) => (a.name < b.name ? -1 : 1))
  return { tools, refused: refused.slice(0, LIMITS.page) }
}

function parseTool(
  item: Json,
  upstream: UpstreamIdentity,
): Result<Definition, { tool: string; why: string }> {
  const given = isObject(item) ? item['name'] : undefined
  if (
    !isObject(item) ||
    typeof given !== 'string' ||
    given === '' ||
    given.length > LIMITS.upstream_tool_chars
  )
    return err({
      tool: '',
      why: `the name of a tool must have 1 to ${LIMITS.upstream_tool_chars} characters`,
    })
  const refuse = (why: string) => err({ tool: escapeConfusables(given), why })
  if (Buffer.byteLength(canonical(item)) > LIMITS.upstream_definition_bytes)
    return refuse(`its definition is larger than ${LIMITS.upstream_definition_bytes} bytes`)
  const name = nameFor(upstream.name, given)
  if (name.length > LIMITS.tool_name_chars)
    return refuse(
      `\`${name}\` is longer than ${LIMITS.tool_name_chars} characters; shorten the upstream’s name`,
    )
  if (!TOOL_NAME.test(name)) return refuse(`\`${name}\` can’t be the name of a tool`)
  return ok({ name, upstreamName: given, digest: definitionDigest(upstream, item), json: item })
}

/** Programs that offer tools to models allow few characters in names, and some no dots. */
const nameFor = (upstream: string, tool: string): string =>
  `${upstream}_${tool.toLowerCase().replace(/[^a-z0-9_-]/g, '_')}`

/** An upstream whose tool is turned into a contract. */
type Server = { readonly name: string; readonly spec: UpstreamSpec }

export const identityOf = ({ name, spec }: Server): UpstreamIdentity =>
  spec.kind === 'http' ? { name, url: spec.url } : { name, command: spec.command }

/** The contract of an accepted tool, or why the definition can't be accepted. */
export function toolContract(
  server: Server,
  definition: Definition,
  terms: UpstreamToolTerms,
): Result<ToolSpec, readonly string[]> {
  const { json } = definition
  const mirrored = new MirroredArguments()
  const [input, output] = [json['inputSchema'], json['outputSchema']]
  const inputSchema = publishedSchema(input ?? null, mirrored)
  const outputSchema = output === undefined ? undefined : publishedSchema(output, null)
  const faults = [
    ...mirrored.faults,
    ...faultsIn('inputSchema', inputSchema),
    ...(outputSchema === undefined ? [] : faultsIn('outputSchema', outputSchema)),
  ]
  if (faults.length > 0) return err(faults)
  const { capabilities, groups, sensitive, idempotent, approval_ttl_s, result } = terms
  return ok({
    description: publishedText(descriptionIn(json)) || 'The server gives no description.',
    input_schema: inputSchema as Record<string, unknown>, // `faultsIn` has checked that it is an object
    ...(outputSchema === undefined ? {} : { output_schema: outputSchema as Record<string, unknown> }),
    capabilities,
    ...(groups === undefined ? {} : { groups }),
    sensitive,
    idempotent,
    ...(approval_ttl_s === undefined ? {} : { approval_ttl_s }),
    ...(result === undefined ? {} : { result }),
    ...wayTo(server, definition, mirrored),
  })
}

/** How a call reaches the server: from the edge, or in a process of a worker. */
function wayTo(
  { name, spec }: Server,
  { upstreamName: tool, digest }: Definition,
  { found }: MirroredArguments,
): ServerContract | HttpContract {
  if (spec.kind === 'stdio')
    return serverContract(spec, { method: 'tools/call', upstream: name, tool, definition: digest })
  const executor: UpstreamExecutor = {
    kind: 'upstream',
    upstream: name,
    url: spec.url,
    tool,
    definition: digest,
    ...(found.length === 0 ? {} : { mirrored: [...found] }),
    ...(spec.auth === undefined ? {} : { auth: spec.auth }),
  }
  return {
    executor,
    egress: { mode: 'strict', hosts: upstreamHosts(executor) },
    workspace: 'call',
    limits: spec.limits ?? {},
  }
}
type HttpContract = Pick<ToolSpec, 'executor' | 'egress' | 'workspace' | 'limits'>

/** Why operators can't accept a definition; empty if they can. */
export function faultsOf(server: Server, definition: Definition): readonly string[] {
  const contract = toolContract(server, definition, { capabilities: [], sensitive: true, idempotent: false })
  return contract.ok ? [] : contract.error
}

function faultsIn(member: string, schema: Json): string[] {
  if (!isObject(schema)) return [`${member}: not an object`]
  if (CONFUSABLE.test(canonical(schema)))
    return [`${member}: a name or a value in it has invisible characters`]
  const checked = checkSchema(schema)
  if (checked.ok) return []
  const { detail, errors = [] } = checked.error
  return errors.length === 0
    ? [`${member}: ${detail}`]
    : errors.map(({ at, message }) => escapeConfusables(`${member}${at}: ${message}`))
}

export const descriptionIn = (json: JsonObject): string =>
  [json['description'], json['title']].find((text): text is string => typeof text === 'string') ?? ''

const EACH_CONFUSABLE = new RegExp(CONFUSABLE, 'gu')

/**
 * A text of a server as agents see it: without control, bidirectional, tag and other invisible
 * characters, which could hide instructions from the operator who accepted it, and with a limited
 * length.
 */
export function publishedText(text: string): string {
  const visible = text.replace(/[\t\p{Zs}]/gu, ' ').replace(EACH_CONFUSABLE, '')
  const bytes = Buffer.from(visible).subarray(0, LIMITS.upstream_description_chars)
  return bytes.subarray(0, completeUtf8Length(bytes)).toString()
}
