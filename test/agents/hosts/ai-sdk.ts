// The AI SDK with its own `MockLanguageModelV4`.

import { generateText, isStepCount, type ModelMessage } from 'ai'
import type { Countersign } from '../../../clients/typescript/src/client.ts'
import { guard } from '../../../clients/typescript/src/guard/ai-sdk.ts'
import type { Host, Outcome, Wanted } from './host.ts'
import { modelWanting } from './scripted-model.ts'

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
