// Promise: the TypeScript client proposes a call once however often it has to send it, waits,
// follows, cancels and verifies, and says in typed errors what was refused.

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ConnectionError, Countersign, hasEnded, ProblemError } from '../../clients/typescript/src/client.ts'
import { Fixtures, unwrap } from '../support/fixtures.ts'
import { sharedStack } from '../support/stack/stack.ts'
import { FailingProxy } from './failing-proxy.ts'
import { clientTools } from './tools.ts'

const dev = sharedStack()
const fixtures = new Fixtures('clientts', dev)
let proxy: FailingProxy
let agent: Countersign
/** The same agent without the proxy. */
let direct: Countersign
let key: string

let asking: string
let slow: string
let filing: string

beforeAll(async () => {
  proxy = await FailingProxy.open(dev.url)
  ;({ key } = await fixtures.agent({ pool: 'default' }))
  agent = new Countersign({ url: proxy.url, key })
  direct = new Countersign({ url: dev.url, key: async () => key })
  ;({ asking, slow, filing } = await clientTools(fixtures))
})
afterAll(() => proxy.close())

const answer = async (approval: string | undefined, decision: 'approve' | 'deny', reason = 'a test') => {
  const { digest } = unwrap(await fixtures.root('readApproval', { params: { id: approval ?? '' } }))
  return unwrap(
    await fixtures.root('answerApproval', {
      params: { id: approval ?? '' },
      body: { decision, digest, reason },
    }),
  )
}
const caught = async (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    () => undefined,
    (error) => error,
  )

describe('calls', () => {
  test('a call returns with its output, and its attestation verifies against the tenant’s keys only', async () => {
    const call = await agent.call('text_stats', { text: 'who signs, answers\n' })
    expect(call).toMatchObject({ state: 'succeeded', result: { exit_code: 0 } })
    expect(call.result?.output.trim().split(/ +/)).toEqual(['1', '3', '19'])
    const verdict = await agent.verify(call, await agent.keys())
    expect(verdict.checks.filter(({ ok }) => !ok)).toEqual([])
    expect(verdict).toMatchObject({ ok: true, statement: { predicate: { facts: { call: call.id } } } })
    const other = await agent.verify(call, { ...(await agent.keys()), keys: [] })
    expect(other.ok).toBe(false)
  })

  test('a call that needs an approval is returned pending, and waiting for it returns its end', async () => {
    const call = await agent.propose(asking, {})
    expect(call).toMatchObject({
      state: 'awaiting_approval',
      approval: { page: expect.stringContaining('http') },
    })
    expect(hasEnded(call)).toBe(false)
    const still = await agent.wait(call, { timeoutMs: 200 })
    expect(still.state).toBe('awaiting_approval')
    const waiting = agent.wait(call)
    await answer(call.approval?.id, 'approve')
    expect(await waiting).toMatchObject({ state: 'succeeded', result: { output: 'done\n' } })
  })

  test('a call that a human rejects returns as rejected, which is not an error', async () => {
    const call = await agent.propose(asking, {})
    const waiting = agent.wait(call)
    await answer(call.approval?.id, 'deny', 'not on a Friday')
    expect(await waiting).toMatchObject({ state: 'rejected' })
  })

  test('calls of one run share its budget, and a run that is created twice under one key is one run', async () => {
    const spec = { session: 'client-1', budget: { max_calls_per_run: 1 } }
    const run = await agent.createRun(spec, { idempotencyKey: `${fixtures.pool}-run` })
    expect(await agent.createRun(spec, { idempotencyKey: `${fixtures.pool}-run` })).toMatchObject({
      id: run.id,
    })
    expect(await agent.call('text_stats', { text: 'a' }, { run })).toMatchObject({ state: 'succeeded' })
    expect(await agent.call('text_stats', { text: 'a' }, { run })).toMatchObject({ state: 'denied' })
  })

  test('a decision without a proposal changes nothing and says what it would be', async () => {
    expect(await agent.decide(asking, {})).toMatchObject({ decision: { effect: 'ask' }, digest: null })
    expect((await agent.tools()).map(({ name }) => name)).toContain(asking)
  })
})

describe('requests that fail on the way', () => {
  test('a proposal whose answer is lost is sent again under its own key and runs once', async () => {
    const run = await agent.createRun()
    const before = proxy.seen.length
    proxy.faults.push({ path: /^POST .*\/calls$/, act: { kind: 'drop-answer' } })
    expect(await agent.call('text_stats', { text: 'b' }, { run })).toMatchObject({ state: 'succeeded' })
    const sent = proxy.seen.slice(before).filter(({ method }) => method === 'POST')
    expect(sent).toHaveLength(2)
    expect(new Set(sent.map(({ headers }) => headers['idempotency-key'])).size).toBe(1)
    const { used } = unwrap(await fixtures.root('readRun', { params: { run: run.id } }))
    expect(used.calls).toBe(1)
  })

  test('a request that is refused until a given time is repeated after that time', async () => {
    const problem = JSON.stringify({ code: 'queue_full', detail: 'full', todo: 'wait', retry: true })
    const headers = { 'content-type': 'application/problem+json', 'retry-after': '1' }
    proxy.faults.push({ path: /^POST /, act: { kind: 'answer', status: 503, headers, body: problem } })
    const begun = Date.now()
    expect(await agent.call('text_stats', { text: 'c' })).toMatchObject({ state: 'succeeded' })
    expect(Date.now() - begun).toBeGreaterThanOrEqual(1_000)
  })

  test('a refusal that no retry can fix is thrown immediately, with its code and what to do', async () => {
    const before = proxy.seen.length
    const error = await caught(agent.call('text_stats', { text: 7 }))
    expect(error).toBeInstanceOf(ProblemError)
    expect(error).toMatchObject({
      code: 'invalid_arguments',
      status: 422,
      retry: false,
      todo: expect.stringMatching(/\S/),
    })
    expect((error as ProblemError).errors[0]).toMatchObject({ at: expect.stringContaining('text') })
    expect(proxy.seen.length - before).toBe(1)
  })

  test('a wait longer than the client’s limit, and a response without a problem document, raise an error', async () => {
    proxy.faults.push({
      path: /^GET \/v1\/tools/,
      act: { kind: 'answer', status: 429, headers: { 'retry-after': '3600' } },
    })
    expect(await caught(agent.tools())).toMatchObject({
      code: 'unknown',
      status: 429,
      retryAfterMs: 3_600_000,
    })
  })

  test('the client gives up on an edge that never answers after the allowed number of attempts', async () => {
    const closed = await FailingProxy.open(dev.url)
    const { url } = closed
    closed.close()
    const alone = new Countersign({ url, key, retry: { tries: 3 } })
    expect(await caught(alone.tools())).toBeInstanceOf(ConnectionError)
  })

  test('a redirect is refused, and the key does not travel to its target', async () => {
    const target = await FailingProxy.open(dev.url)
    const headers = { location: `${target.url}/v1/tools` }
    proxy.faults.push({ path: /^GET \/v1\/tools/, act: { kind: 'answer', status: 307, headers } })
    expect(await caught(agent.tools())).toMatchObject({
      name: 'ConnectionError',
      message: expect.stringContaining('redirects'),
    })
    expect(target.seen).toEqual([])
    target.close()
  })

  test('a signal ends a wait at once and leaves the call as it is', async () => {
    const call = await agent.propose(asking, {})
    const control = new AbortController()
    const waiting = caught(agent.wait(call, { signal: control.signal }))
    control.abort(new Error('enough'))
    expect(await waiting).toMatchObject({ message: 'enough' })
    expect(await agent.read(call)).toMatchObject({ state: 'awaiting_approval' })
    expect(await agent.cancel(call)).toMatchObject({ state: 'cancelled' })
  })
})

describe('streams', () => {
  const textOf = (events: readonly { event: string; data: unknown }[]): string =>
    events
      .flatMap(({ event, data }) => (event === 'stdout' ? [(data as { data: string }).data] : []))
      .join('')

  test('a broken stream resumes after the last event, without a gap or a repeat', async () => {
    const call = await agent.propose(slow, { seconds: '0' })
    proxy.faults.push({ path: /\/output/, act: { kind: 'cut-after', bytes: 220 } })
    proxy.faults.push({ path: /\/output/, act: { kind: 'cut-after', bytes: 220 } })
    const events = await Array.fromAsync(agent.stream(call))
    expect(textOf(events)).toBe('line 1\nline 2\nline 3\n')
    expect(events.at(-1)).toMatchObject({ event: 'end', data: { state: 'succeeded' } })
    expect(events.filter(({ event }) => event === 'end')).toHaveLength(1)
    expect(proxy.faults).toEqual([])
  })

  test('a reader that stops closes only its own stream, and cancelling the call ends the other streams', async () => {
    const call = await direct.propose(slow, { seconds: '60' })
    for await (const { event } of direct.stream(call)) if (event === 'stdout') break
    const reading = Array.fromAsync(direct.stream(call))
    expect((await direct.cancel(call)).running?.cancel_requested ?? true).toBe(true)
    expect((await reading).at(-1)).toMatchObject({ event: 'end', data: { state: 'cancelled' } })
    expect(await direct.cancel(call)).toMatchObject({ state: 'cancelled' })
  })
})

describe('files', () => {
  test('a file is uploaded, copied by a tool and read back, and changed bytes are refused', async () => {
    const run = await agent.createRun()
    const { sha256, bytes } = await agent.files.put(run.id, 'a line\n')
    expect(bytes).toBe(7)
    expect((await agent.files.list(run.id)).map((file) => file.sha256)).toEqual([sha256])
    const call = await agent.call(filing, {}, { run, files: [{ path: 'in.txt', sha256 }] })
    expect(call.result?.files?.files).toEqual([{ path: 'out.txt', sha256, bytes: 7 }])
    expect(new TextDecoder().decode(await agent.files.read(call, sha256))).toBe('a line\n')
    proxy.faults.push({ path: /\/files\//, act: { kind: 'corrupt' } })
    expect(await caught(agent.files.read(call, sha256))).toBeInstanceOf(ConnectionError)
  })
})
