// Measures the time from a human’s yes until the tool begins, on an idle worker; and, alternating
// with it, from the proposal of a call that needs no approval: the same path without the answer.
// The tool's start is the time that the worker signed, by this machine’s clock.

import type { Result } from '../../shared/result.ts'
import type { Client } from '../../shared/routes/client.ts'
import type { Call } from '../../shared/wire/calls.ts'
import { median } from './slice.ts'
import { doesNothing } from './subjects.ts'

/** Milliseconds. */
export type Began = { readonly count: number; readonly p50: number; readonly p95: number }
export type Answers = { readonly answered: Began; readonly allowed: Began }

const [ASKS, FREE] = ['bench_asks', 'bench_free']

export async function timeAnswers(
  count: number,
  operator: Client,
  agentOf: (key: string) => Client,
): Promise<Answers> {
  const tools = [[ASKS, ['process_exec'] as const], [FREE, []] as const] as const
  for (const [name, capabilities] of tools)
    done(
      await operator('putTool', {
        params: { name },
        body: { ...doesNothing('C'), capabilities: [...capabilities] },
      }),
    )
  const { key = '' } = done(
    await operator('putAgent', {
      params: { name: 'bench-asks' },
      body: { tools: [ASKS, FREE], budget: { max_calls_per_run: 10_000 } },
    }),
  )
  const agent = agentOf(key)
  const { id: run } = done(await agent('createRun', { body: {} }))
  const propose = async (tool: string): Promise<Call> =>
    done(await agent('proposeCall', { params: { run }, body: { tool, args: {} } }))
  const taken: Record<'answered' | 'allowed', number[]> = { answered: [], allowed: [] }
  for (let i = 0; i < count; i++) {
    await rested()
    const from = now()
    taken.allowed.push((await began(agent, await propose(FREE))) - from)
    const asked = await propose(ASKS)
    await rested()
    const answeredAt = now()
    done(
      await operator('answerApproval', {
        params: { id: asked.approval?.id ?? '' },
        body: { decision: 'approve' },
      }),
    )
    taken.answered.push((await began(agent, asked)) - answeredAt)
  }
  return { answered: of(taken.answered), allowed: of(taken.allowed) }
}

/**
 * Shorter than people take, and enough for the previous call's messages to the log and the inbox.
 */
const rested = (): Promise<void> => new Promise((settle) => setTimeout(settle, 300))
const now = (): number => performance.timeOrigin + performance.now()

async function began(agent: Client, { run, id }: Call): Promise<number> {
  const ended = done(await agent('readCall', { params: { run, call: id }, wait: 20 }))
  if (ended.state !== 'succeeded') throw new Error(`the call ended ${ended.state}`)
  const { envelope } = done(await agent('readAttestation', { params: { run, call: id } }))
  const { predicate } = JSON.parse(Buffer.from(envelope.payload, 'base64').toString()) as {
    predicate: { execution: { started_at_ms: number } }
  } // signed by our own worker
  return predicate.execution.started_at_ms
}

const of = (times: readonly number[]): Began => {
  const sorted = [...times].sort((a, b) => a - b)
  return {
    count: times.length,
    p50: median(sorted),
    p95: sorted[Math.ceil(0.95 * sorted.length) - 1] ?? Number.NaN,
  }
}

function done<T>(answer: Result<T, { code: string; detail: string }>): T {
  if (!answer.ok) throw new Error(`the edge refused: ${answer.error.code}: ${answer.error.detail}`)
  return answer.value
}
