// The agent of `npm run demo`: the AI SDK with a scripted model and the tools of Countersign. It
// reads the edge's address and its key from COUNTERSIGN_URL and COUNTERSIGN_KEY.

import { generateText, isStepCount, type ModelMessage } from 'ai'
import { Countersign } from '../../../clients/typescript/src/client.ts'
import { guard } from '../../../clients/typescript/src/guard/ai-sdk.ts'
import { modelWanting } from '../hosts/scripted-model.ts'

const { COUNTERSIGN_URL: url = '', COUNTERSIGN_KEY: key = '' } = process.env
const wanted = { id: 'call_1', tool: 'everything_get-sum', args: { a: 17, b: 25 } }
const model = modelWanting(wanted)

const conversation = `demo-${Date.now()}`
const { tools, toolApproval, pending, answers } = await guard(new Countersign({ url, key }), { conversation })
const messages: ModelMessage[] = [{ role: 'user', content: 'How much is 17 + 25?' }]
console.log(`question: ${messages[0]?.content}`)
for (;;) {
  const turn = await generateText({ model, tools, toolApproval, messages, stopWhen: isStepCount(4) })
  for (const { toolName, input } of turn.toolCalls)
    console.log(`the model wants ${toolName} ${JSON.stringify(input)}`)
  messages.push(...turn.response.messages)
  for (const { page } of await pending(messages)) console.log(`waits for an operator: ${page}`)
  const content = await answers(messages)
  if (content.length > 0) messages.push({ role: 'tool', content })
  else {
    console.log(`answer: ${turn.text}`)
    break
  }
}
