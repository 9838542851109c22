// Measures the MCP endpoint beside our own API: the same denied call over both, in turn; the list of
// 200 tools, unchanged and after a change of the directory.

import type { Stack } from '../../infra/stack.ts'
import { bearer, type Client, client } from '../../shared/routes/client.ts'
import { bytesOf, Connection, type Request } from './connection.ts'
import type { Load } from './load.ts'
import type { Peer } from './peer.ts'
import { type Extent, median, type Slice } from './slice.ts'
import { doesNothing, done, type SubjectRequests } from './subjects.ts'

export const TOOLS = 200
const RUNS = 8

/** Milliseconds. */
export type Mcp = {
  readonly denied: { readonly http: number; readonly mcp: number }
  readonly list: { readonly unchanged: number; readonly changed: number }
}

export async function timeMcp(
  { url, operator }: Stack,
  load: Peer<Load, Slice>,
  { rounds, extent }: { rounds: number; extent: Extent },
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
      for (let turn = 0; turn < subjects.length; turn++) {
        const at = (turn + round) % subjects.length // each round begins with another subject
        const subject = subjects[at]
        if (subject === undefined) continue
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

export const callTool = (key: string, name: string, args: object, meta: object = {}): Request =>
  rpc(key, 'tools/call', { name, arguments: args }, meta, { 'mcp-name': name })

const overMcp = (key: string, runs: readonly string[], tool: string, state: string): SubjectRequests => ({
  requests: runs.map((run) => callTool(key, tool, {}, { 'dev.countersign/run': run })),
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
