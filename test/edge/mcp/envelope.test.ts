// Untrusted bytes become one message of one era, or one error with the status and code that clients
// of both eras understand.

import { expect, test } from 'vitest'
import { readMessage } from '../../../edge/mcp/envelope.ts'
import { acceptedOf, checkOrigin, decodeHeader } from '../../../edge/mcp/headers.ts'

const MODERN = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientCapabilities': {},
}
const headersOf = (method: string, more: Record<string, string> = {}) =>
  new Headers({ 'mcp-protocol-version': '2026-07-28', 'mcp-method': method, ...more })
const read = (body: unknown, headers = new Headers()) => {
  const text = typeof body === 'string' ? body : JSON.stringify(body)
  const message = readMessage(new TextEncoder().encode(text), headers)
  return message.ok
    ? message.value
    : { status: message.error.error.status, code: message.error.error.code, id: message.error.id }
}
const refused = (status: number, code: number, id: unknown = null) => ({ status, code, id })
const modern = (method: string, params = {}, meta: Record<string, unknown> = MODERN) => ({
  jsonrpc: '2.0',
  id: 7,
  method,
  params: { ...params, _meta: meta },
})

test('M02 a body that is not exactly one JSON-RPC message is refused with the code for its fault', () => {
  const table: [unknown, number][] = [
    ['', -32700],
    ['{', -32700],
    ['{"a":1}x', -32700],
    ['\ufeff{}', -32700],
    ['{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}', -32600],
    [`${'['.repeat(100)}${']'.repeat(100)}`, -32600],
    ['{"jsonrpc":"2.0","id":9007199254740993,"method":"ping"}', -32600],
    ['{"jsonrpc":"2.0","id":1,"method":"ping","params":{"__proto__":{}}}', -32600],
    [[], -32600],
    [[{ jsonrpc: '2.0', id: 1, method: 'ping' }], -32600],
    ['"ping"', -32600],
    ['null', -32600],
    [{ id: 1, method: 'ping' }, -32600],
    [{ jsonrpc: '1.0', id: 1, method: 'ping' }, -32600],
    [{ jsonrpc: 2, id: 1, method: 'ping' }, -32600],
    [{ jsonrpc: '2.0', id: 1 }, -32600],
    [{ jsonrpc: '2.0', id: 1, method: 5 }, -32600],
    [{ jsonrpc: '2.0', id: 1, method: 'x'.repeat(129) }, -32600],
    [{ jsonrpc: '2.0', id: 1, method: 'ping', params: [] }, -32600],
    [{ jsonrpc: '2.0', id: 1, method: 'ping', params: 'x' }, -32600],
    [{ jsonrpc: '2.0', id: 1, method: 'ping', params: null }, -32600],
  ]
  for (const [body, code] of table) expect(read(body), String(body)).toMatchObject({ status: 400, code })
})

test('M02 a batch is refused with the advice to send one message', () => {
  const batch = [{ jsonrpc: '2.0', id: 1, method: 'ping' }]
  const refusal = readMessage(new TextEncoder().encode(JSON.stringify(batch)), new Headers())
  expect(refusal).toMatchObject({
    ok: false,
    error: { id: null, error: { status: 400, message: 'send one message; batches are not supported' } },
  })
})

test('M02 a request id is an integer or a string of at most `mcp_id_chars`, and a refusal repeats it', () => {
  for (const id of [null, 1.5, true, {}, [], 'x'.repeat(257)])
    expect(read({ jsonrpc: '2.0', id, method: 'ping' })).toEqual(refused(400, -32600))
  for (const id of [0, -1, 1, 'x', ''])
    expect(read({ jsonrpc: '2.0', id, method: 'ping' })).toMatchObject({ kind: 'request', id })
  expect(read({ jsonrpc: '2.0', id: 'a', method: 5 })).toEqual(refused(400, -32600, 'a'))
})

test('M01 `_meta`, then the header, decides the era of a message, and a contradiction is refused', () => {
  const table: [string, unknown, Headers, unknown][] = [
    ['a modern request', modern('tools/list'), headersOf('tools/list'), { kind: 'request', era: 'modern' }],
    ['no header', modern('tools/list'), new Headers(), refused(400, -32020, 7)],
    [
      'an old header',
      modern('tools/list'),
      headersOf('tools/list', { 'mcp-protocol-version': '2025-11-25' }),
      refused(400, -32020, 7),
    ],
    [
      'two headers',
      modern('tools/list'),
      headersOf('tools/list', { 'mcp-protocol-version': '2026-07-28, 2026-07-28' }),
      refused(400, -32020, 7),
    ],
    [
      'no method header',
      modern('tools/list'),
      new Headers({ 'mcp-protocol-version': '2026-07-28' }),
      refused(400, -32020, 7),
    ],
    ['another method', modern('tools/list'), headersOf('tools/call'), refused(400, -32020, 7)],
    ['a method in other case', modern('tools/list'), headersOf('Tools/List'), refused(400, -32020, 7)],
    ['no name header', modern('tools/call', { name: 'a' }), headersOf('tools/call'), refused(400, -32020, 7)],
    [
      'another name',
      modern('tools/call', { name: 'a' }),
      headersOf('tools/call', { 'mcp-name': 'b' }),
      refused(400, -32020, 7),
    ],
    [
      'another task',
      modern('tasks/get', { taskId: 'a' }),
      headersOf('tasks/get', { 'mcp-name': 'b' }),
      refused(400, -32020, 7),
    ],
    [
      'the name',
      modern('tools/call', { name: 'a' }),
      headersOf('tools/call', { 'mcp-name': ' a ' }),
      { kind: 'request' },
    ],
    [
      'the name in base64',
      modern('tools/call', { name: 'é' }),
      headersOf('tools/call', { 'mcp-name': '=?base64?w6k=?=' }),
      { kind: 'request' },
    ],
    [
      'a future revision',
      modern('tools/list', {}, { ...MODERN, 'io.modelcontextprotocol/protocolVersion': '2027-01-01' }),
      headersOf('tools/list', { 'mcp-protocol-version': '2027-01-01' }),
      refused(400, -32022, 7),
    ],
    [
      'an old revision in `_meta`',
      modern('tools/list', {}, { ...MODERN, 'io.modelcontextprotocol/protocolVersion': '2025-11-25' }),
      headersOf('tools/list', { 'mcp-protocol-version': '2025-11-25' }),
      refused(400, -32022, 7),
    ],
    [
      'a revision that is no text',
      modern('tools/list', {}, { 'io.modelcontextprotocol/protocolVersion': 5 }),
      headersOf('tools/list'),
      refused(400, -32602, 7),
    ],
    [
      'no capabilities',
      modern('tools/list', {}, { 'io.modelcontextprotocol/protocolVersion': '2026-07-28' }),
      headersOf('tools/list'),
      refused(400, -32602, 7),
    ],
    [
      'capabilities that are a list',
      modern('tools/list', {}, { ...MODERN, 'io.modelcontextprotocol/clientCapabilities': [] }),
      headersOf('tools/list'),
      refused(400, -32602, 7),
    ],
    [
      '`_meta` that is a list',
      { jsonrpc: '2.0', id: 7, method: 'tools/list', params: { _meta: [] } },
      headersOf('tools/list'),
      refused(400, -32602, 7),
    ],
    [
      'a modern header alone',
      { jsonrpc: '2.0', id: 7, method: 'tools/list' },
      headersOf('tools/list'),
      refused(400, -32602, 7),
    ],
    [
      'a future header alone',
      { jsonrpc: '2.0', id: 7, method: 'tools/list' },
      new Headers({ 'mcp-protocol-version': '2030-01-01' }),
      refused(400, -32602, 7),
    ],
    [
      'a legacy request',
      { jsonrpc: '2.0', id: 7, method: 'tools/list' },
      new Headers({ 'mcp-protocol-version': '2025-06-18' }),
      { kind: 'request', era: 'legacy', revision: '2025-06-18' },
    ],
    [
      'no version at all',
      { jsonrpc: '2.0', id: 7, method: 'tools/list' },
      new Headers(),
      { era: 'legacy', revision: '2025-03-26' },
    ],
    [
      'an unknown old version',
      { jsonrpc: '2.0', id: 7, method: 'tools/list' },
      new Headers({ 'mcp-protocol-version': '2024-11-05' }),
      refused(400, -32600, 7),
    ],
    [
      'a version that is none',
      { jsonrpc: '2.0', id: 7, method: 'tools/list' },
      new Headers({ 'mcp-protocol-version': 'x' }),
      refused(400, -32600, 7),
    ],
    [
      'initialize with any old header',
      { jsonrpc: '2.0', id: 7, method: 'initialize' },
      new Headers({ 'mcp-protocol-version': 'x' }),
      { era: 'legacy', method: 'initialize' },
    ],
    [
      'a legacy notification',
      { jsonrpc: '2.0', method: 'notifications/initialized' },
      new Headers(),
      { kind: 'notification', era: 'legacy' },
    ],
    ['a response', { jsonrpc: '2.0', id: 7, result: {} }, new Headers(), { kind: 'response' }],
    ['a modern response', { jsonrpc: '2.0', id: 7, result: {} }, headersOf('x'), refused(400, -32600, 7)],
  ]
  for (const [title, body, headers, expected] of table)
    expect(read(body, headers), title).toMatchObject(expected as object)
})

test('unknown or malformed members of `_meta` are refused, as is a wait above `mcp_hold_most_s`, and a client’s name is cut at `mcp_client_chars`', () => {
  const meta = (more: Record<string, unknown>) =>
    read(modern('tools/list', {}, { ...MODERN, ...more }), headersOf('tools/list'))
  expect(meta({})).toMatchObject({
    meta: { tasks: false, opensUrls: false, client: null, progressToken: null, ours: {} },
  })
  expect(
    meta({
      'io.modelcontextprotocol/clientCapabilities': {
        elicitation: { url: {} },
        extensions: { 'io.modelcontextprotocol/tasks': {} },
      },
      'io.modelcontextprotocol/clientInfo': { name: 'n'.repeat(100) },
      progressToken: 'p',
      'dev.countersign/waitS': 5,
      traceparent: 'x',
    }),
  ).toMatchObject({
    meta: { tasks: true, opensUrls: true, client: 'n'.repeat(64), progressToken: 'p', ours: { waitS: 5 } },
  })
  expect(meta({ 'io.modelcontextprotocol/clientCapabilities': { elicitation: {} } })).toMatchObject({
    meta: { opensUrls: false },
  })
  for (const wrong of [
    { progressToken: 1.5 },
    { progressToken: null },
    { progressToken: {} },
    { 'dev.countersign/waitS': 171 },
    { 'dev.countersign/waitS': '5' },
    { 'dev.countersign/run': 'run_x' },
    { 'dev.countersign/session': 'a b' },
    { 'dev.countersign/idempotencyKey': 'é' },
    { 'dev.countersign/idempotencyKey': 'x'.repeat(256) },
    { 'dev.countersign/idempotencykey': 'x' },
  ])
    expect(meta(wrong), JSON.stringify(wrong)).toEqual(refused(400, -32602, 7))
})

test('M01 a header value is decoded before it is compared, and malformed base64 never matches', () => {
  expect(['a', '=?base64?w6k=?=', '=?base64??='].map(decodeHeader)).toEqual(['a', 'é', ''])
  for (const bad of [null, '=?base64?w6k?=', '=?base64?w6l=?=', '=?base64?/w==?='])
    expect(decodeHeader(bad)).toBeUndefined()
  expect(decodeHeader('=?base64?w6k=')).toBe('=?base64?w6k=')
})

test('the `Accept` header says whether a stream may be sent; clients without it get JSON', () => {
  const accepted = (accept?: string) => acceptedOf(new Headers(accept === undefined ? {} : { accept }))
  expect([
    accepted(),
    accepted('*/*'),
    accepted('application/json, text/event-stream'),
    accepted('text/event-stream;q=0.5'),
    accepted('application/JSON'),
    accepted('text/html'),
  ]).toEqual([
    { json: true, stream: false },
    { json: true, stream: false },
    { json: true, stream: true },
    { json: false, stream: true },
    { json: true, stream: false },
    { json: false, stream: false },
  ])
})

test('N16 only pages of the edge and of this host may send requests, and only to a host name of the edge', () => {
  const check = (url: string, origin: string | null, publicUrl: string) =>
    checkOrigin(new Request(url, { method: 'POST', headers: origin === null ? {} : { origin } }), publicUrl)
      ?.code
  const ours = 'https://cs.example'
  const table: [string, string | null, string, boolean][] = [
    ['https://cs.example/mcp', null, ours, true],
    ['https://cs.example/mcp', 'https://cs.example', ours, true],
    ['https://cs.example/mcp', 'https://evil.example', ours, false],
    ['https://cs.example/mcp', 'http://cs.example', ours, false],
    ['https://cs.example/mcp', 'https://cs.example:8443', ours, false],
    ['https://cs.example/mcp', 'null', ours, false],
    ['https://cs.example/mcp', 'http://localhost:6274', ours, false],
    ['https://evil.example/mcp', null, ours, false],
    ['https://cs.example.evil.example/mcp', null, ours, false],
    ['http://10.0.0.7:8787/mcp', null, ours, true],
    ['http://localhost:8787/mcp', 'http://localhost:6274', 'http://127.0.0.1:8787', true],
    ['http://127.0.0.1:8787/mcp', 'http://127.0.0.1:8787', 'http://127.0.0.1:8787', true],
    ['http://[::1]:8787/mcp', 'http://[::1]:1', 'http://127.0.0.1:8787', true],
    ['http://127.0.0.1:8787/mcp', 'http://evil.example', 'http://127.0.0.1:8787', false],
    ['http://127.0.0.1:8787/mcp', 'http://localhost.evil.example', 'http://127.0.0.1:8787', false],
    ['http://evil.example:8787/mcp', 'http://evil.example:8787', 'http://127.0.0.1:8787', false],
    ['http://10.0.0.7:8787/mcp', 'http://localhost:1', ours, false],
  ]
  for (const [url, origin, publicUrl, allowed] of table)
    expect(check(url, origin, publicUrl), `${url} from ${origin}`).toBe(
      allowed ? undefined : 'foreign_origin',
    )
})
