// Tools as MCP clients see them: one contract → one definition, in a text that is made once for
// each version of a tool. Pure.

import type { LoadedTool } from '../directory/loaded-directory.ts'
import { hasReferences } from '../tools/mcp-result.ts'
import { OURS, RESULT_TOOL } from './protocol.ts'

type Schema = Readonly<Record<string, unknown>>
type Definition = {
  readonly name: string
  readonly description: string
  readonly inputSchema: Schema
  readonly outputSchema?: Schema
  readonly annotations: Readonly<Record<string, boolean>>
  readonly _meta?: Readonly<Record<string, unknown>>
}

const NEEDS_APPROVAL = 'Needs a human approval, which may take minutes; a pending answer is not a failure.'

/** Capabilities with which a call may change something outside of its own folder. */
const CHANGES: ReadonlySet<string> = new Set(['process_exec', 'network', 'filesystem_write'])

function definitionOf({ tool, capabilities, sensitive }: LoadedTool): Definition {
  const { name, version, digest, description, input_schema, output_schema, idempotent, egress } = tool
  const outputSchema = output_schema === undefined ? undefined : orPending(output_schema)
  return {
    name,
    description: sensitive ? `${description}\n\n${NEEDS_APPROVAL}` : description,
    inputSchema: { type: 'object', ...input_schema },
    ...(outputSchema === undefined ? {} : { outputSchema }),
    annotations: {
      readOnlyHint: !capabilities.some((capability) => CHANGES.has(capability)),
      destructiveHint: sensitive,
      idempotentHint: idempotent ?? false,
      openWorldHint: egress.hosts.length > 0 || egress.mode !== 'strict',
    },
    _meta: { [`${OURS}tool`]: { version, digest, sensitive } },
  }
}

/** The content of a result as long as the call has not ended, in place of the tool's output. */
const PENDING: Schema = {
  type: 'object',
  required: ['countersign'],
  properties: {
    countersign: {
      type: 'object',
      required: ['status', 'call'],
      properties: { status: { type: 'string' }, call: { type: 'string' } },
    },
  },
}

/**
 * Clients refuse a result that does not match, and a pending one never matches the tool's own
 * schema. A schema with references is left out: they would point elsewhere inside the union.
 */
const orPending = (schema: Schema): Schema | undefined =>
  hasReferences(schema) ? undefined : { type: 'object', anyOf: [schema, PENDING] }

const RESULT_DEFINITION: Definition = {
  name: RESULT_TOOL,
  description:
    'Reads a call that was answered as PENDING: waits for its end and returns its result. Also returns the further parts of a long output. It proposes nothing and may be repeated.',
  inputSchema: {
    type: 'object',
    properties: {
      call: { type: 'string', description: 'The id of the call, which begins with `call_`.' },
      wait_s: {
        type: 'integer',
        minimum: 0,
        maximum: 170,
        description: 'How long to wait for its end, in seconds.',
      },
      part: {
        type: 'integer',
        minimum: 1,
        description: 'Which part of a long output to return. Default: 1.',
      },
    },
    required: ['call'],
    additionalProperties: false,
  },
  annotations: { readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: false },
}
export const RESULT_TEXT = JSON.stringify(RESULT_DEFINITION)

const texts = new WeakMap<LoadedTool, string>()

/** The definition as JSON. Lists are put together from these. */
export function definitionText(tool: LoadedTool): string {
  const known = texts.get(tool) ?? JSON.stringify(definitionOf(tool))
  texts.set(tool, known)
  return known
}
