// A tool's JSON Schema in the form of the Standard Schema and Standard JSON Schema specifications,
// which the AI SDK and Mastra take. It validates nothing: the edge checks arguments against the
// registered schema, and its answer says what is wrong.

import type { ToolSummary } from '../api.ts'

export type StandardToolSchema = {
  readonly '~standard': {
    readonly version: 1
    readonly vendor: 'countersign'
    readonly validate: (value: unknown) => { readonly value: unknown }
    readonly jsonSchema: {
      readonly input: () => Record<string, unknown>
      readonly output: () => Record<string, unknown>
    }
    readonly types?: { readonly input: unknown; readonly output: unknown }
  }
}

export function standardSchema({ input_schema }: ToolSummary): StandardToolSchema {
  const schema = (): Record<string, unknown> => ({ ...input_schema })
  return {
    '~standard': {
      version: 1,
      vendor: 'countersign',
      validate: (value) => ({ value }),
      jsonSchema: { input: schema, output: schema },
    },
  }
}
