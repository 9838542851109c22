// Tools for the AI SDK. A call that needs an approval becomes the SDK's own tool approval request:
// `generateText` returns, and continues once the messages hold the answer.

import { textFor, wasRefused } from '../call-text.ts'
import type { Countersign } from '../client.ts'
import { GuardedCalls, type GuardOptions, type Pending, pendingOf } from './guarded-calls.ts'
import { type StandardToolSchema, standardSchema } from './tool-schema.ts'

type Execution = { readonly toolCallId: string; readonly abortSignal?: AbortSignal | undefined }
export type GuardedTool = {
  readonly description: string
  readonly inputSchema: StandardToolSchema
  readonly execute: (input: unknown, options: Execution) => Promise<string>
}

type Status = 'not-applicable' | { readonly type: 'user-approval'; readonly reason: string }
type ToolCall = { readonly toolCallId: string; readonly toolName: string; readonly input: unknown }

/** The part of the SDK's messages that we read. */
export type Message = { readonly role: string; readonly content: string | readonly unknown[] }
type Part = {
  readonly type?: string
  readonly approvalId?: string
  readonly toolCallId?: string
  readonly toolName?: string
  readonly input?: unknown
  readonly isAutomatic?: boolean
}
export type ApprovalAnswer = {
  readonly type: 'tool-approval-response'
  readonly approvalId: string
  readonly approved: boolean
  readonly reason?: string
}

export type GuardedTools = {
  /** For `tools`. */
  readonly tools: Record<string, GuardedTool>
  /** For `toolApproval`. Calls of other tools are not its concern. */
  readonly toolApproval: (options: { readonly toolCall: ToolCall }) => Promise<Status>
  /** The calls that the messages wait for, without waiting. */
  readonly pending: (messages: readonly Message[]) => Promise<readonly Pending[]>
  /**
   * Waits until the calls that the messages wait for have ended. Append the answers as
   * `{ role: 'tool', content: answers }` and generate again; an empty list means that none waits.
   */
  readonly answers: (messages: readonly Message[], signal?: AbortSignal) => Promise<ApprovalAnswer[]>
}

export async function guard(agent: Countersign, options: GuardOptions): Promise<GuardedTools> {
  const { calls, known } = await GuardedCalls.open(agent, options)
  const tools = Object.fromEntries(
    known.map((tool): [string, GuardedTool] => [
      tool.name,
      {
        description: tool.description,
        inputSchema: standardSchema(tool),
        execute: (input, { toolCallId, abortSignal }) =>
          calls.textOf(toolCallId, tool.name, input, abortSignal),
      },
    ]),
  )
  return {
    tools,
    toolApproval: async ({ toolCall: { toolCallId, toolName, input } }) => {
      if (!Object.hasOwn(tools, toolName)) return 'not-applicable'
      const call = await calls.propose(toolCallId, toolName, input).catch(() => undefined)
      // A refused proposal is refused again in `execute`, which says why to the model.
      if (call?.state !== 'awaiting_approval') return 'not-applicable'
      return { type: 'user-approval', reason: `An operator is asked: ${call.approval?.page ?? call.id}` }
    },
    pending: async (messages) => {
      const waiting = await Promise.all(requestsIn(messages, tools).map((one) => proposeAgain(calls, one)))
      return waiting.filter(({ state }) => state === 'awaiting_approval').map(pendingOf)
    },
    answers: async (messages, signal) =>
      Promise.all(
        requestsIn(messages, tools).map(async (request): Promise<ApprovalAnswer> => {
          const call = await calls.settled(await proposeAgain(calls, request, signal), signal)
          const answer = { type: 'tool-approval-response', approvalId: request.approvalId } as const
          // The SDK passes the reason of a refusal to the model, and executes what was approved.
          return wasRefused(call)
            ? { ...answer, approved: false, reason: textFor(call) }
            : { ...answer, approved: true }
        }),
      ),
  }
}

type Request = ToolCall & { readonly approvalId: string }

const proposeAgain = (calls: GuardedCalls, { toolCallId, toolName, input }: Request, signal?: AbortSignal) =>
  calls.propose(toolCallId, toolName, input, signal)

/** Requests about our tools that no message answers yet. */
function requestsIn(messages: readonly Message[], tools: Record<string, GuardedTool>): Request[] {
  const parts = messages.flatMap(({ content }) =>
    typeof content === 'string' ? [] : (content as readonly Part[]),
  ) // the SDK's own parts
  const answered = new Set(
    parts.filter(({ type }) => type === 'tool-approval-response').map(({ approvalId }) => approvalId),
  )
  const byId = new Map(
    parts.filter(({ type }) => type === 'tool-call').map((part) => [part.toolCallId, part]),
  )
  return parts.flatMap(({ type, approvalId = '', toolCallId = '', isAutomatic }) => {
    const { toolName = '', input } = byId.get(toolCallId) ?? {}
    const open = type === 'tool-approval-request' && isAutomatic !== true && !answered.has(approvalId)
    return open && Object.hasOwn(tools, toolName) ? [{ approvalId, toolCallId, toolName, input }] : []
  })
}
