// Mastra with its own mock of a language model and an in-memory store.

import { Agent } from '@mastra/core/agent'
import { Mastra } from '@mastra/core/mastra'
import { InMemoryStore } from '@mastra/core/storage'
import { MastraLanguageModelV2Mock } from '@mastra/core/test-utils/llm-mock'
import { createTool } from '@mastra/core/tools'
import type { Countersign } from '../../../clients/typescript/src/client.ts'
import { guard } from '../../../clients/typescript/src/guard/mastra.ts'
import type { Host, Outcome, Wanted } from './host.ts'

const USAGE = { inputTokens: 1, outputTokens: 1, totalTokens: 2 }

/** Wants the tool until the prompt holds its result; then repeats that. */
export const modelWanting = ({ id, tool, args }: Wanted) =>
  new MastraLanguageModelV2Mock({
    doGenerate: async ({ prompt }) => {
      const last = prompt.at(-1)
      const part = last?.role === 'tool' ? last.content[0] : undefined
      return part === undefined
        ? {
            content: [{ type: 'tool-call', toolCallId: id, toolName: tool, input: JSON.stringify(args) }],
            finishReason: 'tool-calls',
            usage: USAGE,
            warnings: [],
          }
        : {
            content: [{ type: 'text', text: JSON.stringify(part.output) }],
            finishReason: 'stop',
            usage: USAGE,
            warnings: [],
          }
    },
  })

async function agentFor(agent: Countersign, conversation: string, wanted: Wanted, storage: InMemoryStore) {
  const tools = await guard(agent, { conversation, createTool })
  const tester = new Agent({
    id: 'tester',
    name: 'tester',
    instructions: 'Do what the user asks.',
    model: modelWanting(wanted),
    tools,
  })
  return new Mastra({ agents: { tester }, storage, logger: false }).getAgent('tester')
}

export const mastra: Host = {
  name: 'Mastra',
  begin: async (agent, conversation, wanted) => {
    const storage = new InMemoryStore()
    const first = await agentFor(agent, conversation, wanted, storage)
    const result = await first.generate('do it')
    return outcomeOf(result, async (later) => {
      const resumed = await agentFor(later, conversation, wanted, storage)
      return resumed.resumeGenerate({}, { runId: result.runId ?? '', toolCallId: wanted.id })
    })
  },
}

type Generated = Awaited<ReturnType<Agent['generate']>>

const outcomeOf = (result: Generated, resume: (agent: Countersign) => Promise<Generated>): Outcome =>
  result.finishReason === 'suspended'
    ? {
        kind: 'paused',
        shown: JSON.stringify(result.suspendPayload),
        resume: async (later) => outcomeOf(await resume(later), resume),
      }
    : { kind: 'finished', read: result.text }
