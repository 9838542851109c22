// The OpenAI Agents SDK with its own `ScriptedModel`.

import { Agent, RunState, run, setTracingDisabled } from '@openai/agents-core'
import { assistantMessage, functionCall, modelResponder, ScriptedModel } from '@openai/agents-core/testing'
import type { Countersign } from '../../../clients/typescript/src/client.ts'
import { guard } from '../../../clients/typescript/src/guard/openai-agents.ts'
import type { Host, Outcome, Wanted } from './host.ts'

setTracingDisabled(true)

/** Wants the tool, then repeats its result. */
export const scriptWanting = ({ id, tool, args }: Wanted) => [
  [functionCall(tool, args, { callId: id })],
  modelResponder(({ request: { input } }) => {
    const items = typeof input === 'string' ? [] : input
    const result = items.findLast((item) => item.type === 'function_call_result')
    return [assistantMessage(JSON.stringify(result === undefined ? 'nothing' : result.output))]
  }),
]

async function turn(
  agent: Countersign,
  conversation: string,
  wanted: Wanted,
  saved: string | undefined,
): Promise<Outcome> {
  const { tools, answer } = await guard(agent, { conversation })
  const model = new ScriptedModel(
    saved === undefined ? scriptWanting(wanted) : scriptWanting(wanted).slice(1),
  )
  const runner = new Agent({ name: 'tester', model, tools })
  const state = saved === undefined ? undefined : await RunState.fromString(runner, saved)
  if (state !== undefined) await answer(state)
  const result = await run(runner, state ?? 'do it')
  if (result.interruptions.length === 0) return { kind: 'finished', read: String(result.finalOutput) }
  const text = result.state.toString()
  return {
    kind: 'paused',
    shown: JSON.stringify(result.interruptions.map(({ name }) => name)),
    resume: (later) => turn(later, conversation, wanted, text),
  }
}

export const openaiAgents: Host = {
  name: 'OpenAI Agents SDK',
  begin: (agent, conversation, wanted) => turn(agent, conversation, wanted, undefined),
}
