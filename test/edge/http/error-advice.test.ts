// Promise: each mistake is answered with a stable code, a sentence that says what happened, and
// advice on what to do next, in the words of the person who made it. A table of the most common
// mistakes of agents, operators, workers and people in a browser.

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { problem } from '../../../edge/http/problem.ts'
import { FAILURES, failure } from '../../../shared/failures.ts'
import { mintKey, ulid } from '../../../shared/ids.ts'
import { LIMITS } from '../../../shared/limits.ts'
import { readConfig } from '../../../worker/config.ts'
import { countersign } from '../../support/countersign.ts'
import { Fixtures, toolSpec, unwrap } from '../../support/fixtures.ts'
import { sharedStack, sharedState } from '../../support/stack/stack.ts'
import { PeerWorker } from '../../support/worker/peer-worker.ts'

const fixtures = new Fixtures('advice', sharedStack())
const agent = await fixtures.agent()
const [nobody, auditor] = [await fixtures.operator([]), await fixtures.operator(['auditor'])]
const peer = await PeerWorker.enrol(fixtures.url, fixtures.root, fixtures.pool)
const input_schema = {
  type: 'object',
  properties: {
    text: { type: 'string', maxLength: 5 },
    count: { type: 'integer', minimum: 1, maximum: 9 },
    size: { enum: ['s', 'm'] },
    list: { type: 'array', items: { type: 'string' }, minItems: 2 },
    when: { type: 'string', format: 'date' },
  },
  required: ['text'],
  additionalProperties: false,
}
const [tool, sensitive] = [
  await fixtures.tool({ input_schema }),
  await fixtures.tool({ capabilities: ['network'] }),
]
const folder = mkdtempSync(join(tmpdir(), 'countersign-advice-'))
afterAll(() => rmSync(folder, { recursive: true }))

type Ask = {
  method?: string
  key?: string | undefined
  json?: unknown
  text?: string
  headers?: Record<string, string>
}
function ask(path: string, { method, key, json, text, headers = {} }: Ask = {}): Promise<Response> {
  const body = json === undefined ? text : JSON.stringify(json)
  return fetch(new URL(path, fixtures.url), {
    method: method ?? (body === undefined ? 'GET' : 'POST'),
    redirect: 'manual',
    headers: {
      ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...headers,
    },
    ...(body === undefined ? {} : { body }),
  })
}
const propose = (json: unknown, headers?: Record<string, string>) => () =>
  ask('/v1/calls', { key: agent.key, json, ...(headers === undefined ? {} : { headers }) })
const call = (args: unknown) => propose({ tool, args })
const putTool = (change: unknown) => () =>
  ask(`/v1/tools/${fixtures.name()}`, {
    method: 'PUT',
    key: fixtures.rootKey,
    json: { ...toolSpec(), ...(change as object) },
  })
const egress = (hosts: readonly string[]) => ({ egress: { mode: 'strict', hosts } })

const FIX = 'correct the fields that `errors` names'
const SCHEMA = 'correct what `detail` and `errors` name; `GET /v1/tools` shows the schema'
const ID = 'check the id; ids of another tenant, or of something that was removed, are not found'
const ROUTE = 'check the path and its spelling; `/docs` lists every route'
const KEY = 'send `authorization: Bearer <key>` with a key that is neither revoked nor of another tenant'
const BODY = 'the body does not match what this route expects'
const ARGS = 'the arguments do not fit the tool’s schema'
const HOST =
  'is not a host: use `api.example.com`, `api.example.com:8443` or `.example.com`, in lower case, without `https://` and without a path'
const NAME = 'must be 1 to 64 of `a-z`, `0-9`, `_`, `.` and `-`, beginning with a letter'
const TOOL_NAME = 'must be 1 to 50 of `a-z`, `0-9`, `_` and `-`, beginning with a letter'

/** mistake, request, status and code, sentence, advice, and the fault of each wrong field */
type Row = readonly [
  string,
  () => Promise<Response>,
  string,
  string,
  string,
  ReadonlyArray<readonly [string, string]>?,
]

const misshapen = (mistake: string, send: Row[1], at: string, message: string): Row => [
  mistake,
  send,
  '400 invalid_request',
  BODY,
  FIX,
  [[at, message]],
]
const unfit = (mistake: string, send: Row[1], at: string, message: string): Row => [
  mistake,
  send,
  '422 invalid_arguments',
  ARGS,
  SCHEMA,
  [[at, message]],
]

const AGENTS: readonly Row[] = [
  [
    'a path that is no route',
    () => ask('/v2/calls', { key: agent.key }),
    '404 not_found',
    'there is no route with this path',
    ROUTE,
  ],
  [
    'a slash at the end',
    () => ask('/v1/tools/', { key: agent.key }),
    '404 not_found',
    'there is no route with this path',
    ROUTE,
  ],
  [
    'a method that the route does not have',
    () => ask('/v1/tools', { method: 'DELETE', key: agent.key }),
    '405 method_not_allowed',
    'DELETE is not a method of this route; use GET, HEAD',
    'use a method that the `allow` header lists',
  ],
  ['no key', () => ask('/v1/tools'), '401 unauthenticated', 'the key is missing, unknown or revoked', KEY],
  [
    'the key of a tenant that does not exist',
    () => ask('/v1/tools', { key: mintKey('agent', 'nowhere', 0).key }),
    '401 unauthenticated',
    'the key is missing, unknown or revoked',
    KEY,
  ],
  [
    'an agent’s key on an operator’s route',
    () => ask('/v1/operators', { key: agent.key }),
    '403 forbidden',
    'this route needs an operator’s key; the request came with an agent’s key',
    'send the request with an operator’s key',
  ],
  [
    'a body that is not JSON',
    () => ask('/v1/calls', { key: agent.key, text: '{tool:' }),
    '400 not_json',
    'unexpected character at offset 1',
    'send one JSON object in UTF-8',
  ],
  [
    'a form instead of JSON',
    propose({}, { 'content-type': 'text/plain' }),
    '415 unsupported_media_type',
    'the body must be JSON',
    '~json',
  ],
  [
    'an empty object',
    propose({}),
    '400 invalid_request',
    BODY,
    FIX,
    [
      ['/tool', 'is missing; it must be text'],
      ['/args', 'is missing; it must be an object'],
    ],
  ],
  misshapen('a body that is a list', propose([]), '/', 'must be an object, not a list'),
  misshapen('arguments as text', propose({ tool, args: '{}' }), '/args', 'must be an object, not text'),
  misshapen(
    'a field that is misspelled',
    propose({ tool, args: {}, waits: 5 }),
    '/waits',
    'is not a known field; check its spelling, or leave it out',
  ),
  misshapen('a tool’s name in capitals', propose({ tool: 'Text', args: {} }), '/tool', TOOL_NAME),
  misshapen('a tool’s name with a dot', propose({ tool: 'text.stats', args: {} }), '/tool', TOOL_NAME),
  [
    'a tool that does not exist',
    propose({ tool: fixtures.name(), args: {} }),
    '404 not_found',
    '~no tool',
    '`GET /v1/tools` lists the tools that this agent may call',
  ],
  unfit('an argument that is missing', call({}), '/text', 'is missing'),
  unfit('a number for a text', call({ text: 5 }), '/text', 'must be text, not a number'),
  unfit(
    'a text for a whole number',
    call({ text: 'a', count: '3' }),
    '/count',
    'must be a whole number, not text',
  ),
  unfit('a text that is too long', call({ text: 'abcdef' }), '/text', 'must have at most 5 characters'),
  unfit('a number that is too small', call({ text: 'a', count: 0 }), '/count', 'must be at least 1'),
  unfit('a word that is not offered', call({ text: 'a', size: 'xl' }), '/size', 'must be one of ["s","m"]'),
  unfit(
    'a list that is too short',
    call({ text: 'a', list: ['b'] }),
    '/list',
    'must have at least 2 entries',
  ),
  unfit(
    'an entry of another kind',
    call({ text: 'a', list: ['b', {}] }),
    '/list/1',
    'must be text, not an object',
  ),
  unfit('a date that is none', call({ text: 'a', when: 'soon' }), '/when', 'must be written as `date`'),
  unfit(
    'an argument that the tool does not have',
    call({ text: 'a', more: 1 }),
    '/more',
    'is not an argument of the tool',
  ),
  [
    'an unknown run',
    () => ask(`/v1/runs/run_${ulid(0)}`, { key: agent.key }),
    '404 not_found',
    'no such run',
    ID,
  ],
  [
    'an id that is cut off',
    () => ask('/v1/runs/run_01', { key: agent.key }),
    '404 not_found',
    'an id or a name in the path is malformed',
    ID,
  ],
  [
    'more questions than a run may have open',
    async () => {
      const { id: run } = unwrap(await agent.client('createRun', { body: {} }))
      const asks = () => ask(`/v1/runs/${run}/calls`, { key: agent.key, json: { tool: sensitive, args: {} } })
      for (let i = 0; i < LIMITS.pending_approvals_per_run; i++) expect((await asks()).status).toBe(202)
      return asks()
    },
    '429 too_many_pending',
    'this run already has the most open approvals that a run may have',
    'try again after an operator has answered one of the approvals that this run waits for',
  ],
]

const OPERATORS: readonly Row[] = [
  [
    'an operator’s key on an agent’s route',
    () => ask('/v1/calls', { key: fixtures.rootKey, json: { tool, args: {} } }),
    '403 forbidden',
    'this route needs an agent’s key; the request came with an operator’s key',
    'send the request with an agent’s key',
  ],
  [
    'a key without the role',
    () => ask('/v1/approvals', { key: nobody.key }),
    '403 forbidden',
    '~approval.list',
    'ask an operator for a policy that permits this action',
  ],
  [
    'an answer to an approval whose call was cancelled',
    async () => {
      const { id, run, approval } = await fixtures.proposeForApproval(agent.client, sensitive)
      unwrap(await agent.client('cancelCall', { params: { run, call: id } }))
      return ask(`/v1/approvals/${approval.id}/decision`, {
        key: fixtures.rootKey,
        json: { decision: 'approve' },
      })
    },
    '410 approval_cancelled',
    'the call was cancelled before enough people had answered',
    'nothing to do: the call was cancelled, so it will not run',
  ],
  [
    'a second answer',
    async () => {
      const { approval } = await fixtures.proposeForApproval(agent.client, sensitive)
      unwrap(
        await fixtures.root('answerApproval', { params: { id: approval.id }, body: { decision: 'deny' } }),
      )
      return ask(`/v1/approvals/${approval.id}/decision`, {
        key: fixtures.rootKey,
        json: { decision: 'approve' },
      })
    },
    '409 already_answered',
    'the call is rejected',
    'read the approval; it has been answered',
  ],
  [
    'an answer that is neither yes nor no',
    async () => {
      const { approval } = await fixtures.proposeForApproval(agent.client, sensitive)
      return ask(`/v1/approvals/${approval.id}/decision`, {
        key: fixtures.rootKey,
        json: { decision: 'maybe' },
      })
    },
    '400 invalid_request',
    BODY,
    FIX,
    [['/decision', 'must be one of `approve`, `deny`']],
  ],
  misshapen('a host with its scheme', putTool(egress(['https://example.com'])), '/egress/hosts/0', HOST),
  misshapen('a host in capitals', putTool(egress(['ok.example', 'Example.com'])), '/egress/hosts/1', HOST),
  misshapen(
    'a limit as text',
    putTool({ limits: { timeout_ms: '5s' } }),
    '/limits/timeout_ms',
    'must be a number, not text',
  ),
  misshapen(
    'a limit of nothing',
    putTool({ limits: { timeout_ms: 0 } }),
    '/limits/timeout_ms',
    'must be at least 1',
  ),
  misshapen(
    'a kind of executor that does not exist',
    putTool({ executor: { ...toolSpec().executor, kind: 'docker' } }),
    '/executor/kind',
    'must be one of `process`, `none`',
  ),
  [
    'an agent without tools',
    () => ask(`/v1/agents/${fixtures.name()}`, { method: 'PUT', key: fixtures.rootKey, json: {} }),
    '400 invalid_request',
    BODY,
    FIX,
    [['/tools', 'is missing; it must be a list']],
  ],
  [
    'a filter that does not exist',
    () => ask('/v1/approvals?status=open', { key: fixtures.rootKey }),
    '400 invalid_request',
    'the query does not match what this route expects',
    FIX,
    [['/status', 'must be one of `pending`, `ended`, `all`']],
  ],
  [
    'a page size that is no number',
    () => ask('/v1/calls?limit=many', { key: fixtures.rootKey }),
    '400 invalid_request',
    'the query does not match what this route expects',
    FIX,
    [['/limit', 'must be a number']],
  ],
  [
    'a change by an auditor',
    () => ask(`/v1/agents/${fixtures.name()}`, { method: 'PUT', key: auditor.key, json: { tools: [] } }),
    '403 forbidden',
    '~agent.write',
    'ask an operator for a policy that permits this action',
  ],
]

const WORKERS: readonly Row[] = [
  [
    'a request without a signature',
    () => ask('/v1/worker/heartbeat', { json: {} }),
    '401 bad_signature',
    'no enrolled worker signed this request',
    'sign the request as an enrolled worker; run `countersign-worker doctor`',
  ],
  [
    'an enrolment token that nobody issued',
    () =>
      ask('/v1/worker/enrol', {
        json: { token: mintKey('enrol', 'default', 0).key, x: peer.signer.x, name: 'a', tiers: ['C'] },
      }),
    '401 enrolment_invalid',
    'the token is unknown, used or expired',
    'ask an operator for a new enrolment token; each works once',
  ],
  [
    'an enrolment without a token',
    () => ask('/v1/worker/enrol', { json: { x: peer.signer.x, name: 'a', tiers: ['C'] } }),
    '400 invalid_request',
    BODY,
    FIX,
    [['/token', 'is missing; it must be text']],
  ],
]

const TABLES: ReadonlyArray<readonly [string, readonly Row[]]> = [
  ['an agent', AGENTS],
  ['an operator', OPERATORS],
  ['a worker', WORKERS],
]

for (const [who, rows] of TABLES) {
  describe(who, () => {
    for (const [mistake, send, code, sentence, advice, fields = []] of rows) {
      test(`${who} gets code, sentence and advice for a mistake: ${mistake}`, async () => {
        const answer = await send()
        const problem = (await answer.json()) as Record<string, unknown> // checked field by field below
        const { status, detail, todo, retry, errors } = problem
        expect({ code: `${status} ${problem['code']}`, detail, todo, fields: fieldsIn(errors) }).toEqual({
          code,
          detail: matching(sentence),
          todo: matching(advice),
          fields,
        })
        expect(answer.status).toBe(status)
        const again = answer.headers.get('retry-after')
        expect([retry, again === null]).toEqual([status === 429, status !== 429])
      })
    }
  })
}

const matching = (text: string) => (text.startsWith('~') ? expect.stringContaining(text.slice(1)) : text)
const fieldsIn = (errors: unknown) =>
  ((errors ?? []) as { at: string; message: string }[]).map(({ at, message }) => [at, message]) // the shape that /openapi.json names

test('a refusal that is temporary says how long to wait, and no other refusal does', () => {
  const waits = Object.keys(FAILURES).flatMap((code) => {
    const why = failure(code as keyof typeof FAILURES, 'a test') // the table's own keys
    const answer = problem(why, { request_id: 'a test', publicUrl: fixtures.url })
    const after = answer.headers.get('retry-after')
    return after === null ? [] : [[code, answer.status, Number(after)]]
  })
  expect(waits).toEqual([
    ['too_many_tries', 429, 60],
    ['too_many_streams', 429, 5],
    ['too_many_pending', 429, 30],
    ['queue_full', 503, 1],
    ['export_unavailable', 503, 5],
    ['log_behind', 503, 1],
    ['unavailable', 503, 1],
  ])
})

const cli = (...argv: string[]) => countersign(argv, { env: { COUNTERSIGN_STATE: sharedState() } })
const inFile = (name: string, value: unknown): string => {
  const path = join(folder, name)
  writeFileSync(path, JSON.stringify(value), { mode: 0o600 })
  return path
}

describe('the command line', () => {
  test.each([
    [
      '`agents put` without `--tools`',
      () => cli('agents', 'put', 'someone'),
      "countersign: `--tools` is missing: list the tools that the agent may call (`--tools text_stats,http_fetch`), or allow all (`--tools '*'`); see --help\n",
    ],
    [
      '`tools put` with a host that is none',
      () =>
        cli(
          'tools',
          'put',
          inFile('host.json', { name: 'a-tool', ...toolSpec(egressOf('https://example.com')) }),
        ),
      `countersign: ~\`egress.hosts.0\`: ${HOST}`,
    ],
    [
      '`tools put` without a description',
      () =>
        cli('tools', 'put', inFile('bare.json', { name: 'a-tool', ...toolSpec(), description: undefined })),
      'countersign: ~`description`: is missing; it must be text',
    ],
    [
      'an id that is cut off',
      () => cli('calls', 'show', 'call_01'),
      'countersign: ~is not a call id; call ids look like call_01ABC…_1',
    ],
    [
      'arguments that are a list',
      () => cli('call', tool, '--args', '[]'),
      'countersign: ~`--args` must be one JSON object',
    ],
  ])('the command line explains a mistake: %s', async (_mistake, run, err) => {
    const printed = await run()
    const [head = '', part] = err.split('~')
    expect(printed).toMatchObject({ code: 2, out: '' })
    if (part === undefined) expect(printed.err).toBe(err)
    else expect([printed.err.startsWith(head), printed.err]).toEqual([true, expect.stringContaining(part)])
  })
})
const egressOf = (host: string) => ({ egress: { mode: 'strict' as const, hosts: [host] } })

test('a worker names each setting of its configuration that is missing or of the wrong type', () => {
  const path = inFile('worker.json', {
    edge_url: 5,
    tenant: 'default',
    pool: 'Default',
    home: '/var/lib/countersign/worker',
    concurency: 2,
  })
  expect(readConfig(path, {})).toEqual({
    ok: false,
    error: `the configuration \`${path}\` can’t be used; ${[
      '`edge_url`: must be text, not a number',
      `\`pool\`: ${NAME}`,
      '`redis_url`: is missing; it must be text',
      '`concurency`: is not a known field; check its spelling, or leave it out',
    ].join('; ')}`,
  })
})
