import { MultiServerMCPClient } from '@langchain/mcp-adapters'
import { createAgent } from 'langchain'
import { model } from './model.ts'

const mcp = new MultiServerMCPClient({
  defaultToolTimeout: 60_000,
  mcpServers: {
    countersign: {
      transport: 'http',
      url: `${process.env.COUNTERSIGN_URL}/mcp`,
      headers: {
        Authorization: `Bearer ${process.env.COUNTERSIGN_KEY}`,
        Prefer: 'wait=45',
        'Countersign-Session': 'chat-17',
      },
    },
  },
})
const agent = createAgent({ model, tools: await mcp.getTools() })
const { messages } = await agent.invoke({
  messages: [{ role: 'user', content: 'How many words are in the text "who signs, answers"?' }],
})
await mcp.close()
console.log(messages.at(-1)?.content)
