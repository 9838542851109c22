// The result of an upstream's tool: from the server's answer to an outcome and an output. The
// server is not trusted: what it declares about itself (`_meta`, annotations) is dropped, structured
// content must fit the accepted schema, and media are passed on only if the operator wants results
// whole. Pure.

import { canonical, type Json } from '../bytes/json.ts'
import type { Outcome } from '../plan/plan.ts'
import { schemaCheck } from '../schema/validate.ts'
import { isObject, type JsonObject, type RpcError } from './messages.ts'

type Schema = Readonly<Record<string, unknown>>

/** The title of a schema that marks an output as a whole result: blocks of content for a model. */
export const MCP_RESULT = 'A result of the Model Context Protocol'
export const isMcpResult = (output: Schema | undefined): boolean => output?.['title'] === MCP_RESULT

export type ToolResult = { readonly outcome: Outcome; readonly output: string }

const DETAIL_CHARS = 300
const WANTS_INPUT =
  'the tool asked for input (elicitation, sampling or roots), which Countersign does not provide'

/** `schema`: that of the accepted definition. `masked` replaces secrets in every text of a value. */
export function toolResult(
  schema: Schema | undefined,
  result: JsonObject,
  masked: <T>(value: T) => T,
): ToolResult {
  const { resultType = 'complete', content, structuredContent, isError } = result
  if (resultType === 'input_required')
    return { outcome: { kind: 'upstream_wants_input', detail: WANTS_INPUT }, output: '' }
  if (resultType !== 'complete' || (content !== undefined && !Array.isArray(content)))
    return { outcome: { kind: 'no_answer', detail: 'the answer is not the result of a tool' }, output: '' }
  const text = masked((content ?? []).map(textOf).join('\n'))
  if (isError === true)
    return {
      outcome: { kind: 'upstream_error', detail: text.slice(0, DETAIL_CHARS) || 'the tool failed' },
      output: text,
    }
  if (schema === undefined) {
    const isBare = text === '' && structuredContent !== undefined
    return { outcome: { kind: 'returned' }, output: isBare ? canonical(masked(structuredContent)) : text }
  }
  if (isMcpResult(schema)) {
    const structured = structuredContent === undefined ? {} : { structuredContent }
    return checked(schema, masked({ content: (content ?? []).map(blockOf), ...structured }))
  }
  if (structuredContent === undefined) return invalid('the result has no structured content', text)
  return checked(schema, masked(structuredContent)) // checked as masked, because only that is stored
}

function checked(schema: Schema, value: Json): ToolResult {
  const faults = schemaCheck(schema)(value)
  const reasons = faults.map(({ at, message }) => `\`${at}\`: ${message}`).join('; ')
  return faults.length === 0
    ? { outcome: { kind: 'returned' }, output: canonical(value) }
    : invalid(`the result does not fit the accepted output schema: ${reasons}`, canonical(value))
}

const invalid = (detail: string, output: string): ToolResult => ({
  outcome: { kind: 'invalid_output', detail },
  output,
})

/** An error of the protocol: the server refused the request. */
export function refusal({ code, message, data }: RpcError): Outcome {
  const wanted = isObject(data) && isObject(data['requiredCapabilities']) && code === -32021
  return wanted
    ? { kind: 'upstream_wants_input', detail: WANTS_INPUT }
    : { kind: 'upstream_error', detail: `the server refused the call (${code}): ${message}` }
}

/** The members of a block that are passed on, by its type. */
const MEMBERS: Readonly<Record<string, readonly string[]>> = {
  text: ['type', 'text'],
  image: ['type', 'data', 'mimeType'],
  audio: ['type', 'data', 'mimeType'],
  resource_link: ['type', 'uri', 'name', 'title', 'description', 'mimeType', 'size'],
}
const RESOURCE = ['uri', 'mimeType', 'text', 'blob']

const only = (object: JsonObject, members: readonly string[]): JsonObject =>
  Object.fromEntries(Object.entries(object).filter(([member]) => members.includes(member)))

/** One block of content as it is passed on; one of an unknown type is described. */
function blockOf(block: Json): JsonObject {
  if (isObject(block) && block['type'] === 'resource' && isObject(block['resource']))
    return { type: 'resource', resource: only(block['resource'], RESOURCE) }
  const type = isObject(block) ? wordIn(block['type']) : ''
  const members = Object.hasOwn(MEMBERS, type) ? MEMBERS[type] : undefined
  return isObject(block) && members !== undefined
    ? only(block, members)
    : { type: 'text', text: textOf(block) }
}

/** One block of content as text. Media are described, not passed on. */
function textOf(block: Json): string {
  if (!isObject(block)) return ''
  const { type, text, uri, mimeType, data, resource } = block
  if (type === 'text' && typeof text === 'string') return text
  if (type === 'resource_link' && typeof uri === 'string') return `[resource ${uri}]`
  if (type === 'resource' && isObject(resource)) {
    const { text: embedded, uri: from } = resource
    return typeof embedded === 'string' ? embedded : `[resource ${wordIn(from)}, not passed on]`
  }
  const size = typeof data === 'string' ? `, ${data.length} characters in base64` : ''
  return `[${wordIn(type).slice(0, 32)} ${wordIn(mimeType).slice(0, 64)}${size}, not passed on]`
}

/** Never converts: an object with a member `toString` would throw. */
const wordIn = (value: Json | undefined): string => (typeof value === 'string' ? value : 'unknown')
