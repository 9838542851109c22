// Calls that take time: clients that wait, poll, hold a task, go away at any moment, ask twice or
// lose their key. Nothing runs twice, nothing hangs, nothing of another agent is seen.

import { expect, test } from 'vitest'
import { LIMITS } from '../../../shared/limits.ts'
import { eventually } from '../../support/eventually.ts'
import { Fixtures, unwrap } from '../../support/fixtures.ts'
import { McpClient, type McpExchange, textOf } from '../../support/http/mcp-client.ts'
import { McpCalls } from '../../support/mcp-calls.ts'
import { sharedStack } from '../../support/stack/stack.ts'
import { PeerWorker } from '../../support/worker/peer-worker.ts'

const fixtures = new Fixtures('mcp-wait', sharedStack())
const tool = await fixtures.tool()
const sensitive = await fixtures.tool({ sensitive: true })
const agent = await fixtures.agent()
const other = await fixtures.agent()
const peer = await PeerWorker.enrol(fixtures.url, fixtures.root, fixtures.pool)
const ERAS = ['modern', 'legacy'] as const
const TASKS = { extensions: { 'io.modelcontextprotocol/tasks': {} } }

const calls = new McpCalls(fixtures, agent)

const error = async (exchange: McpExchange) => {
  const { error } = await exchange.answer()
  return [exchange.status, error?.code]
}

// Most tests wait for heartbeats of the edge, so they run at the same time, the slowest first.

test.concurrent('M06 a listener gets notifications about its tasks and its list of tools, and about nothing else', async () => {
  const changing = await fixtures.agent({ tools: [sensitive] })
  const theirs = new McpCalls(fixtures, changing)
  const { client, meta, call } = await theirs.clientInRun('modern', TASKS)
  const created = await client.call(sensitive, {}, { meta, wait: 0 })
  const foreign = await (await calls.clientInRun('modern', TASKS)).client.call(
    sensitive,
    { text: 'other' },
    { wait: 0 },
  )
  const notifications = {
    toolsListChanged: true,
    promptsListChanged: true,
    taskIds: [created['taskId'], foreign['taskId'], 'x', 5],
  }
  const exchange = await client.send('subscriptions/listen', { notifications }, { id: 'listen' })
  const _meta = { 'io.modelcontextprotocol/subscriptionId': 'listen' }
  await exchange.until('the first state', ({ messages }) => (messages.length >= 2 ? true : undefined))
  expect(exchange.messages[0]).toEqual({
    jsonrpc: '2.0',
    method: 'notifications/subscriptions/acknowledged',
    params: { notifications: { toolsListChanged: true, taskIds: [created['taskId']] }, _meta },
  })
  await theirs.answer(call(1), 'approve')
  await peer.run(call(1), { stdout: 'sent' })
  const completed = await exchange.until('the end', ({ messages }) =>
    messages.find(({ params }) => params?.['status'] === 'completed'),
  )
  expect(completed).toMatchObject({
    method: 'notifications/tasks',
    params: { taskId: created['taskId'], result: { content: [{ text: 'sent' }] }, _meta },
  })
  unwrap(
    await fixtures.root('putAgent', {
      params: { name: changing.name },
      body: { tools: [sensitive, tool], pool: fixtures.pool },
    }),
  )
  await exchange.until('the change', ({ messages }) =>
    messages.find(
      ({ method, params }) =>
        method === 'notifications/tools/list_changed' && params?.['_meta'] !== undefined,
    ),
  )
  unwrap(await fixtures.root('deleteAgent', { params: { name: changing.name } }))
  expect((await exchange.answer(15_000)).error?.code ?? 'ended').toBeDefined()
  await exchange.end()
})

test.concurrent('M07 a held request ends when its key is revoked or its agent loses the permission', async () => {
  const inEra = async (era: (typeof ERAS)[number]): Promise<void> => {
    const gone = await fixtures.agent()
    const { client, meta } = await new McpCalls(fixtures, gone).clientInRun(era)
    const exchange = await client.send('tools/call', { name: sensitive, arguments: {} }, { meta, wait: 60 })
    unwrap(await fixtures.root('deleteAgent', { params: { name: gone.name } }))
    const { error } = await exchange.answer(10_000)
    expect([error?.code, error?.data?.['code']]).toEqual([401, 'unauthenticated'])
    await exchange.end()
  }
  await Promise.all(ERAS.map(inEra))
})

test.concurrent('a held request streams a comment each `mcp_heartbeat_ms`, and progress, and ends with the answer', async () => {
  const inEra = async (era: (typeof ERAS)[number]): Promise<void> => {
    const { client, meta, call } = await calls.clientInRun(era)
    const exchange = await client.send(
      'tools/call',
      { name: sensitive, arguments: {} },
      { meta: { ...meta, progressToken: 'p' }, wait: 60 },
    )
    expect([exchange.isStream, exchange.headers.get('x-accel-buffering')]).toEqual([true, 'no'])
    await exchange.until('a comment', ({ received }) => (received.includes(null) ? true : undefined))
    await calls.answer(call(1), 'approve')
    const claim = unwrap(await peer.claim(call(1)))
    await exchange.until('the state', ({ messages }) => (messages.length >= 3 ? true : undefined))
    unwrap(
      await peer.client('output', {
        params: { call: call(1) },
        body: {
          fence: 1,
          stream: 'stdout',
          offset: 0,
          data: Buffer.from('one\nhalf way\r\n').toString('base64'),
        },
      }),
    )
    await peer.settle(claim, { stdout: 'one\nhalf way\r\nend' })
    const { result } = await exchange.answer()
    await exchange.end()
    expect(textOf(result ?? {})).toBe('one\nhalf way\r\nend')
    const progress = exchange.messages
      .slice(0, -1)
      .map(({ method, params }) => [
        method,
        params?.['progressToken'],
        params?.['progress'],
        params?.['message'],
      ])
    expect(progress.map(([, , count]) => count)).toEqual(progress.map((_, at) => at + 1))
    expect(progress.slice(0, 3)).toEqual([
      ['notifications/progress', 'p', 1, expect.stringMatching(/^waiting for approval until \d\d:\d\dZ: /)],
      ['notifications/progress', 'p', 2, 'approved; waiting for its executor'],
      ['notifications/progress', 'p', 3, 'running'],
    ])
  }
  await Promise.all(ERAS.map(inEra))
})

test.concurrent('a client that accepts only JSON waits for one document', async () => {
  const { client, meta, call } = await calls.clientInRun('legacy')
  const exchange = await client.send(
    'tools/call',
    { name: tool, arguments: {} },
    { meta, wait: 30, headers: { accept: 'application/json' } },
  )
  expect([exchange.ended, exchange.text.trim()]).toEqual([false, '']) // the headers came, so it is held
  await peer.run(call(1), { stdout: 'done' })
  expect([exchange.isStream, textOf((await exchange.answer()).result ?? {})]).toEqual([false, 'done'])
  expect(exchange.text.trimStart()).toMatch(/^\{"jsonrpc"/)
})

test.concurrent('M03 a modern client waits for an approval with a `requestState`, which proposes nothing', async () => {
  const { client, meta, call, run } = await calls.clientInRun('modern')
  const params = { name: sensitive, arguments: { text: 'x' } }
  const first = await client.result('tools/call', params, { meta, wait: 0 })
  expect(first).toMatchObject({ resultType: 'input_required', requestState: expect.any(String) })
  expect(first).not.toHaveProperty('inputRequests')
  const requestState = String(first['requestState'])
  const again = (more: object, by = client) =>
    by.send('tools/call', { ...params, requestState, ...more }, { wait: 0 })
  expect((await (await again({})).answer()).result).toMatchObject({ resultType: 'input_required' })
  const foreign = new McpClient(fixtures.url, other.key, 'modern')
  for (const exchange of [
    await again({ arguments: { text: 'y' } }),
    await again({ arguments: {} }),
    await again({ name: tool }),
    await again({ requestState: `${requestState}A` }),
    await again({ requestState: requestState.replace(/.$/, (char) => (char === 'A' ? 'B' : 'A')) }),
    await again({ requestState: '' }),
    await again({ requestState: 5 }),
    await again({}, foreign),
  ])
    expect(await error(exchange)).toEqual([200, -32602])
  await calls.answer(call(1), 'approve')
  const waiting = client.result('tools/call', { ...params, requestState }, { wait: 30 })
  await peer.run(call(1), { stdout: 'sent' })
  const result = await waiting
  expect([result['resultType'], textOf(result)]).toEqual(['complete', 'sent'])
  expect(textOf((await (await again({})).answer()).result ?? {})).toBe('sent') // a replay reads, too
  expect(await calls.used(run)).toBe(1)
})

test.concurrent('the approval page is offered once to the user of an agent that may offer it, and no answer to that offer approves the call', async () => {
  const offering = new McpCalls(fixtures, await fixtures.agent({ mcp: { elicit: true } }))
  const opensPages = { elicitation: { url: {} } }
  const params = { name: sensitive, arguments: {} }
  const { client, meta, call } = await offering.clientInRun('modern', opensPages)
  const first = await client.result('tools/call', params, { meta, wait: 30 })
  expect(first).toMatchObject({
    resultType: 'input_required',
    requestState: expect.any(String),
    inputRequests: { approval: { method: 'elicitation/create', params: { mode: 'url' } } },
  })
  const { approval } = await offering.proposed(call(1))
  expect(first['inputRequests']).toMatchObject({ approval: { params: { url: approval?.page } } })
  let { requestState } = first
  for (const action of ['accept', 'decline', 'cancel']) {
    const retried = { ...params, requestState, inputResponses: { approval: { action } } }
    const again = await client.result('tools/call', retried, { meta, wait: 0 })
    expect(again).not.toHaveProperty('inputRequests')
    requestState = again['requestState']
  }
  expect((await offering.proposed(call(1))).state).toBe('awaiting_approval')
  for (const [by, capabilities] of [
    [offering, { elicitation: {} }],
    [calls, opensPages],
  ] as const) {
    const other = await by.clientInRun('modern', capabilities)
    const answered = await other.client.result('tools/call', params, { meta: other.meta, wait: 0 })
    expect(answered).not.toHaveProperty('inputRequests')
  }
})

test.concurrent('M05 after nine answers with a `requestState` (`mcp_rounds`) the tenth is final', async () => {
  const { client, meta, run } = await calls.clientInRun('modern')
  const params = { name: sensitive, arguments: {} }
  let [result, rounds] = [await client.result('tools/call', params, { meta, wait: 0 }), 0]
  for (; result['resultType'] === 'input_required'; rounds++)
    result = await client.result(
      'tools/call',
      { ...params, requestState: result['requestState'] },
      { wait: 0 },
    )
  expect([rounds, result['isError'], textOf(result)]).toEqual([
    9,
    undefined,
    expect.stringMatching(/^PENDING/),
  ])
  expect(await calls.used(run)).toBe(1)
})

test.concurrent('M04 L2 equal requests at the same time, from one client or from two, are one call with one approval', async () => {
  const inEra = async (era: (typeof ERAS)[number]): Promise<void> => {
    const { client, meta, call, run } = await calls.clientInRun(era)
    const second = new McpClient(fixtures.url, agent.key, era)
    const params = { name: sensitive, arguments: { text: 'once' } }
    const exchanges = await Promise.all(
      [client, client, second, second].map((one) =>
        one.send('tools/call', params, { meta, wait: 30, id: 1 }),
      ),
    )
    await calls.answer(call(1), 'approve')
    await peer.run(call(1), { stdout: 'ran' })
    const texts = []
    for (const exchange of exchanges) texts.push(textOf((await exchange.answer()).result ?? {}))
    expect(texts.filter((text) => text === 'ran')).toHaveLength(1)
    expect(
      texts.filter(
        (text) =>
          text ===
          `Joined ${call(1)}, which an identical request proposed before; nothing was proposed again.\nran`,
      ),
    ).toHaveLength(3)
    expect(await calls.used(run)).toBe(1)
  }
  await Promise.all(ERAS.map(inEra))
})

test.concurrent('an equal request after the answer, other arguments, or another idempotency key make a new call', async () => {
  const { client, meta, call, run } = await calls.clientInRun('legacy')
  const done = async (n: number, args: object, more: object = {}) => {
    const answering = client.call(tool, { ...args }, { meta: { ...meta, ...more } })
    await calls.proposed(call(n))
    await peer.run(call(n), { stdout: String(n) })
    return textOf(await answering)
  }
  expect(await done(1, { text: 'x' })).toBe('1')
  const used = () => calls.used(run)
  await eventually('the answer is noted as received', async () => {
    const again = await client.call(tool, { text: 'x' }, { meta, wait: 0 })
    return textOf(again).startsWith('PENDING') ? true : undefined
  })
  expect(await used()).toBe(2)
  const key = { 'dev.countersign/idempotencyKey': 'k-1' }
  expect(await done(3, { text: 'x' }, key)).toBe('3')
  expect(textOf(await client.call(tool, { text: 'x' }, { meta: { ...meta, ...key } }))).toContain('Joined')
  const reused = await client.call(tool, { text: 'other' }, { meta: { ...meta, ...key } })
  expect(reused['_meta']).toMatchObject({ 'dev.countersign/failure': { code: 'idempotency_key_reused' } })
  expect(await used()).toBe(3)
})

test.concurrent('M04 L2 a call runs once, though its client disconnects at any moment and asks again', async () => {
  const mine = await fixtures.agent() // the requests that an agent may hold are limited
  const theirs = new McpCalls(fixtures, mine)
  const closedAfter = async (delay: number): Promise<void> => {
    const { client, meta, call, run } = await theirs.clientInRun('modern')
    const params = { name: tool, arguments: { text: String(delay) } }
    const abort = new AbortController()
    const { headers, message } = client.request('tools/call', params, { meta, wait: 30 })
    const gone = fetch(client.url, {
      method: 'POST',
      headers: { ...headers, authorization: `Bearer ${mine.key}` },
      body: JSON.stringify(message),
      signal: abort.signal,
    }).then((answer) => answer.text())
    setTimeout(() => abort.abort(), delay)
    await expect(gone).rejects.toThrow()
    const answering = client.send('tools/call', params, { meta, wait: 30 })
    await theirs.proposed(call(1))
    await peer.run(call(1), { stdout: 'ran' })
    expect(textOf((await (await answering).answer()).result ?? {})).toMatch(/ran$/)
    expect(await theirs.used(run), `closed after ${delay} ms`).toBe(1)
  }
  await Promise.all([0, 5, 20, 60, 150, 250, 400].map(closedAfter))
})

test.concurrent('M04 L2 a result that nobody received is the answer to the next equal request, once', async () => {
  const accepting = async (accept: string): Promise<void> => {
    const { client, meta, call, run } = await calls.clientInRun('legacy')
    const params = { name: tool, arguments: {} }
    const patient = await calls.clientInRun('legacy')
    const wish = { wait: 60, headers: { accept } }
    const other = await patient.client.send('tools/call', params, { ...wish, meta: patient.meta })
    const exchange = await client.send('tools/call', params, { ...wish, meta })
    const claims = [unwrap(await peer.claim(call(1))), unwrap(await peer.claim(patient.call(1)))] as const
    exchange.close()
    await exchange.end()
    await peer.settle(claims[0], { stdout: 'ran' })
    // The other request began earlier and ends later. When it is answered, this one has been, too.
    await peer.settle(claims[1], { stdout: 'other' })
    await other.end()
    expect(textOf((await other.answer()).result ?? {})).toBe('other')
    expect(textOf(await client.result('tools/call', params, { meta, wait: 0 }))).toMatch(/^Joined .*\nran$/)
    await eventually('a third request is another call', async () => {
      await client.result('tools/call', params, { meta, wait: 0 })
      return (await calls.used(run)) === 2 ? true : undefined
    })
  }
  await Promise.all(['application/json, text/event-stream', 'application/json'].map(accepting))
})

test.concurrent('M04 L2 a held result that its client received is not the answer to the next equal request', async () => {
  const accepting = async (accept: string): Promise<void> => {
    const { client, meta, call, run } = await calls.clientInRun('legacy')
    const params = { name: tool, arguments: {} }
    const held = await client.send('tools/call', params, { meta, wait: 60, headers: { accept } })
    expect(held.messages).toEqual([]) // the headers came without the answer, so it is held
    await peer.run(call(1), { stdout: 'ran' })
    expect(textOf((await held.answer()).result ?? {})).toBe('ran')
    await held.end() // the run knows by now: the response ends after the report
    expect(textOf(await client.result('tools/call', params, { meta, wait: 0 }))).toMatch(/^PENDING/)
    expect(await calls.used(run)).toBe(2)
  }
  await Promise.all(['application/json, text/event-stream', 'application/json'].map(accepting))
})

test.concurrent('M05 requests beyond those that an agent may hold are answered as pending at once', async () => {
  const greedy = await fixtures.agent()
  const theirs = new McpCalls(fixtures, greedy)
  const { client, meta, call } = await theirs.clientInRun('legacy')
  const params = { name: sensitive, arguments: {} }
  const held = Array.from({ length: LIMITS.mcp_holds_agent + 1 }, () =>
    client.result('tools/call', params, { meta, wait: 60 }).then(textOf),
  )
  expect(await Promise.race(held)).toContain('PENDING') // the others wait for an answer that nobody has given yet
  await theirs.answer(call(1), 'deny')
  const texts = await Promise.all(held)
  expect(texts.filter((text) => text.includes('said no'))).toHaveLength(LIMITS.mcp_holds_agent)
})

test.concurrent('M06 a legacy client cancels its request by its id, and only within its own session', async () => {
  const session = async () => {
    const client = new McpClient(fixtures.url, agent.key, 'legacy')
    const initialized = await client.send('initialize', { protocolVersion: '2025-11-25' })
    client.headers = { 'mcp-session-id': initialized.headers.get('mcp-session-id') ?? '' }
    return client
  }
  const [client, neighbour] = [await session(), await session()]
  const exchange = await client.send('tools/call', { name: sensitive, arguments: {} }, { id: 7, wait: 60 })
  const cancel = (by: McpClient, requestId: unknown) =>
    by.raw(JSON.stringify({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId } }), {
      'content-type': 'application/json',
      ...by.headers,
    })
  const stateless = new McpClient(fixtures.url, agent.key, 'legacy')
  for (const [by, id] of [
    [neighbour, 7],
    [client, '7'],
    [client, 8],
    [client, null],
    [stateless, 7],
  ] as const)
    expect((await cancel(by, id)).status).toBe(202)
  expect(exchange.messages).toEqual([])
  expect((await cancel(client, 7)).status).toBe(202)
  const { result } = await exchange.answer()
  expect([result?.['isError'], textOf(result ?? {})]).toEqual([true, 'It was cancelled.'])
})

test.concurrent('M03 a client that supports tasks gets one, reads it to its end, and can cancel it', async () => {
  const { client, meta, call } = await calls.clientInRun('modern', TASKS)
  const created = await client.call(sensitive, { text: 'x' }, { meta, wait: 0 })
  expect(created).toMatchObject({
    resultType: 'task',
    taskId: expect.stringMatching(/^task_[\w-]{60,}$/),
    status: 'working',
    statusMessage: expect.stringMatching(/^waiting for approval until /),
    createdAt: expect.stringMatching(/^\d{4}-.*Z$/),
    ttlMs: expect.any(Number),
    pollIntervalMs: 4_000,
  })
  for (const absent of ['result', 'requestState', 'inputRequests']) expect(created).not.toHaveProperty(absent)
  const taskId = String(created['taskId'])
  expect(await client.result('tasks/get', { taskId })).toMatchObject({
    resultType: 'complete',
    taskId,
    status: 'working',
  })
  expect(await client.result('tasks/update', { taskId, inputResponses: { x: {} } })).toMatchObject({
    resultType: 'complete',
  })
  await calls.answer(call(1), 'approve')
  await peer.run(call(1), { stdout: 'sent' })
  const done = await client.result('tasks/get', { taskId })
  expect(done).toMatchObject({
    status: 'completed',
    result: { resultType: 'complete', content: [{ type: 'text', text: 'sent' }] },
  })
  expect(await client.result('tasks/cancel', { taskId })).toMatchObject({ resultType: 'complete' })

  const second = await client.call(sensitive, { text: 'y' }, { meta, wait: 0 })
  await client.result('tasks/cancel', { taskId: second['taskId'] })
  expect(await client.result('tasks/get', { taskId: second['taskId'] })).toMatchObject({
    status: 'cancelled',
  })

  const foreign = new McpClient(fixtures.url, other.key, 'modern', TASKS)
  const changed = taskId.replace(/.$/, (char) => (char === 'A' ? 'B' : 'A'))
  for (const method of ['tasks/get', 'tasks/update', 'tasks/cancel']) {
    expect(await error(await foreign.send(method, { taskId }))).toEqual([200, -32602])
    for (const wrong of [changed, `${taskId}A`, call(1), 'task_', ''])
      expect(await error(await client.send(method, { taskId: wrong }))).toEqual([200, -32602])
    expect(await error(await client.send(method, { taskId }, { capabilities: {} }))).toEqual([400, -32021])
  }
})

test.concurrent('a task’s answer can be fetched for a day after its call could have ended (`mcp_task_ms`)', async () => {
  const { client, meta } = await calls.clientInRun('modern', TASKS)
  const created = await client.call(sensitive, { text: 'x' }, { meta, wait: 0 })
  const quarter = 15 * 60_000 // for the approval, and then for a worker’s claim
  const left = Number(created['ttlMs']) - 86_400_000 - 2 * quarter
  expect(Math.abs(left)).toBeLessThan(5_000)
})

test.concurrent('a progress message has at most 200 characters of a line (`mcp_progress_chars`)', async () => {
  const { client, meta, call } = await calls.clientInRun('modern')
  const exchange = await client.send(
    'tools/call',
    { name: tool, arguments: {} },
    { meta: { ...meta, progressToken: 'p' }, wait: 60 },
  )
  await calls.proposed(call(1))
  const claim = unwrap(await peer.claim(call(1)))
  await exchange.until('the state', ({ messages }) =>
    messages.some(({ params }) => params?.['message'] === 'running') ? true : undefined,
  )
  const line = `${'a'.repeat(300)}\n`
  let written = ''
  // At most one line a second becomes a message.
  await eventually('the line is shown', async () => {
    const body = {
      fence: 1,
      stream: 'stdout' as const,
      offset: written.length,
      data: Buffer.from(line).toString('base64'),
    }
    unwrap(await peer.client('output', { params: { call: call(1) }, body }))
    written += line
    return exchange.messages.some(({ params }) => params?.['message'] === 'a'.repeat(200))
  })
  await peer.settle(claim, { stdout: written })
  await exchange.end()
})

test.concurrent('a listener follows 32 tasks (`mcp_listened_tasks`), and the answer says which', async () => {
  const { client, meta } = await calls.clientInRun('modern', TASKS)
  const created = await Promise.all(
    Array.from({ length: 33 }, (_, n) => client.call(sensitive, { text: `${n}` }, { meta, wait: 0 })),
  )
  const taskIds = created.map(({ taskId }) => taskId)
  const exchange = await client.send('subscriptions/listen', { notifications: { taskIds } })
  const [told] = await exchange.until('the first message', ({ messages }) =>
    messages.length > 0 ? messages : undefined,
  )
  expect(told?.params?.['notifications']).toEqual({ taskIds: taskIds.slice(0, 32) })
  exchange.close()
  expect(await client.result('tasks/get', { taskId: taskIds.at(-1) })).toMatchObject({ status: 'working' })
})

// These measure times, so they run alone.

test('a request of a client that supports tasks is held for two seconds (`mcp_hold_task_s`), also for a task', async () => {
  const { client } = await calls.clientInRun('modern', TASKS)
  const timed = async <T>(work: Promise<T>): Promise<[T, number]> => {
    const began = performance.now()
    return [await work, performance.now() - began]
  }
  const [created, held] = await timed(client.call(sensitive, { text: 'held' }))
  expect([created['resultType'], Math.round(held / 1_000)]).toEqual(['task', 2])
  const asked = client.send('tasks/get', { taskId: created['taskId'] }, { headers: { prefer: 'wait=30' } })
  const [, waited] = await timed(asked.then((exchange) => exchange.answer()))
  expect(Math.round(waited / 1_000)).toBe(2)
})

test('a call that ends within 200 ms (`mcp_quick_ms`) is answered without a stream, and another one no sooner', async () => {
  expect(LIMITS.mcp_quick_ms).toBe(200)
  await eventually('a call ends in time', async () => {
    const { client, meta, call } = await calls.clientInRun('modern')
    const sent = client.send('tools/call', { name: tool, arguments: {} }, { meta, wait: 60 })
    await calls.proposed(call(1))
    await peer.run(call(1), { stdout: 'done' })
    const exchange = await sent
    expect(textOf((await exchange.answer()).result ?? {})).toBe('done')
    return !exchange.isStream
  })
  const { client, meta } = await calls.clientInRun('modern')
  const began = performance.now()
  const exchange = await client.send('tools/call', { name: sensitive, arguments: {} }, { meta, wait: 60 })
  expect([exchange.isStream, performance.now() - began >= 200]).toEqual([true, true])
  exchange.close()
})
