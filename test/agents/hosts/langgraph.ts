// LangGraph with LangChain's own fake chat model and an in-memory checkpointer.

import { AIMessage, type BaseMessage, HumanMessage, ToolMessage } from '@langchain/core/messages'
import { tool } from '@langchain/core/tools'
import { FakeListChatModel } from '@langchain/core/utils/testing'
import {
  Command,
  END,
  interrupt,
  MemorySaver,
  MessagesAnnotation,
  START,
  StateGraph,
} from '@langchain/langgraph'
import { ToolNode } from '@langchain/langgraph/prebuilt'
import type { Countersign } from '../../../clients/typescript/src/client.ts'
import { guard } from '../../../clients/typescript/src/guard/langgraph.ts'
import type { Host, Outcome, Wanted } from './host.ts'

/** Wants the tool, then repeats its result; the fake model makes the last message. */
async function next(messages: BaseMessage[], { id, tool: name, args }: Wanted): Promise<AIMessage> {
  const last = messages.at(-1)
  if (!(last instanceof ToolMessage))
    return new AIMessage({ content: '', tool_calls: [{ id, name, args, type: 'tool_call' }] })
  const model = new FakeListChatModel({ responses: [String(last.content)] })
  return new AIMessage({ content: (await model.invoke(messages)).content })
}

async function graphFor(agent: Countersign, conversation: string, wanted: Wanted, checkpointer: MemorySaver) {
  const tools = await guard(agent, { conversation, tool, interrupt })
  return new StateGraph(MessagesAnnotation)
    .addNode('model', async ({ messages }) => ({ messages: [await next(messages, wanted)] }))
    .addNode('tools', new ToolNode(tools))
    .addEdge(START, 'model')
    .addConditionalEdges('model', ({ messages }) => {
      const last = messages.at(-1)
      return last instanceof AIMessage && (last.tool_calls ?? []).length > 0 ? 'tools' : END
    })
    .addEdge('tools', 'model')
    .compile({ checkpointer })
}

async function turn(
  agent: Countersign,
  conversation: string,
  wanted: Wanted,
  saved: MemorySaver | undefined,
): Promise<Outcome> {
  const checkpointer = saved ?? new MemorySaver()
  const graph = await graphFor(agent, conversation, wanted, checkpointer)
  const config = { configurable: { thread_id: conversation } }
  const input =
    saved === undefined
      ? { messages: [new HumanMessage('do it')] }
      : new Command<unknown, Record<string, never>, 'tools'>({ resume: true })
  const result = await graph.invoke(input, config)
  const { tasks } = await graph.getState(config)
  const interrupts = tasks.flatMap((task) => task.interrupts)
  if (interrupts.length === 0) return { kind: 'finished', read: String(result.messages.at(-1)?.content) }
  return {
    kind: 'paused',
    shown: JSON.stringify(interrupts.map(({ value }) => value)),
    resume: (later) => turn(later, conversation, wanted, checkpointer),
  }
}

export const langgraph: Host = {
  name: 'LangGraph',
  begin: (agent, conversation, wanted) => turn(agent, conversation, wanted, undefined),
}
