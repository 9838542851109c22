// Promise: each bound of a request's body is the one of its name in LIMITS: the largest allowed
// value passes, one more is refused, and the refusal names the field. The bodies are the recorded
// examples of the API description.

import { generateKeyPairSync } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { z } from 'zod'
import { ROOT } from '../../infra/state.ts'
import { LIMITS } from '../../shared/limits.ts'
import { ROUTES } from '../../shared/routes/all.ts'

type Body = Record<string, unknown>
const examples = JSON.parse(readFileSync(join(ROOT, 'edge/http/openapi/examples.json'), 'utf8')) as Record<
  string,
  { request: Body }
> // each has been accepted by a real edge

const each = <T>(count: number, make: (n: number) => T): T[] =>
  Array.from({ length: count }, (_, n) => make(n))
const address = (chars: number): string => 'https://a.example.com/'.padEnd(chars, 'a')
const publicKey = (): string => generateKeyPairSync('ed25519').publicKey.export({ format: 'jwk' }).x ?? ''
const hmacKey = (n: number): string => `whsec_${Buffer.alloc(32, n + 1).toString('base64')}`
const manifest = examples['trySkill']?.request['manifest'] as Body
const trial = (host: unknown): Body[] => [{ tool: 'run', input: {}, host }]
const answer = { request: 'GET https://a.example.com/', status: 200 }

test.each<[keyof typeof LIMITS, keyof typeof ROUTES, string, (n: number) => unknown]>([
  ['agent_files_bytes', 'putAgent', 'files_bytes', (n) => n],
  ['approval_ttl_max_s', 'putChannel', 'after_s', (n) => n],
  ['approval_ttl_max_s', 'putTool', 'approval_ttl_s', (n) => n],
  ['channel_keys', 'putChannel', 'keys', (n) => each(n, hmacKey)],
  ['channel_recipients', 'putChannel', 'recipients', (n) => ({ operators: each(n, (i) => `o${i}`) })],
  ['channel_url_chars', 'putChannel', 'url', address],
  ['claim_chars', 'putIssuer', 'audiences', (n) => ['a'.repeat(n)]],
  ['delegation_s', 'putDelegation', 'for_s', (n) => n],
  ['delivery_why_chars', 'collectMessages', 'failed', (n) => [{ id: 'm', why: 'a'.repeat(n) }]],
  ['denied_parts', 'putDeniedParts', 'items', (n) => each(n, (i) => ({ pattern: `p${i}@1`, reason: 'r' }))],
  ['evaluations', 'evaluateAccesses', 'evaluations', (n) => each(n, () => ({}))],
  ['hook_tool_chars', 'adviseClaudeCode', 'tool_name', (n) => 'a'.repeat(n)],
  ['issuer_audiences', 'putIssuer', 'audiences', (n) => each(n, (i) => `a${i}`)],
  ['issuer_chars', 'putIssuer', 'issuer', address],
  ['issuer_claims', 'putIssuer', 'require', (n) => each(n, (i) => `c${i}`)],
  ['issuer_rules', 'putIssuer', 'rules', (n) => each(n, (i) => ({ claims: { sub: `s${i}` }, agent: 'a' }))],
  ['publisher_keys', 'putPublisher', 'keys', (n) => each(n, publicKey)],
  ['secret_hosts', 'putSecret', 'hosts', (n) => each(n, (i) => `h${i}.example.com:443`)],
  ['secret_tools', 'putSecret', 'tools', (n) => each(n, (i) => `t${i}`)],
  [
    'skill_tools',
    'trySkill',
    'manifest',
    (n) => ({
      ...manifest,
      tools: each(n, (i) => ({ name: `t${i}`, description: 'd', input_schema: { type: 'object' } })),
    }),
  ],
  ['token_life_s', 'putIssuer', 'max_age_s', (n) => n],
  ['trial_answers', 'trySkill', 'trials', (n) => trial({ http: each(n, () => answer) })],
  ['trial_text_chars', 'trySkill', 'trials', (n) => trial({ kv: { a: 'a'.repeat(n) } })],
  ['upstream_look_ms', 'putUpstream', 'look_ms', (n) => n],
  ['upstream_url_chars', 'putUpstream', 'url', address],
])('LIMITS.%s bounds the body of %s in `%s`', (limit, name, field, make) => {
  const { body } = ROUTES[name] as { body: z.ZodType } // each of these routes has one
  const parsed = (n: number) => body.safeParse({ ...examples[name]?.request, [field]: make(n) })
  expect(parsed(LIMITS[limit]).error).toBeUndefined()
  expect(parsed(LIMITS[limit] + 1).error?.issues[0]?.path[0]).toBe(field)
})

test('LIMITS.secret_chars_min is the shortest secret: 8 characters that can be distinguished from ordinary text', () => {
  const isAccepted = (value: string): boolean =>
    ROUTES.putSecret.body.safeParse({ ...examples['putSecret']?.request, value }).success
  expect(['abcd1234', 'abcd123', 'abcd 123', 'ab,:"123'].map(isAccepted)).toEqual([true, false, false, false])
})

test('LIMITS.channel_users bounds the Slack users of a channel: 256', () => {
  const slack = {
    kind: 'slack',
    bot_token: 'xoxb-0123456789',
    signing_secret: 'a'.repeat(32),
    app_id: 'A0APP',
    team_id: 'T0TEAM',
    channel: 'C0ROOM',
  }
  const faults = (count: number) => {
    const users = Object.fromEntries(each(count, (n) => [`U${1_000 + n}`, 'ann']))
    return (
      ROUTES.putChannel.body.safeParse({ ...slack, users }).error?.issues.map(({ path }) => path[0]) ?? []
    )
  }
  expect([faults(256), faults(257)]).toEqual([[], ['users']])
})
