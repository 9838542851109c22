import { Agent, MCPServerStreamableHttp, run } from '@openai/agents'
import { model } from './model.ts'

const countersign = new MCPServerStreamableHttp({
  name: 'countersign',
  url: `${process.env.COUNTERSIGN_URL}/mcp`,
  requestInit: {
    headers: {
      authorization: `Bearer ${process.env.COUNTERSIGN_KEY}`,
      prefer: 'wait=45',
      'countersign-session': 'chat-17',
    },
  },
  cacheToolsList: true,
})
await countersign.connect()
const agent = new Agent({ name: 'reporter', model, mcpServers: [countersign] })
const { finalOutput } = await run(agent, 'How many words are in the text "who signs, answers"?')
await countersign.close()
console.log(finalOutput)
