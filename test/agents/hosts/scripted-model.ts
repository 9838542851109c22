// A scripted model for the AI SDK: its own `MockLanguageModelV4`.

import { MockLanguageModelV4 } from 'ai/test'
import type { Wanted } from './host.ts'

const USAGE = {
  inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: 1, text: 1, reasoning: 0 },
}

/** Wants the tool until the prompt holds its result; then repeats that. */
export const modelWanting = ({ id, tool, args }: Wanted): MockLanguageModelV4 =>
  new MockLanguageModelV4({
    doGenerate: async ({ prompt }) => {
      const last = prompt.at(-1)
      const part = last?.role === 'tool' ? last.content.find(({ type }) => type === 'tool-result') : undefined
      if (part?.type === 'tool-result')
        return {
          content: [{ type: 'text', text: textOf(part.output) }],
          finishReason: { unified: 'stop', raw: undefined },
          usage: USAGE,
          warnings: [],
        }
      return {
        content: [{ type: 'tool-call', toolCallId: id, toolName: tool, input: JSON.stringify(args) }],
        finishReason: { unified: 'tool-calls', raw: undefined },
        usage: USAGE,
        warnings: [],
      }
    },
  })

const textOf = (output: { readonly type: string; readonly value?: unknown }): string =>
  output.type === 'text' ? String(output.value) : JSON.stringify(output)
