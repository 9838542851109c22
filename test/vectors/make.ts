// Wrote test/vectors/evidence/vectors.jsonl: bundles of a real run, then those of built.ts. No test runs
// it: the vectors are frozen, so that a later version still judges the evidence of this one. To add
// one, append what this prints for it: `node infra/bootstrap.mjs test/vectors/make.ts`.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { startStack } from '../../infra/stack.ts'
import type { Result } from '../../shared/result.ts'
import { bearer, type Client, client } from '../../shared/routes/client.ts'
import type { Call } from '../../shared/wire/calls.ts'
import { BAD, GOOD, type Vector } from './built.ts'

function done<T>(result: Result<T, { readonly detail: string }>): T {
  if (!result.ok) throw new Error(result.error.detail)
  return result.value
}

/** Reads the call again until `is` holds. */
async function until(agent: Client, { run, id }: Call, is: (call: Call) => boolean): Promise<Call> {
  for (;;) {
    const call = done(await agent('readCall', { params: { run, call: id } }))
    if (is(call)) return call
    await sleep(100)
  }
}
const hasEnded = ({ result }: Call): boolean => result !== undefined

async function ofRealRun(url: string, operator: Client, agent: Client): Promise<Vector[]> {
  const propose = async (tool: string, args: Record<string, unknown>): Promise<Call> =>
    done(await agent('proposeCallInNewRun', { body: { tool, args } }))
  const answered = async (decision: 'approve' | 'deny', command: string, args: string[]): Promise<Call> => {
    const call = await propose('process_run', { command, args })
    const id = call.approval?.id ?? ''
    done(await operator('answerApproval', { params: { id }, body: { decision } }))
    return call
  }
  const cancelled = async (call: Call): Promise<Call> =>
    done(await agent('cancelCall', { params: { run: call.run, call: call.id } }))
  const sleeping = await answered('approve', 'sleep', ['30'])
  await until(agent, sleeping, ({ state }) => state === 'running')
  const calls: Readonly<Record<string, Call>> = {
    'an allowed call': await propose('text_stats', { text: 'counted in a sandbox\n' }),
    'an approved call': await answered('approve', 'printf', ['%s', 'é and "quotes"']),
    'an approved call that fails': await answered('approve', 'false', []),
    'a call that an operator rejected': await answered('deny', 'id', []),
    'a call that policy denied': await propose('process_run', { command: 'sudo', args: ['id'] }),
    'a call that was cancelled before its approval': await cancelled(
      await propose('process_run', { command: 'id' }),
    ),
    'a call that was cancelled while it ran, in a sandbox': await cancelled(sleeping),
  }
  for (const call of Object.values(calls)) await until(agent, call, hasEnded)
  const keys = JSON.stringify(done(await client(url)('keys', { query: {} })))
  return Promise.all(
    Object.entries(calls).map(async ([name, { run, id }]) => ({
      name: `of a real run: ${name}`,
      fails: null,
      bundle: JSON.stringify(done(await agent('readAttestation', { params: { run, call: id } }))),
      keys,
    })),
  )
}

const state = mkdtempSync(join(tmpdir(), 'countersign-vectors-'))
const started = await startStack({ state })
if (!started.ok) throw new Error(started.error)
const { dev, operator, stop } = started.value
try {
  const real = await ofRealRun(dev.url, operator, client(dev.url, bearer(dev.agent_key)))
  for (const vector of [...real, ...GOOD, ...BAD]) process.stdout.write(`${JSON.stringify(vector)}\n`)
} finally {
  await stop()
  rmSync(state, { recursive: true })
}
