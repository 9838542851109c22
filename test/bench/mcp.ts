// Measures the MCP endpoint beside our own API: the same denied call through both doors, in turn; the
// list of 200 tools, unchanged and after a change of the directory; and 1,000 clients that wait for
// approvals on streams, by memory and processor time of the edge.

import { readFileSync } from 'node:fs'
import { type ClientRequest, type IncomingMessage, request } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Stack } from '../../infra/stack.ts'
import { LIMITS } from '../../shared/limits.ts'
import { bearer, type Client, client } from '../../shared/routes/client.ts'
import { bytesOf, Connection, type Request } from './connection.ts'
import type { Load } from './load.ts'
import { cpuMs } from './machine.ts'
import type { Peer } from './peer.ts'
import { type Extent, median, type Slice } from './slice.ts'
import { doesNothing, done, type SubjectRequests } from './subjects.ts'

export const TOOLS = 200
export const STREAMS = 1_000
const RUNS = 8
/** A call is streamed after 200 ms. */
const OPENED_AT_ONCE = 50

/** Milliseconds, and for the streams all of them together. */
export type Mcp = {
  readonly denied: { readonly http: number; readonly mcp: number }
  readonly list: { readonly unchanged: number; readonly changed: number }
  readonly waiting: { readonly mib: number; readonly percentOfCore: number }
}

export async function timeMcp(
  { url, operator, edge }: Stack,
  load: Peer<Load, Slice>,
  { rounds, extent, watch_ms }: { rounds: number; extent: Extent; watch_ms: number },
): Promise<Mcp> {
  const port = Number(new URL(url).port)
  const key = await prepare(operator)
  const agent = client(url, bearer(key))
  const runs = await Promise.all(
    Array.from({ length: RUNS }, async () => done(await agent('createRun', { body: {} })).id),
  )
  const slices = async (subjects: readonly SubjectRequests[]): Promise<number[]> => {
    const seen = subjects.map((): number[] => [])
    for (let round = 0; round < rounds; round++)
      for (const [at, subject] of subjects.entries()) {
        const { faults, p50 } = await load.ask({ port, concurrency: 1, extent, ...subject })
        if (faults.length > 0) throw new Error(faults.join('\n'))
        seen[at]?.push(p50)
      }
    return seen.map(median)
  }
  const both = async (tool: string, state: string) => {
    const [http = Number.NaN, mcp = Number.NaN] = await slices([
      overHttp(key, runs, tool, state),
      overMcp(key, runs, tool, state),
    ])
    return { http, mcp }
  }
  const list = listOf(key)
  const [unchanged = Number.NaN] = await slices([list])
  return {
    denied: await both('bench_never', 'denied'),
    list: { unchanged, changed: await timeChangedList(port, operator, list) },
    waiting: await timeWaiting(url, operator, edge.pid, watch_ms),
  }
}

const BUDGET = { max_calls_per_run: 1_000_000, max_denied_per_run: 1_000_000 }

async function prepare(operator: Client): Promise<string> {
  const text = { type: 'string', maxLength: 100, description: 'A text, as tools take it.' }
  const input_schema = { type: 'object', properties: { to: text, subject: text, body: text } }
  const names = Array.from({ length: TOOLS - 2 }, (_, n) => `bench_list_${n}`)
  for (const name of names)
    done(await operator('putTool', { params: { name }, body: { ...doesNothing('C'), input_schema } }))
  done(await operator('putTool', { params: { name: 'bench_never' }, body: doesNothing('C') }))
  const { policies } = done(await operator('readPolicies', {}))
  const never =
    '@id("never") forbid (principal, action, resource == Tool::"bench_never") when { context.run_id != "" };'
  done(
    await operator('putPolicies', {
      body: { policies: { ...policies, 'bench-mcp': never }, note: 'the bench' },
    }),
  )
  const body = { tools: ['bench_never', ...names], budget: BUDGET }
  return done(await operator('putAgent', { params: { name: 'bench-mcp' }, body })).key ?? ''
}

const common = (key: string) => ({
  authorization: `Bearer ${key}`,
  'content-type': 'application/json',
  prefer: 'wait=10',
})

const overHttp = (key: string, runs: readonly string[], tool: string, state: string): SubjectRequests => ({
  requests: runs.map((run) => ({
    method: 'POST',
    path: `/v1/runs/${run}/calls`,
    headers: common(key),
    body: JSON.stringify({ tool, args: {} }),
  })),
  expect: { status: 200, contains: [`"state":"${state}"`] },
})

const rpc = (key: string, method: string, params: object, meta: object = {}, more: object = {}): Request => ({
  method: 'POST',
  path: '/mcp',
  headers: {
    ...common(key),
    accept: 'application/json, text/event-stream',
    'mcp-protocol-version': '2026-07-28',
    'mcp-method': method,
    ...more,
  },
  body: JSON.stringify({
    jsonrpc: '2.0',
    id: 1,
    method,
    params: {
      ...params,
      _meta: {
        'io.modelcontextprotocol/protocolVersion': '2026-07-28',
        'io.modelcontextprotocol/clientCapabilities': {},
        ...meta,
      },
    },
  }),
})

const overMcp = (key: string, runs: readonly string[], tool: string, state: string): SubjectRequests => ({
  requests: runs.map((run) =>
    rpc(
      key,
      'tools/call',
      { name: tool, arguments: {} },
      { 'dev.countersign/run': run },
      { 'mcp-name': tool },
    ),
  ),
  expect: { status: 200, contains: [`"state":"${state}"`] },
})

const listOf = (key: string): SubjectRequests => ({
  requests: [rpc(key, 'tools/list', {})],
  expect: { status: 200, contains: ['"name":"bench_list_0"', '"ttlMs"'] },
})

/** The first list after each change of the directory. */
async function timeChangedList(
  port: number,
  operator: Client,
  { requests }: SubjectRequests,
): Promise<number> {
  const took: number[] = []
  const [first] = requests
  if (first === undefined) throw new Error('a list has one request')
  const connection = await Connection.open(port)
  const ping = bytesOf({ method: 'GET', path: '/healthz', headers: {}, body: '' }, port)
  for (let n = 0; n < 20; n++) {
    done(
      await operator('putAgent', {
        params: { name: 'bench-changes' },
        body: { tools: [], groups: [`g${n}`] },
      }),
    )
    await connection.exchange(ping)
    const from = performance.now()
    await connection.exchange(bytesOf(first, port))
    took.push(performance.now() - from)
  }
  connection.close()
  return median(took)
}

/** Each client has a session and a call of its own. */
async function timeWaiting(url: string, operator: Client, pid: number | undefined, watch_ms: number) {
  const name = 'bench_waits'
  done(await operator('putTool', { params: { name }, body: { ...doesNothing('C'), sensitive: true } }))
  const keys: string[] = []
  for (let n = 0; n * LIMITS.mcp_holds_agent < STREAMS; n++)
    keys.push(
      done(await operator('putAgent', { params: { name: `bench-waits-${n}` }, body: { tools: [name] } }))
        .key ?? '',
    )
  const before = rssMib(pid)
  const open: Waiting[] = []
  const opened = (n: number) => wait(url, keys[n % keys.length] ?? '', name, `s${n}`)
  for (let n = 0; n < STREAMS; n += OPENED_AT_ONCE)
    open.push(...(await Promise.all(Array.from({ length: OPENED_AT_ONCE }, (_, lane) => opened(n + lane)))))
  await sleep(LIMITS.mcp_heartbeat_ms * 3) // objects that nothing needs any more are gone
  const [spent, from] = [cpuMs(pid), performance.now()]
  await sleep(watch_ms)
  const percentOfCore = (100 * (cpuMs(pid) - spent)) / (performance.now() - from)
  const mib = rssMib(pid) - before
  if (open.some(({ response }) => !response.readable)) throw new Error('a waiting stream has ended')
  for (const { sent } of open) sent.destroy()
  return { mib, percentOfCore }
}

type Waiting = { readonly sent: ClientRequest; readonly response: IncomingMessage }

function wait(url: string, key: string, name: string, session: string): Promise<Waiting> {
  const { path, headers, body } = rpc(key, 'tools/call', { name, arguments: {} }, {}, { 'mcp-name': name })
  return new Promise((settle, fail) => {
    const sent = request(new URL(path, url), {
      method: 'POST',
      headers: { ...headers, prefer: `wait=${LIMITS.mcp_hold_most_s}`, 'countersign-session': session },
      agent: false,
    })
    sent.on('error', (error) => fail(error))
    sent.on('response', (response) => {
      response.resume()
      if (response.headers['content-type'] !== 'text/event-stream')
        fail(new Error('a client was not made to wait'))
      else settle({ sent, response })
    })
    sent.end(body)
  })
}

const rssMib = (pid: number | undefined): number =>
  Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024
