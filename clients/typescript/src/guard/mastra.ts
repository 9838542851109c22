// Tools for Mastra. A call that needs an approval suspends the agent's run, and
// `agent.resumeStream({}, { runId })` or `resumeGenerate` continues it. The data that it is resumed
// with decides nothing; the edge is asked again.

import type { ToolSummary } from '../api.ts'
import { refusalText, textFor } from '../call-text.ts'
import type { Countersign } from '../client.ts'
import { GuardedCalls, type GuardOptions, pendingOf } from './guarded-calls.ts'
import { type StandardToolSchema, standardSchema } from './tool-schema.ts'

type Suspend = (payload: unknown) => Promise<unknown>
/** Mastra passes this to a tool that an agent calls. */
type Context = {
  readonly agent?: { readonly toolCallId?: string; readonly suspend?: Suspend } | undefined
  readonly abortSignal?: AbortSignal | undefined
}
type MakeTool<Tool> = (definition: {
  id: string
  description: string
  inputSchema: StandardToolSchema
  execute: (input: unknown, context: Context) => Promise<string | undefined>
}) => Tool

export async function guard<Tool>(
  agent: Countersign,
  options: GuardOptions & {
    /** `createTool` of `@mastra/core/tools`. */
    readonly createTool: MakeTool<Tool>
  },
): Promise<Record<string, Tool>> {
  const { calls, known } = await GuardedCalls.open(agent, options)
  return Object.fromEntries(
    known.map((tool): [string, Tool] => [
      tool.name,
      options.createTool({
        id: tool.name,
        description: tool.description,
        inputSchema: standardSchema(tool),
        execute: (input, context) => run(calls, tool, input, context),
      }),
    ]),
  )
}

async function run(
  calls: GuardedCalls,
  tool: ToolSummary,
  input: unknown,
  { agent: { toolCallId = '', suspend } = {}, abortSignal }: Context,
): Promise<string | undefined> {
  try {
    const call = await calls.propose(toolCallId, tool.name, input, abortSignal)
    if (call.state === 'awaiting_approval' && suspend !== undefined) {
      await suspend(pendingOf(call))
      return undefined // the run is suspended; Mastra calls this tool again when it is resumed
    }
    return textFor(await calls.settled(call, abortSignal))
  } catch (error) {
    return refusalText(error)
  }
}
