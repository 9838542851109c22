import { Agent } from '@mastra/core/agent'
import { MCPClient } from '@mastra/mcp'
import { model } from './model.ts'

const headers = {
  authorization: `Bearer ${process.env.COUNTERSIGN_KEY}`,
  prefer: 'wait=45',
  'countersign-session': 'chat-17',
}
const url = new URL(`${process.env.COUNTERSIGN_URL}/mcp`)
const mcp = new MCPClient({
  timeout: 60_000,
  servers: { countersign: { url, requestInit: { headers } } },
})
const agent = new Agent({
  id: 'reporter',
  name: 'reporter',
  instructions: 'Answer in one sentence.',
  model,
  tools: await mcp.listTools(),
})
const { text } = await agent.generate('How many words are in the text "who signs, answers"?')
await mcp.disconnect()
console.log(text)
