// Tools for the OpenAI Agents SDK. A call that needs an approval becomes the SDK's own
// interruption: the run returns with `interruptions`, and continues from its state once they are
// answered.

import type { ToolSummary } from '../api.ts'
import { textFor, wasRefused } from '../call-text.ts'
import type { Countersign } from '../client.ts'
import { GuardedCalls, type GuardOptions } from './guarded-calls.ts'

type Details = { readonly toolCall?: { readonly callId?: string }; readonly signal?: AbortSignal }

/** The SDK's type of a JSON Schema; it passes on the keywords that the type does not name. */
type Parameters = {
  type: 'object'
  properties: Record<string, Record<string, unknown>>
  required: string[]
  additionalProperties: true
}

/** A function tool, in the form that `tool()` of the SDK makes. */
export type GuardedTool = {
  readonly type: 'function'
  readonly name: string
  readonly description: string
  readonly parameters: Parameters
  readonly strict: false
  readonly invoke: (context: unknown, input: string, details?: Details) => Promise<string>
  readonly needsApproval: (context: unknown, input: unknown, callId?: string) => Promise<boolean>
  readonly isEnabled: () => Promise<boolean>
}

/** The part of the SDK's run state and interruptions that we use. */
type Interruption = {
  readonly name?: string | undefined
  readonly arguments?: string | undefined
  readonly rawItem: object
}
type RunState<Item extends Interruption> = {
  getInterruptions(): Item[]
  approve(item: Item): void
  reject(item: Item, options: { message: string }): void
}

export type GuardedTools = {
  readonly tools: GuardedTool[]
  /**
   * Waits until the calls that the state waits for have ended, and answers each interruption. Then
   * run the agent with the state again. Returns how many it answered.
   */
  readonly answer: <Item extends Interruption>(state: RunState<Item>, signal?: AbortSignal) => Promise<number>
}

export async function guard(agent: Countersign, options: GuardOptions): Promise<GuardedTools> {
  const { calls, known } = await GuardedCalls.open(agent, options)
  const names = new Set(known.map(({ name }) => name))
  return {
    tools: known.map((tool) => guarded(calls, tool)),
    answer: async (state, signal) => {
      const ours = state.getInterruptions().filter(({ name = '' }) => names.has(name))
      for (const item of ours) {
        const call = await calls.propose(callIdOf(item), item.name ?? '', parsed(item.arguments), signal)
        const ended = await calls.settled(call, signal)
        if (wasRefused(ended)) state.reject(item, { message: textFor(ended) })
        else state.approve(item)
      }
      return ours.length
    },
  }
}

const guarded = (calls: GuardedCalls, tool: ToolSummary): GuardedTool => ({
  type: 'function',
  name: tool.name,
  description: tool.description,
  parameters: tool.input_schema as unknown as Parameters, // the edge registers schemas of objects only
  strict: false,
  isEnabled: async () => true,
  needsApproval: async (_, input, callId = '') => {
    // A refused proposal is refused again in `invoke`, which says why to the model.
    const call = await calls.propose(callId, tool.name, input).catch(() => undefined)
    return call?.state === 'awaiting_approval'
  },
  invoke: async (_, input, { toolCall, signal } = {}) =>
    calls.textOf(toolCall?.callId ?? '', tool.name, parsed(input), signal),
})

const callIdOf = ({ rawItem }: Interruption): string =>
  'callId' in rawItem && typeof rawItem.callId === 'string' ? rawItem.callId : ''

const parsed = (input: string | undefined): unknown =>
  input === undefined || input === '' ? {} : JSON.parse(input)
