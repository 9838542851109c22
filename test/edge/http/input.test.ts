// Bytes that two parsers could read differently are refused on every route. The refusal says why,
// and nothing is created.

import { expect, test } from 'vitest'
import { LIMITS } from '../../../shared/limits.ts'
import { Fixtures, unwrap } from '../../support/fixtures.ts'
import { sharedStack } from '../../support/stack/stack.ts'

const fixtures = new Fixtures('input', sharedStack())
const agent = await fixtures.agent()
const tool = await fixtures.tool({
  input_schema: { type: 'object', properties: { text: { type: 'string' }, n: { type: 'number' } } },
  executor: { argv: ['echo', '{text}'] },
})

async function post(
  path: string,
  body: string | Uint8Array<ArrayBuffer>,
  headers: Record<string, string> = {},
) {
  const answer = await fetch(new URL(path, fixtures.url), {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${agent.key}`, ...headers },
    body,
  })
  const { code } = (await answer.json()) as { code?: string } // a problem, or a call
  return `${answer.status} ${code ?? 'no problem'}`
}

const call = (args: string, more = ''): string => `{"tool":"${tool}","args":${args}${more}}`
const nested = (depth: number): string => `${'['.repeat(depth)}${']'.repeat(depth)}`
const bytes = (before: string, raw: number[], after: string) =>
  Buffer.concat([Buffer.from(before), Buffer.from(raw), Buffer.from(after)])

const CASES: ReadonlyArray<readonly [string, string | Uint8Array<ArrayBuffer>, string]> = [
  [
    'G01 `__proto__` at the top',
    call('{"text":"a"}', ',"__proto__":{"tool":"other"}'),
    '400 json_forbidden_key',
  ],
  ['G01 `__proto__` in the arguments', call('{"__proto__":{"admin":true}}'), '400 json_forbidden_key'],
  [
    'G01 `__proto__` deep inside',
    call('{"text":"a","x":[[{"y":{"__proto__":1}}]]}'),
    '400 json_forbidden_key',
  ],
  ['G01 `__proto__` spelt with escapes', call('{"\\u005f_proto__":1}'), '400 json_forbidden_key'],
  [
    'G01 `constructor.prototype`, which is data like any other',
    call('{"constructor":{"prototype":{"admin":true}}}'),
    '422 invalid_arguments',
  ],
  ['G02 one level more than 64', call(`{"x":${nested(LIMITS.json_depth)}}`), '400 json_too_deep'],
  ['G02 a hundred thousand levels', call(`{"x":${nested(100_000)}}`), '400 json_too_deep'],
  ['G02 a hundred thousand levels that never close', '['.repeat(100_000), '400 json_too_deep'],
  ['G03 a member twice', call('{"text":"a","text":"b"}'), '400 json_duplicate_key'],
  ['G03 the tool twice', `{"tool":"${tool}","args":{},"tool":"process_run"}`, '400 json_duplicate_key'],
  [
    'G03 a member twice, once spelt with escapes',
    call('{"text":"a","te\\u0078t":"b"}'),
    '400 json_duplicate_key',
  ],
  [
    'G03 a member twice, far apart and deep',
    call('{"x":{"a":1,"b":[{"c":1}],"a":2}}'),
    '400 json_duplicate_key',
  ],
  ['G04 an integer beyond 2^53', call('{"n":9007199254740993}'), '400 json_unsafe_number'],
  ['G04 an integer beyond 64 bits', call('{"n":9223372036854775808}'), '400 json_unsafe_number'],
  ['G04 an integer written as a power', call('{"n":1e16}'), '400 json_unsafe_number'],
  ['G04 1e400', call('{"n":1e400}'), '400 json_unsafe_number'],
  ['G04 -1e400', call('{"n":-1e400}'), '400 json_unsafe_number'],
  ['G04 1e-400', call('{"n":1e-400}'), '400 json_unsafe_number'],
  ['G04 -0', call('{"n":-0}'), '400 json_unsafe_number'],
  ['G04 -0.0', call('{"n":-0.0}'), '400 json_unsafe_number'],
  ['G04 NaN', call('{"n":NaN}'), '400 not_json'],
  ['G04 Infinity', call('{"n":Infinity}'), '400 not_json'],
  ['G04 a decimal that policy can’t hold', call('{"text":"a","n":0.123456}'), '422 invalid_arguments'],
  ['G05 invalid UTF-8', bytes('{"tool":"', [0xff, 0xfe], '"}'), '400 json_bad_text'],
  ['G05 an overlong encoding', bytes('{"tool":"', [0xc0, 0xaf], '"}'), '400 json_bad_text'],
  ['G05 a surrogate in UTF-8', bytes('{"tool":"', [0xed, 0xa0, 0x80], '"}'), '400 json_bad_text'],
  [
    'G05 a character cut short',
    bytes(`{"tool":"${tool}","args":{"text":"`, [0xe2, 0x82], '"}}'),
    '400 json_bad_text',
  ],
  ['G05 a byte order mark', `\ufeff${call('{"text":"a"}')}`, '400 not_json'],
  ['G05 UTF-16', Buffer.from(call('{"text":"a"}'), 'utf16le'), '400 not_json'],
  ['G05 a lone surrogate', call('{"text":"\\ud800"}'), '400 json_bad_text'],
  ['G05 surrogates the wrong way round', call('{"text":"\\udc00\\ud800"}'), '400 json_bad_text'],
  ['G05 U+0000', call('{"text":"a\\u0000b"}'), '400 json_bad_text'],
  ['G05 U+0000 in a name', call('{"a\\u0000b":1}'), '400 json_bad_text'],
  ['S47 U+0000 as an argument of a program', call('{"text":"\\u0000"}'), '400 json_bad_text'],
  ['G05 a raw control character', call('{"text":"a\u0001b"}'), '400 not_json'],
  [
    'G10 a hundred thousand members',
    call(`{${Array.from({ length: 100_000 }, (_, i) => `"${i.toString(36)}":1`).join()}}`),
    '400 json_too_many',
  ],
  [
    'G10 a hundred thousand elements',
    call(`{"x":[${Array.from({ length: 100_000 }, () => '1').join()}]}`),
    '400 json_too_many',
  ],
  ['an empty text', '', '400 not_json'],
  ['a space', ' ', '400 not_json'],
  ['two documents', `${call('{}')}${call('{}')}`, '400 not_json'],
  ['a trailing comma', call('{"text":"a",}'), '400 not_json'],
  ['a comment', `/* */${call('{}')}`, '400 not_json'],
  ['single quotes', "{'tool':'a'}", '400 not_json'],
  ['a list', '[]', '400 invalid_request'],
  ['a text', '"tool"', '400 invalid_request'],
  ['null', 'null', '400 invalid_request'],
  ['an unknown member', call('{}', ',"allow_sensitive_tools":true'), '400 invalid_request'],
  ['arguments that are a list', call('[]'), '400 invalid_request'],
  ['G07 a tool’s name with a Cyrillic letter', '{"tool":"text_ѕtats","args":{}}', '400 invalid_request'],
  [
    'G07 a tool’s name with a zero-width space',
    '{"tool":"text_stats\u200b","args":{}}',
    '400 invalid_request',
  ],
  ['G07 a tool’s name in full width', '{"tool":"ｔext_stats","args":{}}', '400 invalid_request'],
  ['G07 a tool’s name with a dot', '{"tool":"text.stats","args":{}}', '400 invalid_request'],
  ['G07 a tool’s name in capitals', '{"tool":"Text_Stats","args":{}}', '400 invalid_request'],
]

test.each(CASES)('G01 G02 G03 G04 G05 G07 G10 S47 a body is refused: %s', async (_name, body, expected) => {
  expect(await post('/v1/calls', body)).toBe(expected)
})

test('every route with a body refuses repeated keys, forbidden keys and unsafe numbers', async () => {
  const run = unwrap(await agent.client('createRun', { body: {} }))
  for (const path of [`/v1/runs/${run.id}/calls`, '/v1/decisions', '/v1/runs', '/v1/worker/enrol']) {
    expect([path, await post(path, '{"a":1,"a":2}')]).toEqual([path, '400 json_duplicate_key'])
    expect([path, await post(path, '{"__proto__":1}')]).toEqual([path, '400 json_forbidden_key'])
    expect([path, await post(path, '{"n":1e400}')]).toEqual([path, '400 json_unsafe_number'])
  }
  expect(unwrap(await agent.client('readRun', { params: { run: run.id } })).journal.seq).toBe(0)
})

test('G02 a call with arguments nested up to the limit is signed, journalled and read back', async () => {
  const open = await fixtures.tool()
  const deep = Array.from({ length: LIMITS.json_depth - 3 }).reduce<unknown>((inner) => [inner], 'deep')
  const made = unwrap(await agent.client('proposeCallInNewRun', { body: { tool: open, args: { deep } } }))
  expect(made.state).toBe('granted')
  expect(unwrap(await agent.client('readCall', { params: { run: made.run, call: made.id } })).digest).toBe(
    made.digest,
  )
})

test('a body is accepted only as uncompressed JSON in UTF-8', async () => {
  const body = call('{"text":"a"}')
  for (const type of [
    'text/plain',
    'application/x-www-form-urlencoded',
    'multipart/form-data; boundary=x',
    'application/json; charset=utf-16',
    'application/json, text/html',
    'application/jsonp',
    '',
  ])
    expect([type, await post('/v1/calls', body, { 'content-type': type })]).toEqual([
      type,
      '415 unsupported_media_type',
    ])
  for (const type of [
    'application/json',
    'application/json; charset=utf-8',
    'Application/JSON;charset=UTF-8',
  ])
    expect([type, await post('/v1/calls', body, { 'content-type': type })]).toEqual([type, '202 no problem'])
  for (const coding of ['gzip', 'br', 'deflate', 'x'])
    expect([coding, await post('/v1/calls', body, { 'content-encoding': coding })]).toEqual([
      coding,
      '415 unsupported_media_type',
    ])
})

test('a refusal names the place of a wrong argument, and never its value', async () => {
  const answer = await fetch(new URL('/v1/calls', fixtures.url), {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${agent.key}` },
    body: call('{"text":5,"n":"hunter2"}'),
  })
  const text = await answer.text()
  expect(JSON.parse(text)).toMatchObject({
    code: 'invalid_arguments',
    errors: expect.arrayContaining([expect.objectContaining({ at: '/text' })]),
  })
  expect(text).not.toContain('hunter2')
})
