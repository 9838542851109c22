// A call that is proposed over HTTP and the same call over MCP get the same
// decision, plan and approval, the same kinds of journal entries and the same statement.

import { expect, test } from 'vitest'
import { payloadBytes } from '../../../shared/evidence/dsse.ts'
import { callId } from '../../../shared/ids.ts'
import type { Call } from '../../../shared/wire/calls.ts'
import { eventually } from '../../support/eventually.ts'
import { Fixtures, unwrap } from '../../support/fixtures.ts'
import { McpClient } from '../../support/http/mcp-client.ts'
import { sharedStack } from '../../support/stack/stack.ts'
import { PeerWorker } from '../../support/worker/peer-worker.ts'

const fixtures = new Fixtures('mcp-parity', sharedStack())
const input_schema = {
  type: 'object',
  properties: { text: { type: 'string', maxLength: 50 }, cents: { type: 'integer', minimum: 0 } },
  additionalProperties: false,
}
const executor = { argv: ['echo', '{text}'], stdin: 'none' as const }
const tools = {
  plain: await fixtures.tool({ input_schema }),
  argv: await fixtures.tool({ input_schema, executor }),
  shared: await fixtures.tool({ input_schema, workspace: 'run' }),
  spends: await fixtures.tool({ input_schema, spends: { arg: 'cents' } }),
  asks: await fixtures.tool({ input_schema, sensitive: true }),
  foreign: await fixtures.tool({ input_schema }),
}
const { foreign, ...own } = tools
const agent = await fixtures.agent({ tools: Object.values(own), budget: { max_calls_per_run: 24 } })
const peer = await PeerWorker.enrol(fixtures.url, fixtures.root, fixtures.pool)
const client = new McpClient(fixtures.url, agent.key, 'modern')

type End = 'runs' | 'fails' | 'is cancelled' | 'is denied' | 'ends at once'
type Case = { readonly tool: keyof typeof tools; readonly args: Record<string, unknown>; readonly end: End }
const text = (of: number) => ({ text: `${of} é \u{1f600}` })
const CASES: readonly Case[] = [
  ...(['plain', 'argv', 'shared'] as const).flatMap((tool, at) =>
    (['runs', 'fails', 'is cancelled'] as const).map((end, n) => ({ tool, args: text(10 * at + n), end })),
  ),
  ...[0, 1, 2 ** 40].map((cents) => ({ tool: 'spends' as const, args: { cents }, end: 'runs' as const })),
  ...(['runs', 'fails', 'is cancelled', 'is denied'] as const).flatMap((end, n) => [
    { tool: 'asks' as const, args: text(100 + n), end },
    { tool: 'asks' as const, args: { cents: n }, end },
  ]),
  { tool: 'plain', args: {}, end: 'runs' },
  { tool: 'plain', args: { text: '' }, end: 'runs' },
  { tool: 'plain', args: { text: '-0 \\ " \n' }, end: 'runs' },
  { tool: 'argv', args: { text: '--flag' }, end: 'runs' },
  { tool: 'plain', args: { text: 'x'.repeat(51) }, end: 'ends at once' },
  { tool: 'plain', args: { cents: 1.5 }, end: 'ends at once' },
  { tool: 'plain', args: { more: true }, end: 'ends at once' },
  { tool: 'asks', args: { text: 5 }, end: 'ends at once' },
  { tool: 'foreign', args: { text: 5 }, end: 'ends at once' },
  { tool: 'plain', args: { text: 'over the budget' }, end: 'ends at once' },
]

type Door = { readonly run: string; readonly propose: (one: Case) => Promise<unknown> }
const runOf = async () => unwrap(await agent.client('createRun', { body: { session: 'parity' } })).id

async function doors(): Promise<readonly [Door, Door]> {
  const [http, mcp] = [await runOf(), await runOf()]
  const overHttp = async ({ tool, args }: Case) => {
    const answer = await agent.client('proposeCall', {
      params: { run: http },
      body: { tool: tools[tool], args },
    })
    return answer.ok ? null : answer.error.code
  }
  const overMcp = async ({ tool, args }: Case) => {
    const exchange = await client.send(
      'tools/call',
      { name: tools[tool], arguments: args },
      { meta: { 'dev.countersign/run': mcp }, wait: 0 },
    )
    const { result, error } = await exchange.answer()
    const meta = (result?.['_meta'] ?? {}) as Record<string, { code: string }>
    return error === undefined ? (meta['dev.countersign/failure']?.code ?? null) : 'not_found'
  }
  return [
    { run: http, propose: overHttp },
    { run: mcp, propose: overMcp },
  ]
}

const read = (run: string, n: number) => agent.client('readCall', { params: { run, call: callId(run, n) } })

async function finish(run: string, n: number, { end, tool }: Case): Promise<void> {
  const call = unwrap(await read(run, n))
  const answer = (decision: 'approve' | 'deny') =>
    fixtures.root('answerApproval', { params: { id: call.approval?.id ?? '' }, body: { decision } })
  if (end === 'is denied') unwrap(await answer('deny'))
  if (end === 'is cancelled') unwrap(await agent.client('cancelCall', { params: { run, call: call.id } }))
  if (end !== 'runs' && end !== 'fails') return
  if (tool === 'asks') unwrap(await answer('approve'))
  await peer.run(call.id, { stdout: 'out', outcome: { kind: 'exit', code: end === 'runs' ? 0 : 3 } })
}

/** Everything that is not the same in two runs by their nature: ids, digests over ids, times. */
function comparable(value: unknown, run: string, digest: string): unknown {
  const dropped = /^(?:(?:.*_)?at(?:_ms)?|.*_ms|hash|prev|seq|execution_sha256|sha256|salt)$/
  const json = JSON.stringify(value, (key, item) =>
    dropped.test(key) && typeof item !== 'object' ? undefined : item,
  )
  return JSON.parse(json.replaceAll(run.slice(4), 'RUN').replaceAll(digest, 'DIGEST'))
}

async function evidence(run: string, call: Call): Promise<unknown> {
  const journal = unwrap(await agent.client('readJournal', { params: { run }, query: { after: 0 } })).items
  const { envelope } = unwrap(await agent.client('readAttestation', { params: { run, call: call.id } }))
  const statement = JSON.parse(Buffer.from(payloadBytes(envelope)).toString()) as {
    predicate: { facts: { origin?: unknown } }
  }
  const { origin, ...facts } = statement.predicate.facts
  const { origin: ofCall, ...rest } = call
  expect(origin).toEqual(ofCall)
  return {
    origin,
    rest: comparable(
      {
        call: rest,
        statement: { ...statement, predicate: { ...statement.predicate, facts } },
        journal: journal.filter((entry) => entry.call === call.id).map(({ kind }) => kind),
      },
      run,
      call.digest,
    ),
  }
}

test('thirty calls get the same decision, journal and statement over MCP and over the HTTP API', {
  timeout: 120_000,
}, async () => {
  expect(CASES).toHaveLength(30)
  const both = await doors()
  let n = 0
  for (const one of CASES) {
    const codes = []
    for (const door of both) codes.push(await door.propose(one))
    expect(codes[0], JSON.stringify(one)).toBe(codes[1])
    const stored = await Promise.all(both.map(({ run }) => read(run, n + 1)))
    if (!stored.every(({ ok }) => ok)) {
      expect([one.end, stored.map(({ ok }) => ok)]).toEqual(['ends at once', [false, false]])
      continue
    }
    n++
    for (const { run } of both) await finish(run, n, one)
    const seen = []
    for (const { run } of both) {
      const call = await eventually(`call ${n} has ended`, async () => {
        const now = unwrap(await read(run, n))
        return now.ended_at_ms === undefined ? undefined : now
      })
      seen.push((await evidence(run, call)) as { origin: unknown; rest: unknown })
    }
    expect(seen[1]?.rest, JSON.stringify(one)).toEqual(seen[0]?.rest)
    expect([seen[0]?.origin, seen[1]?.origin]).toEqual([
      undefined,
      { via: { protocol: 'mcp', revision: '2026-07-28', client: 'a test' } },
    ])
  }
  expect(n).toBeGreaterThanOrEqual(24)
})
