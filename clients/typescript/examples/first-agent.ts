// An agent with the AI SDK: the model chooses tool calls, Countersign decides and runs them, and a
// call that needs a human ends the turn until there is an answer.

import { Countersign } from '@countersign/agent'
import { guard } from '@countersign/agent/ai-sdk'
import { generateText, isStepCount, type ModelMessage } from 'ai'

const { COUNTERSIGN_URL: url = '', COUNTERSIGN_KEY: key = '', MODEL: model = '' } = process.env
const { tools, toolApproval, pending, answers } = await guard(new Countersign({ url, key }), {
  conversation: 'first-agent-1', // the same name after a restart finds the calls that wait
})
const messages: ModelMessage[] = [
  { role: 'user', content: 'How many words are in the text "who signs, answers"?' },
]
for (;;) {
  const stopWhen = isStepCount(8)
  const turn = await generateText({ model, tools, toolApproval, messages, stopWhen })
  if (turn.text !== '') console.log(turn.text)
  messages.push(...turn.response.messages)
  for (const call of await pending(messages)) console.log(`waits for an operator: ${call.page}`)
  const content = await answers(messages)
  if (content.length === 0) break
  messages.push({ role: 'tool', content })
}
