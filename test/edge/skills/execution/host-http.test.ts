// The edge checks a skill's request before it sends it: host, method and headers against the call's
// plan.

import { expect, test } from 'vitest'
import { checkRequest } from '../../../../edge/skills/execution/host-http.ts'
import { LIMITS } from '../../../../shared/limits.ts'
import type { SkillPlan } from '../../../../shared/plan/plan.ts'

const plan: SkillPlan = {
  tier: 'A',
  executor: {
    kind: 'skill',
    skill: 'weather',
    version: '1.0.0',
    digest: '0'.repeat(64),
    tool: 'today',
    capabilities: ['http'],
    methods: ['GET', 'POST'],
  },
  egress: { mode: 'strict', hosts: ['api.example.com', 'other.example.com', 'inside.internal'] },
  secrets: [],
  credentials: [{ secret: 'key', host: 'api.example.com:443', header: 'x-api-key' }],
  limits: {
    timeout_ms: 1_000,
    fuel: 1_000,
    memory_bytes: 1_000,
    output_bytes: 1_000,
    net_bytes: 1_000,
    net_connections: 4,
  },
}
const SECRETS = { key: 'the value' }

type Ask = { readonly url?: string; readonly method?: string; readonly headers?: string }
const judge = ({ url = 'https://api.example.com/v1', method = 'GET', headers = '' }: Ask) =>
  checkRequest({ method, url, headers, body: new Uint8Array() }, plan, SECRETS, false)
const refusal = (ask: Ask): string => {
  const judgement = judge(ask)
  return judgement.ok ? 'sent' : judgement.error.kind
}

test('a skill’s request is sent with its host’s credential, and to another host without it', () => {
  const [own, other] = [
    judge({ headers: 'accept: text/plain' }),
    judge({ url: 'https://other.example.com/' }),
  ]
  expect(own.ok && [own.value.host, ...own.value.headers]).toEqual([
    'api.example.com',
    ['accept', 'text/plain'],
    ['x-api-key', 'the value'],
  ])
  expect(other.ok && [...other.value.headers]).toEqual([])
})

test.each([
  'proxy-authorization',
  'proxy-connection',
  'proxy-authenticate',
  'Proxy-Authorization',
  'host',
  'connection',
  'content-length',
  'transfer-encoding',
  'te',
  'trailer',
  'upgrade',
  'keep-alive',
  'expect',
  'via',
  'forwarded',
  'cf-connecting-ip',
  'x-forwarded-for',
  'sec-fetch-site',
])('D11 a skill can’t set the header `%s`', (name) => {
  expect(refusal({ headers: `${name}: anything` })).toBe('failed')
})

test('a skill’s header with a control character or without a name is refused', () => {
  for (const headers of ['x-own: a\0b', 'x-own: a\x7f', 'x-own: é', 'x own: a', ': a', 'no colon'])
    expect([headers, refusal({ headers })]).toEqual([headers, 'failed'])
})

test('V04 a skill can’t send the header of a credential itself', () => {
  expect(refusal({ headers: 'X-Api-Key: mine' })).toBe('failed')
})

test('N07 N14 a request to an unlisted host, an internal address or with an unlisted method ends the call', () => {
  for (const url of [
    'https://evil.example.com/',
    'https://inside.internal/',
    'https://api.example.com:8443/',
    'http://api.example.com/',
  ])
    expect([url, refusal({ url })]).toEqual([url, 'denied'])
  expect(refusal({ method: 'DELETE' })).toBe('denied')
})

test('a skill’s request has at most `skill_url_chars` in its address and `skill_header_chars` in its headers', () => {
  expect([LIMITS.skill_url_chars, LIMITS.skill_header_chars]).toEqual([8_192, 16_384])
  const url = 'https://api.example.com/'
  expect(refusal({ url: url.padEnd(8_192, 'a') })).toBe('sent')
  expect(refusal({ url: url.padEnd(8_193, 'a') })).toBe('failed')
  expect(refusal({ headers: 'x: '.padEnd(16_384, 'a') })).toBe('sent')
  expect(refusal({ headers: 'x: '.padEnd(16_385, 'a') })).toBe('failed')
})
