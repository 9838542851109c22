// The result of an upstream's tool: from the server's answer to an outcome and an output. The
// server is not trusted: only text and structured content are passed on, what it declares about
// itself (`_meta`, annotations) is dropped, and structured content must fit the accepted schema.
// Pure.

import { canonical, type Json } from '../../shared/bytes/json.ts'
import type { Outcome, UpstreamPlan } from '../../shared/plan/plan.ts'
import { schemaCheck } from '../../shared/schema/validate.ts'
import { isObject } from './definition.ts'
import type { RpcError } from './messages.ts'

type JsonObject = { readonly [member: string]: Json }
export type ToolResult = { readonly outcome: Outcome; readonly output: string }

const DETAIL_CHARS = 300
const WANTS_INPUT =
  'the tool asked for input (elicitation, sampling or roots), which Countersign does not provide'

/** `masked` replaces secrets in every text of a value. */
export function toolResult(
  { executor: { output: schema } }: UpstreamPlan,
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
  if (structuredContent === undefined) return invalid('the result has no structured content', text)
  const value = masked(structuredContent) // checked as masked, because only that is stored
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

/** One block of content as text. Media are described, not passed on. */
function textOf(block: Json): string {
  if (!isObject(block)) return ''
  const { type, text, uri, mimeType, data, resource } = block
  if (type === 'text' && typeof text === 'string') return text
  if (type === 'resource_link' && typeof uri === 'string') return `[resource ${uri}]`
  if (type === 'resource' && isObject(resource)) {
    const { text: embedded, uri: from } = resource
    return typeof embedded === 'string' ? embedded : `[resource ${String(from)}, not passed on]`
  }
  const size = typeof data === 'string' ? `, ${data.length} characters in base64` : ''
  return `[${String(type).slice(0, 32)} ${String(mimeType).slice(0, 64)}${size}, not passed on]`
}
