import { createMCPClient } from '@ai-sdk/mcp'
import { generateText, isStepCount } from 'ai'
import { model } from './model.ts'

const mcp = await createMCPClient({
  transport: {
    type: 'http',
    url: `${process.env.COUNTERSIGN_URL}/mcp`,
    headers: {
      authorization: `Bearer ${process.env.COUNTERSIGN_KEY}`,
      prefer: 'wait=45',
      'countersign-session': 'chat-17',
    },
  },
})
const { text } = await generateText({
  model,
  tools: await mcp.tools(),
  stopWhen: isStepCount(8),
  prompt: 'How many words are in the text "who signs, answers"?',
})
await mcp.close()
console.log(text)
