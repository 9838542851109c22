// Tools for LangGraph. A call that needs an approval becomes the graph's own interrupt: the run is
// saved by the checkpointer, and continues with `new Command({ resume: true })`. The value that it
// is resumed with decides nothing; the edge is asked again.

import type { ToolSummary } from '../api.ts'
import { refusalText, textFor } from '../call-text.ts'
import type { Countersign } from '../client.ts'
import { GuardedCalls, type GuardOptions, pendingOf } from './guarded-calls.ts'

/** LangChain passes this to a tool; the id is the model's own. */
type ToolConfig = {
  readonly toolCall?: { readonly id?: string | undefined } | undefined
  readonly toolCallId?: string | undefined
  readonly signal?: AbortSignal | undefined
}
type MakeTool<Tool> = (
  run: (args: unknown, config: ToolConfig) => Promise<string>,
  fields: { name: string; description: string; schema: Record<string, unknown> },
) => Tool

export async function guard<Tool>(
  agent: Countersign,
  options: GuardOptions & {
    /** `tool` of `@langchain/core/tools`. */
    readonly tool: MakeTool<Tool>
    /** `interrupt` of `@langchain/langgraph`. */
    readonly interrupt: (value: unknown) => unknown
  },
): Promise<Tool[]> {
  const { calls, known } = await GuardedCalls.open(agent, options)
  return known.map((tool) =>
    options.tool((args, config) => run(calls, tool, args, config, options.interrupt), {
      name: tool.name,
      description: tool.description,
      schema: { ...tool.input_schema },
    }),
  )
}

async function run(
  calls: GuardedCalls,
  tool: ToolSummary,
  args: unknown,
  { toolCall, toolCallId, signal }: ToolConfig,
  interrupt: (value: unknown) => unknown,
): Promise<string> {
  const id = toolCall?.id ?? toolCallId ?? ''
  const propose = () => calls.propose(id, tool.name, args, signal)
  try {
    let call = await propose()
    while (call.state === 'awaiting_approval') {
      interrupt(pendingOf(call)) // throws the pause, or returns what an earlier pause was resumed with
      call = await propose()
    }
    return textFor(await calls.settled(call, signal))
  } catch (error) {
    return refusalText(error) // rethrows an interrupt, which is not a refusal
  }
}
