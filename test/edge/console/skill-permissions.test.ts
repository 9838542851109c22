// A version of a skill with fewer guards or higher limits than another shows a sentence that the
// other lacks; irrelevant differences show none.

import { expect, test } from 'vitest'
import { powersOf, unguarded } from '../../../edge/console/skill-permissions.ts'
import type { SkillManifest } from '../../../shared/wire/skills.ts'
import { Publisher, payloadOf, type Unbound } from '../../support/skills/skill.ts'

const acme = new Publisher('acme')
const manifestWith = (change: Partial<Unbound> = {}): SkillManifest =>
  payloadOf(acme.manifest('one', change), new Uint8Array()).manifest
const added = (before: Partial<Unbound>, after: Partial<Unbound>): string[] => {
  const [was, is] = [manifestWith(before), manifestWith(after)]
  return powersOf(is, was).filter((one) => !powersOf(was).includes(one))
}

const RUN = { name: 'run', description: 'does it', input_schema: { type: 'object' } }
const HTTP = { http: { hosts: ['api.example.com:443'], methods: ['GET' as const] } }
const credential = (format?: string, header = 'authorization'): Partial<Unbound> => {
  const one = { secret: 'key', host: 'api.example.com:443', header }
  return { capabilities: { ...HTTP, credentials: [format === undefined ? one : { ...one, format }] } }
}

test.each<[string, Partial<Unbound>, Partial<Unbound>, string[]]>([
  [
    'a tool that is no longer sensitive',
    { tools: [{ ...RUN, sensitive: true }] },
    { tools: [RUN] },
    ['Runs `run`, shown as low risk, without approval'],
  ],
  [
    'a tool that states a lower risk',
    { tools: [{ ...RUN, sensitive: true, risk: 'critical' }] },
    { tools: [{ ...RUN, sensitive: true, risk: 'high' }] },
    ['Runs `run`, shown as high risk, after a human has approved'],
  ],
  [
    'a tool that becomes idempotent',
    { tools: [RUN] },
    { tools: [{ ...RUN, idempotent: true }] },
    ['Runs `run` again if the outcome of a call is unknown'],
  ],
  [
    'one more tool',
    { tools: [RUN] },
    { tools: [RUN, { ...RUN, name: 'two' }] },
    ['Runs `two`, shown as low risk, without approval'],
  ],
  [
    'a time limit longer by a millisecond',
    { limits: { timeout_ms: 6_001 } },
    { limits: { timeout_ms: 6_002 } },
    ['Takes up to 6.002 s for a call'],
  ],
  [
    'the default time limit instead of a shorter one',
    { limits: { timeout_ms: 1_000 } },
    {},
    ['Takes up to 5 s for a call'],
  ],
  ['more fuel', {}, { limits: { fuel: 500_000_001 } }, ['Uses up to 500,000,001 units of fuel in a call']],
  ['more memory', {}, { limits: { memory_bytes: 33_554_432 } }, ['Uses up to 32 MiB of memory']],
  ['more output', {}, { limits: { output_bytes: 65_537 } }, ['Returns up to 65,537 bytes']],
  [
    'more traffic and requests',
    { capabilities: HTTP },
    { capabilities: HTTP, limits: { net_bytes: 2_097_152, net_connections: 9 } },
    ['Sends and receives up to 2 MiB in a call', 'Sends up to 9 requests to its hosts in a call'],
  ],
  [
    'another format of a credential',
    credential('Bearer {}'),
    credential('Basic {}'),
    [
      'Has the secret `key` added to its requests to `api.example.com:443`, as `authorization: Basic {}`, and never sees it',
    ],
  ],
  [
    'another header of a credential',
    credential(),
    credential(undefined, 'x-key'),
    ['Has the secret `key` added to its requests to `api.example.com:443`, as `x-key`, and never sees it'],
  ],
  [
    'a credential’s format with a backtick',
    credential(),
    credential('`, never: {}'),
    [
      'Has the secret `key` added to its requests to `api.example.com:443`, as `authorization: \\u{60}, never: {}`, and never sees it',
    ],
  ],
])('a version shows what is new in it: %s', (_, before, after, says) => {
  expect(added(before, after)).toEqual(says)
  expect(added(after, after)).toEqual([])
})

test.each<[string, Partial<Unbound>, Partial<Unbound>]>([
  ['a limit equal to the default', {}, { limits: { timeout_ms: 5_000, fuel: 500_000_000 } }],
  ['a limit below the default', {}, { limits: { timeout_ms: 1_000, memory_bytes: 1_048_576 } }],
  ['a traffic limit without hosts', {}, { limits: { net_bytes: 8_388_608 } }],
  [
    'a stated risk that it has anyway',
    { capabilities: HTTP, tools: [{ ...RUN, risk: 'medium' }] },
    { capabilities: HTTP, tools: [RUN] },
  ],
  ['the default format written out', credential(), credential('{}')],
  ['one tool fewer', { tools: [RUN, { ...RUN, name: 'two' }] }, { tools: [RUN] }],
])('a version with %s has no new permissions', (_, before, after) => expect(added(before, after)).toEqual([]))

test('a tool that is no longer marked as sensitive is named with the consequence', () => {
  const marked = { tools: [{ ...RUN, sensitive: true }] }
  const said = (before: Partial<Unbound>, after: Partial<Unbound>) =>
    unguarded(manifestWith({ version: '1.1.0', ...after }), manifestWith(before))
  const taken = 'In 1.0.0 `run` is marked as sensitive, and here it is not: '
  expect(said(marked, { tools: [RUN] })).toEqual([
    `${taken}nobody is asked before it runs, unless policy requires it`,
  ])
  expect(said({ ...marked, capabilities: HTTP }, { tools: [RUN], capabilities: HTTP })).toEqual([
    `${taken}a human is still asked, because of what it reaches or reads`,
  ])
  expect([
    said(marked, marked),
    said({ tools: [RUN] }, marked),
    said(marked, { tools: [{ ...RUN, name: 'two' }] }),
  ]).toEqual([[], [], []])
})
