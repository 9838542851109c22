// Requests that are too large or too slow are bounded and answered, while others are served.

import { afterEach, expect, test } from 'vitest'
import { LIMITS } from '../../../shared/limits.ts'
import { Fixtures, refusalOf, unwrap } from '../../support/fixtures.ts'
import { RawRequest } from '../../support/http/raw-http.ts'
import { sharedStack } from '../../support/stack/stack.ts'
import { processPlan } from '../../support/worker/process-plan.ts'

const fixtures = new Fixtures('bounds', sharedStack())
const agent = await fixtures.agent()
const tool = await fixtures.tool({ executor: { argv: ['cat', '{...list}'] } })
const auth = [`authorization: Bearer ${agent.key}`, 'content-type: application/json']

const opened: RawRequest[] = []
const open = (): RawRequest => {
  const request = new RawRequest(fixtures.url)
  opened.push(request)
  return request
}
afterEach(() => {
  for (const request of opened.splice(0)) request.end()
})

const serves = async (): Promise<void> => {
  const started = performance.now()
  expect((await fetch(new URL('/healthz', fixtures.url))).status).toBe(200)
  expect(performance.now() - started).toBeLessThan(2_000)
}

test('G10 a body that announces too large a length is refused before it arrives', async () => {
  for (const length of [LIMITS.body_bytes + 1, 2 ** 40]) {
    const answer = await open()
      .head('POST', '/v1/calls', [...auth, `content-length: ${length}`])
      .answered(5_000)
    expect([length, answer.status, /"code":"([a-z_]+)"/.exec(answer.text)?.[1]]).toEqual([
      length,
      413,
      'body_too_large',
    ])
  }
})

test('G10 an unknown caller is refused before more than a small part of the body has arrived', async () => {
  for (const [method, path] of [
    ['PUT', `/v1/runs/run_x/files/${'0'.repeat(64)}`],
    ['POST', '/v1/calls'],
    ['PUT', `/v1/worker/calls/call_x/files/${'0'.repeat(64)}`],
    ['POST', '/v1/worker/attestations'],
  ] as const) {
    for (const length of [`content-length: ${LIMITS.body_bytes}`, 'transfer-encoding: chunked']) {
      const answer = await open()
        .head(method, path, ['content-type: application/json', length])
        .answered(LIMITS.body_ms / 2)
      expect([path, length, answer.status]).toEqual([path, length, 401])
    }
  }
  await serves()
})

test('G10 a body of at most 16 KiB (`unknown_body_bytes`) is read before its sender is authenticated, and no larger one', async () => {
  expect(LIMITS.unknown_body_bytes).toBe(16_384)
  const post = (length: number) =>
    open().head('POST', '/v1/calls', ['content-type: application/json', `content-length: ${length}`])
  const small = post(16_384)
  expect((await post(16_385).answered(LIMITS.body_ms / 2)).status).toBe(401)
  expect(small.answer).toBeUndefined()
  expect((await small.send('x'.repeat(16_384)).answered(5_000)).status).toBe(401)
})

test('G10 a body without an announced length is cut off at the limit', async () => {
  const request = open().head('POST', '/v1/calls', [...auth, 'transfer-encoding: chunked'])
  const chunk = `10000\r\n${'x'.repeat(0x10000)}\r\n`
  // Sends just more than the limit and never ends: a client that goes on sending after the response
  // may lose it to a reset of the connection.
  for (let sent = 0; sent <= LIMITS.body_bytes; sent += 0x10000) request.send(chunk)
  const answer = await request.answered(5_000)
  expect([answer.status, /"code":"([a-z_]+)"/.exec(answer.text)?.[1]]).toEqual([413, 'body_too_large'])
  await serves()
})

test('G10 a content length that is false, signed or repeated never leads to a call', async () => {
  for (const headers of [
    ['content-length: -1'],
    ['content-length: 1e3'],
    ['content-length: 0x10'],
    ['content-length: 5', 'content-length: 6'],
    ['content-length: 5', 'transfer-encoding: chunked'],
  ]) {
    const answer = await open()
      .head('POST', '/v1/calls', [...auth, ...headers])
      .send('{}')
      .answered(5_000)
      .catch(() => ({ status: 0, text: '' }))
    expect([headers, answer.status === undefined || answer.status >= 400 || answer.status === 0]).toEqual([
      headers,
      true,
    ])
  }
  await serves()
})

test('G10 ten thousand headers, or one header of a megabyte, are refused at once', async () => {
  const many = Array.from({ length: 10_000 }, (_, i) => `x-header-${i}: value`)
  const long = [`x-long: ${'a'.repeat(1024 * 1024)}`]
  for (const headers of [many, long]) {
    const answer = await open()
      .head('GET', '/v1/tools', [...auth, ...headers])
      .answered(5_000)
    expect(answer.status).toBe(431) // the second by the runtime, before it reaches us
  }
  await serves()
})

test('G10 all headers of a request together have at most `headers_bytes`', async () => {
  expect(LIMITS.headers_bytes).toBe(32_768)
  const refusal = async (chars: number) => {
    const { status, text } = await open()
      .head('GET', '/v1/tools', [...auth, `x-long: ${'a'.repeat(chars)}`])
      .answered(5_000)
    return [status, /"code":"([a-z_]+)"/.exec(text)?.[1]]
  }
  expect((await refusal(LIMITS.headers_bytes - 1_024))[0]).toBe(200)
  expect(await refusal(LIMITS.headers_bytes)).toEqual([431, 'headers_too_large'])
})

test('G10 a body that arrives byte by byte is given up, and delays no other request', async () => {
  const started = performance.now()
  const request = open().head('POST', '/v1/calls', [...auth, 'content-length: 1000000'])
  const dripping = setInterval(() => request.send(' '), 100)
  try {
    await serves()
    const answer = await request.answered(LIMITS.body_ms + 5_000)
    expect([answer.status, /"code":"([a-z_]+)"/.exec(answer.text)?.[1]]).toEqual([408, 'body_too_slow'])
    expect(performance.now() - started).toBeGreaterThan(LIMITS.body_ms - 100)
  } finally {
    clearInterval(dripping)
  }
})

test('G10 arguments above their own size limit are refused', async () => {
  const open = await fixtures.tool()
  const propose = (length: number) =>
    agent.client('proposeCallInNewRun', { body: { tool: open, args: { text: 'x'.repeat(length) } } })
  expect(unwrap(await propose(LIMITS.arguments_bytes - 100)).state).toBe('granted')
  expect(refusalOf(await propose(LIMITS.arguments_bytes))).toBe('422 invalid_arguments')
  expect(refusalOf(await propose(LIMITS.arguments_bytes + 300_000))).toBe('422 invalid_arguments')
})

test('S47 a command line up to the limits is stored and read back; a longer one is refused', async () => {
  const propose = (list: string[]) => agent.client('proposeCallInNewRun', { body: { tool, args: { list } } })
  const big = unwrap(await propose(Array.from({ length: 4 }, () => 'x'.repeat(LIMITS.argv_item_bytes - 100))))
  const read = unwrap(await agent.client('readCall', { params: { run: big.run, call: big.id } }))
  expect(processPlan(read.plan).executor.argv[4]?.length).toBe(LIMITS.argv_item_bytes - 100)
  expect(refusalOf(await propose(['x'.repeat(LIMITS.argv_item_bytes + 1)]))).toBe('422 invalid_arguments')
  expect(refusalOf(await propose(Array.from({ length: LIMITS.argv_items }, () => 'x')))).toBe(
    '422 invalid_arguments',
  )
})

test('G10 the card of a call with the largest arguments is stored, listed and shown', async () => {
  const sensitive = await fixtures.tool({
    capabilities: ['network'],
    executor: { argv: ['cat', '{...list}'] },
  })
  const list = Array.from({ length: 200 }, () => `\u0001${'é'.repeat(1_200)}`)
  const call = await fixtures.proposeForApproval(agent.client, sensitive, { list })
  const approval = unwrap(await fixtures.root('readApproval', { params: { id: call.approval.id } }))
  expect(approval.prompt.arguments.length).toBeLessThan(2 * LIMITS.card_chars)
  expect((await fetch(approval.url ?? '')).status).toBe(200)
})

test('G10 overlong paths, parameters and queries are refused or not found', async () => {
  for (const path of [
    `/v1/runs/${'A'.repeat(60_000)}`,
    `/v1/tools/${'a'.repeat(10_000)}`,
    `/v1/runs?${'x=1&'.repeat(5_000)}`,
    `/log/default/tile/0/${'x000/'.repeat(5_000)}000`,
    `/log/default/tile/${'9'.repeat(400)}/000`,
    '/log/default/tile/-1/000',
    '/log/default/tile/1.5/000',
    '/log/default/tile/entries/NaN',
    '/log/default/tile/0/..%2f..%2f000',
    '/v1/runs/%00',
    '/v1/runs/%zz',
    '/v1/runs/..%2f..%2fetc',
  ]) {
    const answer = await fetch(new URL(path, fixtures.url), {
      headers: { authorization: `Bearer ${agent.key}` },
    })
    expect([path.slice(0, 40), answer.status >= 400 && answer.status < 500]).toEqual([
      path.slice(0, 40),
      true,
    ])
    await answer.arrayBuffer()
  }
  await serves()
})
