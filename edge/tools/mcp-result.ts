// The output of a tool that says `result: "mcp"`: content blocks for a model, as MCP defines them.
// The worker checks it against this schema, like any output against the tool's own.

import { MCP_RESULT } from '../../shared/mcp/tool-result.ts'
import type { Tool } from '../../shared/wire/tools.ts'

type Schema = Readonly<Record<string, unknown>>

const text = { type: 'string' } as const
const REFERENCES = /"\$(?:ref|anchor|id|dynamicRef|dynamicAnchor)":/
/** References in a schema would change their target inside another schema. */
export const hasReferences = (schema: Schema): boolean => REFERENCES.test(JSON.stringify(schema))

const mcpResultSchema = (own: Schema | undefined): Schema => ({
  title: MCP_RESULT,
  type: 'object',
  required: ['content'],
  additionalProperties: false,
  properties: {
    content: {
      type: 'array',
      maxItems: 64,
      items: {
        type: 'object',
        required: ['type'],
        properties: {
          type: { enum: ['text', 'image', 'audio', 'resource_link', 'resource'] },
          text,
          data: text,
          mimeType: text,
          uri: text,
          name: text,
        },
      },
    },
    structuredContent: own === undefined || hasReferences(own) ? { type: 'object' } : own,
    isError: { type: 'boolean' },
  },
  // Clients refuse a result without structured content if the tool declares its schema.
  ...(own === undefined ? {} : { anyOf: [{ required: ['structuredContent'] }, { required: ['isError'] }] }),
})

/** The schema that a tool's standard output has to match, if there is one. */
export const outputSchemaOf = ({
  result,
  output_schema,
}: Pick<Tool, 'result' | 'output_schema'>): Schema | undefined =>
  result === 'mcp' ? mcpResultSchema(output_schema) : output_schema
