// Promise: an author can try a skill before publication, in the isolate of real calls and under its
// own manifest, with recorded answers. The result says what it would do; nothing is stored or sent.

import { beforeAll, describe, expect, test } from 'vitest'
import { LIMITS } from '../../../../shared/limits.ts'
import type { SkillCapability } from '../../../../shared/plan/plan.ts'
import type { TrialResult } from '../../../../shared/wire/skill-trials.ts'
import type { UnboundManifest } from '../../../../shared/wire/skills.ts'
import { Fixtures, refusalOf, unwrap } from '../../../support/fixtures.ts'
import { javaScriptSkill } from '../../../support/skills/javascript-skill.ts'
import { component, type Parts, Publisher } from '../../../support/skills/skill.ts'
import * as w from '../../../support/skills/wasm.ts'
import { sharedStack } from '../../../support/stack/stack.ts'

const fixtures = new Fixtures('trial', sharedStack())
/** A publisher on no tenant's list. */
const nobody = new Publisher('trial-nobody')
let author: Awaited<ReturnType<Fixtures['operator']>>

beforeAll(async () => {
  author = await fixtures.operator(['admin'])
})

type Trials = Parameters<typeof ask>[2]
const ask = (
  code: Uint8Array,
  change: Partial<UnboundManifest>,
  trials: { input?: Record<string, unknown>; tool?: string; host?: object }[],
) =>
  author.client('trySkill', {
    body: {
      manifest: nobody.manifest('trial', change),
      component: Buffer.from(code).toString('base64'),
      trials: trials.map(({ input = {}, tool = 'run', host = {} }) => ({ tool, input, host })) as never, // the edge fills in defaults
    },
  })
async function tried(
  source: string,
  capabilities: UnboundManifest['capabilities'],
  ...trials: Trials
): Promise<TrialResult[]> {
  const names = Object.keys(capabilities).map((name) =>
    name === 'channels' ? 'channel' : name,
  ) as SkillCapability[] // the manifest's own
  const code = await javaScriptSkill(
    source,
    names.filter((name) => (name as string) !== 'credentials'),
  )
  return unwrap(await ask(code, { capabilities }, trials.length === 0 ? [{}] : trials)).items
}

describe('a trial', () => {
  test('a trial returns the result, log and fuel of a real call, the same each time', async () => {
    const source = `import { write } from 'countersign:skill/log'
      export const run = (tool, input) => { write('info', tool); return input }`
    const [one, two] = await tried(
      source,
      { log: true },
      { input: { b: 1, a: 'ü' } },
      { input: { b: 1, a: 'ü' } },
    )
    expect(one).toMatchObject({
      outcome: { kind: 'returned' },
      output: '{"a":"ü","b":1}',
      log: 'info: run\n',
      requests: [],
      host_calls: { 'log.write': 1 },
    })
    expect(one?.fuel_used).toBeGreaterThan(0)
    expect(two).toEqual(one)
  })

  test('a trial uses the recorded time and random numbers', async () => {
    const source = `import { bytes } from 'countersign:skill/random'
      export const run = () => JSON.stringify([new Date().toISOString(), [...bytes(3)], [...bytes(2)]])`
    const [recorded, plain] = await tried(
      source,
      { clock: true, random: true },
      { host: { clock: 1_700_000_000_000, random: '010203' } },
      {},
    )
    expect(recorded?.output).toBe('["2023-11-14T22:13:20.000Z",[1,2,3],[1,2]]')
    expect(plain?.output).toBe('["1970-01-01T00:00:00.000Z",[0,0,0],[0,0]]')
  })

  test('a trial’s requests get the recorded answers, with credentials added, and none is sent', async () => {
    const source = `import { request } from 'countersign:skill/http'
      import { get } from 'countersign:skill/secrets'
      export function run(tool, input) {
        const { url } = JSON.parse(input)
        try {
          const { status, headers, body } = request('GET', url, 'x-from: ' + get('name'))
          return JSON.stringify({ status, headers, body: new TextDecoder().decode(body) })
        } catch (why) { return JSON.stringify({ why }) }
      }`
    const capabilities = {
      http: { hosts: ['api.example.com:443'], methods: ['GET' as const] },
      secrets: ['name'],
      credentials: [{ secret: 'key', host: 'api.example.com:443', header: 'x-api-key', format: 'k {}' }],
    }
    const url = 'https://api.example.com/orders?page=2'
    const http = [{ request: `GET ${url}`, status: 201, headers: { 'x-total': '7' }, body: '[1,2]' }]
    const [known, unknown, gone, elsewhere] = await tried(
      source,
      capabilities,
      { input: { url }, host: { http, secrets: { name: 'ann', key: 's3' } } },
      { input: { url } },
      { input: { url }, host: { http: [{ request: `GET ${url}`, unreachable: true }] } },
      { input: { url: 'https://evil.example/' } },
    )
    expect(JSON.parse(known?.output ?? '')).toMatchObject({
      status: 201,
      headers: expect.arrayContaining([['x-total', '7']]),
      body: '[1,2]',
    })
    expect(known?.requests).toEqual([
      { request: `GET ${url}`, headers: { 'x-from': 'ann', 'x-api-key': 'k s3' }, body: '', answered: true },
    ])
    expect(unknown?.output).toBe('{"why":"the host could not be reached"}')
    expect(unknown?.requests).toMatchObject([
      { headers: { 'x-from': 'value-of-name', 'x-api-key': 'k value-of-key' }, answered: false },
    ])
    expect(gone?.requests).toMatchObject([{ answered: true }])
    expect(elsewhere?.outcome).toMatchObject({
      kind: 'capability_denied',
      detail: expect.stringContaining('evil.example'),
    })
    expect(elsewhere?.requests).toEqual([])
  })

  test('a trial’s storage lasts for that trial only, and its posts are not delivered', async () => {
    const source = `import * as kv from 'countersign:skill/kv'
      import { post } from 'countersign:skill/channel'
      export function run() {
        const before = kv.keys('a/')
        kv.set('a/new', new TextEncoder().encode('ü')); kv.delete('a/old'); post('ops', 'hello')
        const text = kv.get('a/kept')
        let why
        try { kv.set('a/..', new Uint8Array()) } catch (error) { why = error }
        return JSON.stringify({ before, kept: text && new TextDecoder().decode(text), none: kv.get('a/gone') === undefined, why })
      }`
    const host = { kv: { 'a/old': '1', 'a/kept': '2', 'b/other': '3' } }
    const [one, two] = await tried(source, { kv: ['a/'], channels: ['ops'] }, { host }, {})
    expect(JSON.parse(one?.output ?? '')).toEqual({
      before: ['a/kept', 'a/old'],
      kept: '2',
      none: true,
      why: 'a key may not have `..` as a segment',
    })
    expect(one).toMatchObject({
      kv: { 'a/kept': '2', 'a/new': 'ü', 'b/other': '3' },
      posts: [{ channel: 'ops', text: 'hello' }],
    })
    expect(two).toMatchObject({ kv: { 'a/new': 'ü' } })
    const [other] = await tried(
      `import { get } from 'countersign:skill/kv'\nexport const run = () => get('b/x') ?? '{}'`,
      { kv: ['a/'] },
    )
    expect(other?.outcome).toMatchObject({
      kind: 'capability_denied',
      detail: expect.stringContaining('b/x'),
    })
  })

  test('a trial fails like a real call', async () => {
    const source = `export function run(tool, input) {
      const { how } = JSON.parse(input)
      if (how === 'throw') throw new Error('no such order')
      if (how === 'text') return 'no JSON'
      if (how === 'loop') for (;;);
    }`
    const ended = await tried(
      source,
      {},
      { input: { how: 'throw' } },
      { input: { how: 'text' } },
      { input: { how: 'loop' } },
    )
    expect(ended.map(({ outcome }) => outcome.kind)).toEqual([
      'skill_error',
      'invalid_output',
      'fuel_exhausted',
    ])
    expect(ended[0]?.outcome).toMatchObject({ detail: 'no such order' })
  })

  test('a trial leaves no skill, no tool and no journal entry', async () => {
    await tried(`export const run = () => '{}'`, {})
    expect(unwrap(await fixtures.root('listSkills', {})).items.filter(({ id }) => id === 'trial')).toEqual([])
    expect(refusalOf(await fixtures.root('readTool', { params: { name: 'trial_run' } }))).toBe(
      '404 not_found',
    )
    const journal = unwrap(await fixtures.root('readSkillJournal', { query: {} })).items
    expect(JSON.stringify(journal)).not.toContain('"trial"')
  })
})

describe('trials that are refused', () => {
  const HELLO = `export const run = () => '{}'`
  const whole = async (parts: Parts = {}) => component(parts)

  test.each<[string, () => Promise<Uint8Array>, Partial<UnboundManifest>, Trials, string]>([
    ['a file that is not a component', async () => new Uint8Array(100), {}, [{}], '422 invalid_skill'],
    [
      'a component beyond the limits',
      () => whole({ memory: { min: 60_000 } }),
      {},
      [{}],
      '422 invalid_skill',
    ],
    [
      'a component that needs more than its manifest declares',
      () => javaScriptSkill(HELLO, ['kv']),
      { capabilities: {} },
      [{}],
      '422 invalid_skill',
    ],
    ['a tool that the skill does not have', () => whole(), {}, [{ tool: 'other' }], '422 invalid_arguments'],
    [
      'input that does not fit the schema',
      () => whole(),
      { tools: [{ name: 'run', description: 'x', input_schema: { type: 'object', required: ['a'] } }] },
      [{}],
      '422 invalid_arguments',
    ],
    [
      'a schema that tools may not have',
      () => whole(),
      {
        tools: [
          {
            name: 'run',
            description: 'x',
            input_schema: { type: 'object', properties: { a: { pattern: '(a+)+$' } } },
          },
        ],
      },
      [{}],
      '422 invalid_schema',
    ],
    [
      'more trials than one request may have',
      () => whole(),
      {},
      Array.from({ length: LIMITS.trials + 1 }, () => ({})),
      '400 invalid_request',
    ],
    ['no trials', () => whole(), {}, [], '400 invalid_request'],
  ])('a trial request is refused: %s', async (_, code, change, trials, refused) => {
    expect(refusalOf(await ask(await code(), change, trials))).toBe(refused)
  })

  test('a trial is refused to an operator whom policy does not permit it', async () => {
    const approver = await fixtures.operator(['approver'])
    const body = {
      manifest: nobody.manifest('trial'),
      component: Buffer.from(await component()).toString('base64'),
      trials: [{ tool: 'run', input: {} }] as never,
    }
    expect(refusalOf(await approver.client('trySkill', { body }))).toBe('403 forbidden')
  })
})

test('W01 an endless trial ends when its fuel is used up', async () => {
  const forever = await component({ run: [...w.loop(w.br(0)), w.UNREACHABLE] })
  const trying = ask(
    forever,
    { limits: { fuel: 50_000_000 } },
    Array.from({ length: 8 }, () => ({})),
  )
  const slowest: number[] = []
  for (let at = 0; at < 20; at++) {
    const began = performance.now()
    unwrap(await author.client('listPublishers', {}))
    slowest.push(performance.now() - began)
  }
  const items = unwrap(await trying).items
  expect(items.map(({ outcome }) => outcome.kind)).toEqual(Array.from({ length: 8 }, () => 'fuel_exhausted'))
  expect(Math.max(...slowest)).toBeLessThan(5_000)
})

test('W01 the trials of a request share a fuel limit, and always the same ones exceed it', async () => {
  // A fill is charged before it fails beyond the end of memory: 2^29 units in no time.
  const costly = await component({
    run: [...w.i32(0), ...w.i32(0), ...w.i32(-1), ...w.bulk(11, 0), w.UNREACHABLE],
  })
  const times = (count: number) =>
    ask(
      costly,
      { limits: { fuel: 1_000_000_000 } },
      Array.from({ length: count }, () => ({})),
    )
  const fitting = Math.floor(LIMITS.trials_fuel / 2 ** 29)
  expect(unwrap(await times(fitting)).items.map(({ outcome }) => outcome.kind)).toEqual(
    Array.from({ length: fitting }, () => 'trap'),
  )
  for (let again = 0; again < 2; again++) {
    const refused = await times(LIMITS.trials)
    expect([refusalOf(refused), refused.ok ? '' : refused.error.detail]).toEqual([
      '422 invalid_arguments',
      `the first ${fitting + 1} trials use more than 10000000000 units of fuel; send fewer at once`,
    ])
  }
})
