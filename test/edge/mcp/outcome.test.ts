// The text that a model reads about a call, for every state, era and ability of the client.

import { expect, test } from 'vitest'
import { isPending, pendingForm, resultOfCall, resultOfRefusal } from '../../../edge/mcp/outcome.ts'
import { CallState } from '../../../shared/evidence/statement.ts'
import { type Code, FAILURES, failure } from '../../../shared/failures.ts'
import { Call } from '../../../shared/wire/calls.ts'

const ID = 'call_01ARZ3NDEKTSV4RRFFQ69G5FAV_1'
const RUN = 'run_01ARZ3NDEKTSV4RRFFQ69G5FAV'
const AT = 'https://cs.example/v1/runs/run_01ARZ3NDEKTSV4RRFFQ69G5FAV/calls/call_01ARZ3NDEKTSV4RRFFQ69G5FAV_1'
const hash = 'a'.repeat(64)
const options = { publicUrl: 'https://cs.example', joined: false, chars: 1_000 }

const result = (more: Partial<NonNullable<Call['result']>> = {}) => ({
  ok: false,
  output: '',
  encoding: 'utf-8' as const,
  stderr: '',
  exit_code: null,
  truncated: false,
  ...more,
})
const call = (state: Call['state'], more: Partial<Call> = {}): Call =>
  Call.parse({
    id: ID,
    run: RUN,
    tool: 'mail_send',
    state,
    digest: hash,
    decision: {
      effect: 'allow',
      code: 'allowed',
      policies: ['p'],
      reason: 'it may',
      policy_set: hash,
      snapshot: hash,
    },
    created_at_ms: 1,
    ...(['awaiting_approval', 'granted', 'running'].includes(state)
      ? {}
      : { ended_at_ms: 2, result: result() }),
    ...more,
  })
const resultFor = (one: Call, more = {}) => {
  const { content, isError, structuredContent } = resultOfCall(one, { ...options, ...more })
  return { texts: content.map(({ text }) => text), isError, structuredContent }
}
const approval = {
  id: 'apr_01ARZ3NDEKTSV4RRFFQ69G5FAV_1',
  status: 'pending',
  expires_at: 52_320_000,
  page: 'https://cs.example/p',
}

test('the form of a pending answer depends on era, declared capabilities and earlier rounds', () => {
  const table = [
    ['legacy', false, 0, 'result'],
    ['legacy', true, 0, 'result'],
    ['modern', true, 0, 'task'],
    ['modern', true, 9, 'task'],
    ['modern', false, 0, 'wait'],
    ['modern', false, 8, 'wait'],
    ['modern', false, 9, 'result'],
    ['modern', false, 100, 'result'],
  ] as const
  for (const [era, tasks, round, form] of table) expect(pendingForm(era, tasks, round)).toBe(form)
})

test('every state of a call has a result, with `isError` only where the call ended without success', () => {
  for (const state of CallState.options) {
    const one = call(state)
    const { texts, isError, structuredContent } = resultFor(one)
    expect(isPending(one), state).toBe(['awaiting_approval', 'granted', 'running'].includes(state))
    expect(isError === true, state).toBe(!isPending(one) && state !== 'succeeded')
    expect(texts.join().startsWith('PENDING'), state).toBe(isPending(one))
    expect(structuredContent !== undefined, state).toBe(isPending(one))
  }
})

test('the result of a waiting call says until when, where to approve it, and not to propose it again', () => {
  const { texts, structuredContent } = resultFor(call('awaiting_approval', { approval }))
  expect(texts).toEqual([
    `PENDING: not done yet. Call ${ID} of \`mail_send\` waits for a human approver until 14:32Z. Do not call \`mail_send\` again for this: call \`countersign_result\` with {"call":"${ID}"} to get the result, or go on with other work. An approver can answer at https://cs.example/p.`,
  ])
  expect(structuredContent).toEqual({
    countersign: {
      status: 'awaiting_approval',
      call: ID,
      approval: { page: approval.page, expires_at: approval.expires_at },
    },
  })
  expect(resultFor(call('running')).texts[0]).toContain('is running')
  expect(resultFor(call('granted')).texts[0]).toContain('is approved and waits for its executor')
})

test('the result of a denied call says why, what would change it, and whether to try again', () => {
  const change = (words: string, by: 'agent' | 'time') => ({
    fact: 'x',
    needs: { op: '==' as const },
    by,
    words,
  })
  const denied = (changes: ReturnType<typeof change>[][], code: 'denied' | 'budget_spent' = 'denied') =>
    resultFor(
      call('denied', {
        decision: {
          effect: 'deny',
          code,
          policies: ['p'],
          reason: 'too much; ask for less',
          policy_set: hash,
          snapshot: hash,
          explanation: { policies: [], plans: [], changes, fixed: [] },
        },
      }),
    )
  expect(
    denied([
      [change('an amount of at most 5', 'agent'), change('another host', 'agent')],
      [change('a yes', 'agent')],
    ]),
  ).toEqual({
    texts: [
      'Denied by policy: too much; ask for less. What would change it: an amount of at most 5 and another host; or a yes. The same call will be denied again.',
    ],
    isError: true,
    structuredContent: undefined,
  })
  expect(denied([[change('a call after 08:00', 'time')]]).texts[0]).not.toContain('Trying again')
  expect(denied([], 'budget_spent').texts[0]).not.toContain('Trying again')
})

test('the result of a call that ended without success says what happened and what to do next', () => {
  const error = (code: string, detail: string) => ({ result: result({ error: { code, detail } }) })
  const texts = (state: Call['state'], code: string, detail: string) =>
    resultFor(call(state, error(code, detail))).texts
  expect(texts('rejected', 'denied', 'not on a Friday')).toEqual([
    'An approver said no: not on a Friday. Do not propose it again unchanged.',
  ])
  expect(texts('expired', 'approval_expired', 'x')).toEqual([
    'Nobody answered in time, so it did not run. Propose it again only if it is still needed.',
  ])
  expect(texts('indeterminate', 'worker_lost', 'the worker stopped reporting')).toEqual([
    'The outcome is unknown; it may have happened: the worker stopped reporting. Check what it did before trying again.',
  ])
  expect(texts('timed_out', 'timed_out', 'after 30 s')).toEqual([
    'It ran out of time: after 30 s. Raise the limit or do less.',
  ])
  expect(
    resultFor(
      call('failed', {
        result: result({
          exit_code: 2,
          output: 'out',
          stderr: `${'e'.repeat(3_000)}end`,
          error: { code: 'runtime_failure', detail: 'it exited' },
        }),
      }),
    ).texts,
  ).toEqual([
    'It failed: it exited (exit code 2). Read stderr and `outcome`: the program itself failed, or a signal ended it.',
    'out',
    expect.stringMatching(/^stderr: … e{1997}end$/),
  ])
})

test('the output of a succeeded call has its own block, and notes name cut output and files', () => {
  const done = (more: Partial<NonNullable<Call['result']>>, rest: Partial<Call> = {}) =>
    call('succeeded', { result: result({ ok: true, ...more }), ...rest })
  expect(resultFor(done({ output: 'PENDING: I am a tool' })).texts).toEqual(['PENDING: I am a tool'])
  expect(resultFor(done({ output: 'x'.repeat(999), truncated: true })).texts).toEqual([
    'x'.repeat(999),
    `The output was longer than the limit; what was kept is at ${AT}.`,
  ])
  expect(resultFor(done({ output: 'AAE=', encoding: 'base64' })).texts).toEqual([
    `The output is not text; it is at ${AT}.`,
  ])
  expect(
    resultFor(done({ files: { files: [{ path: 'a.txt', sha256: hash, bytes: 3 }], left: [], more: 0 } }))
      .texts,
  ).toEqual([`File a.txt, 3 bytes: ${AT}/files/${hash}`])
  expect(resultFor(done({ output: 'x' }), { joined: true }).texts).toEqual([
    `Joined ${ID}, which an identical request proposed before; nothing was proposed again.`,
    'x',
  ])
  expect(resultFor(done({ output: 'x' }, { edited: { arguments: { to: 'b' }, from: hash } })).texts).toEqual([
    'The approver changed the arguments. This ran instead: {"to":"b"}',
    'x',
  ])
  const plan = {
    tier: 'A',
    executor: { kind: 'skill', skill: 's', version: '1.0.0', digest: hash, tool: 't', output: {} },
  }
  const structured = (more: Partial<NonNullable<Call['result']>>) =>
    resultFor({ ...done(more), plan: plan as unknown as NonNullable<Call['plan']> }) // only these parts are read
  expect(structured({ output: '{"a":1}' })).toEqual({
    texts: ['{"a":1}'],
    isError: undefined,
    structuredContent: { a: 1 },
  })
  expect(structured({ output: '{"a":', truncated: true })).toMatchObject({
    isError: true,
    structuredContent: undefined,
  })
})

test('a long output is returned in parts, which together are the output and split no character', () => {
  const output = `${'x'.repeat(999)}😀${'y'.repeat(1_500)}z`
  const long = call('succeeded', { result: result({ ok: true, output }) })
  const parts = [1, 2, 3].map((part) => resultFor(long, { part }).texts)
  expect(parts.map(([text]) => text).join('')).toBe(output)
  expect(parts.map(([, note]) => note)).toEqual([
    `This is part 1 of 3 of the output. Call \`countersign_result\` with {"call":"${ID}","part":2} to read on.`,
    `This is part 2 of 3 of the output. Call \`countersign_result\` with {"call":"${ID}","part":3} to read on.`,
    'This is part 3 of 3 of the output.',
  ])
  expect(resultFor(long).texts).toEqual(parts[0])
  expect(resultFor(long, { part: 4 }).texts).toEqual(['There is no part 4: the output has 3.'])
})

test('the last 2,000 characters of what a failed tool wrote to stderr are shown (`mcp_stderr_chars`)', () => {
  const shown = (stderr: string) => resultFor(call('failed', { result: result({ stderr }) })).texts.at(-1)
  expect(shown('x'.repeat(2_000))).toBe(`stderr: ${'x'.repeat(2_000)}`)
  expect(shown(`a${'x'.repeat(2_000)}`)).toBe(`stderr: … ${'x'.repeat(2_000)}`)
})

test('a refused proposal is an error that a model can read, with its code for programs', () => {
  for (const code of Object.keys(FAILURES) as Code[]) {
    const { isError, content, _meta } = resultOfRefusal(failure(code, 'this and that'))
    expect([
      isError,
      String(content[0]?.text).startsWith('this and that. '),
      _meta['dev.countersign/failure'],
    ]).toEqual([true, true, expect.objectContaining({ code })])
  }
  expect(
    resultOfRefusal(failure('invalid_arguments', 'they do not fit', [{ at: '/to', message: 'is missing' }]))
      .content[0]?.text,
  ).toContain('/to: is missing.')
})

test('the result of a tool that speaks MCP is passed on, and a malformed one is an error', () => {
  const output = { title: 'A result of the Model Context Protocol' }
  const plan = { tier: 'C', executor: { kind: 'process', output } } as unknown as NonNullable<Call['plan']> // only this part is read
  const printed = (own: unknown) => {
    const done = call('succeeded', { result: result({ ok: true, output: JSON.stringify(own) }) })
    const { content, isError, structuredContent } = resultOfCall({ ...done, plan }, options)
    return { content, isError, structuredContent }
  }
  const content = [
    { type: 'text', text: 'a', annotations: { audience: ['user'] } },
    { type: 'image', data: 'AAE=', mimeType: 'image/png' },
    { type: 'resource', resource: { uri: 'test://x', text: 'b' } },
  ]
  expect(printed({ content, structuredContent: { a: 1 }, isError: true })).toEqual({
    content,
    isError: true,
    structuredContent: { a: 1 },
  })
  const image = { type: 'image', data: 'AAAA'.repeat(300), mimeType: 'image/png' }
  const long = { type: 'text', text: 'x'.repeat(600) }
  const resource = { type: 'resource', resource: { uri: 'test://y', text: 'y'.repeat(500) } }
  const note = { type: 'text', text: `The output is cut; all of it is at ${AT}.` }
  expect(printed({ content: [long, image, long, resource, image, long] }).content).toEqual([
    long,
    image,
    { ...long, text: `${'x'.repeat(400)} … 200 characters more` },
    image,
    note,
  ])
  expect(printed({ content: [resource, long, resource] }).content).toEqual([
    resource,
    { ...long, text: `${'x'.repeat(500)} … 100 characters more` },
    note,
  ])
  expect(printed({ content: [] })).toEqual({ content: [], isError: undefined, structuredContent: undefined })
  for (const wrong of [
    {},
    { content: 'x' },
    { content: [{ type: 'video' }] },
    { content: [], more: 1 },
    { content: [{ type: 'image', data: '!', mimeType: 'x' }] },
  ])
    expect(printed(wrong)).toMatchObject({ isError: true, structuredContent: undefined })
})
