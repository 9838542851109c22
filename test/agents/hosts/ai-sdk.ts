// The AI SDK with its own `MockLanguageModelV4`.

import { generateText, isStepCount, type ModelMessage } from 'ai'
import { MockLanguageModelV4 } from 'ai/test'
import type { Countersign } from '../../../clients/typescript/src/client.ts'
import { guard } from '../../../clients/typescript/src/guard/ai-sdk.ts'
import type { Host, Outcome, Wanted } from './host.ts'

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
          content: [{ type: 'text', text: JSON.stringify(part.output) }],
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

async function turn(
  agent: Countersign,
  conversation: string,
  wanted: Wanted,
  saved: string,
): Promise<Outcome> {
  const messages = JSON.parse(saved) as ModelMessage[] // our own text
  const { tools, toolApproval, pending, answers } = await guard(agent, { conversation })
  const content = await answers(messages)
  if (content.length > 0) messages.push({ role: 'tool', content })
  const result = await generateText({
    model: modelWanting(wanted),
    tools,
    toolApproval,
    messages,
    stopWhen: isStepCount(4),
  })
  messages.push(...result.response.messages)
  const waiting = await pending(messages)
  if (waiting.length === 0) return { kind: 'finished', read: result.text }
  return {
    kind: 'paused',
    shown: JSON.stringify([waiting, result.content]),
    resume: (later) => turn(later, conversation, wanted, JSON.stringify(messages)),
  }
}

export const aiSdk: Host = {
  name: 'AI SDK',
  begin: (agent, conversation, wanted) =>
    turn(agent, conversation, wanted, JSON.stringify([{ role: 'user', content: 'do it' }])),
}
