// Promise: a skill is published, enabled and called over HTTP, runs in an isolate of its own on fuel, and leaves an attestation that anybody
// can verify. What it may not have it does not get, and no skill holds anybody up.

import { beforeAll, describe, expect, test } from 'vitest'
import { verifyBundle } from '../../../../shared/evidence/bundle.ts'
import type { Call } from '../../../../shared/wire/calls.ts'
import type { SkillManifest } from '../../../../shared/wire/skills.ts'
import { Desk, granted, refusal } from '../../../support/fixtures.ts'
import {
  answer,
  CLOCK,
  component,
  LOG,
  type Parts,
  Publisher,
  RANDOM,
  says,
  text,
} from '../../../support/skills/skill.ts'
import * as w from '../../../support/skills/wasm.ts'
import { sharedStack } from '../../../support/stack/stack.ts'

const desk = new Desk('skill', sharedStack())
const acme = new Publisher('skill-acme')
let agent: Awaited<ReturnType<Desk['agent']>>
let maker: Awaited<ReturnType<Desk['operator']>>

beforeAll(async () => {
  maker = await desk.operator(['admin'])
  granted(await desk.root('putPublisher', { params: { name: acme.name }, body: { keys: [acme.signer.x] } }))
  agent = await desk.agent({ tools: ['*'], budget: { max_denied_per_run: 100 } })
})

async function enabled(parts: Parts, change: Partial<SkillManifest> = {}, id = desk.name()): Promise<string> {
  const manifest = acme.manifest(id, change)
  granted(await maker.client('publishSkill', { body: acme.pack(manifest, await component(parts)) }))
  granted(await desk.root('enableSkill', { params: { id, version: manifest.version }, body: {} }))
  return `${id}.run`
}
const called = async (tool: string, args: Record<string, unknown> = {}): Promise<Call> =>
  granted(await agent.client('proposeCallInNewRun', { body: { tool, args }, wait: 20 }))

async function attested(call: Call) {
  const bundle = granted(await agent.client('readAttestation', { params: { run: call.run, call: call.id } }))
  const verdict = verifyBundle(bundle, granted(await agent.client('keys', {})))
  expect(verdict.checks.filter(({ ok }) => !ok)).toEqual([])
  const execution = verdict.statement?.predicate.execution
  if (execution?.skill === undefined) throw new Error(`no skill is attested: ${JSON.stringify(execution)}`)
  return { bundle, execution, skill: execution.skill, outcome: execution.outcome }
}
const outcomeOf = async (call: Call) => (await attested(call)).outcome

const FOREVER = w.loop(w.br(0))

test('a skill runs in its isolate, and what ran, on how much fuel, is attested', async () => {
  const tool = await enabled({})
  const call = await called(tool, { a: [1, 2], ü: '漢' })
  expect(call).toMatchObject({
    state: 'succeeded',
    plan: { tier: 'A' },
    result: { ok: true, output: '{"a":[1,2],"ü":"漢"}' },
  })
  const { execution, skill } = await attested(call)
  expect(execution).toMatchObject({
    executor: 'wasm_isolate',
    sandbox_enforcement: 'isolate',
    outcome: { kind: 'returned' },
  })
  const { component: code, modules } = granted(
    await desk.root('readSkill', { params: { id: tool.slice(0, -4), version: '1.0.0' } }),
  )
  expect(skill).toMatchObject({
    component_sha256: code.sha256,
    modules: modules.map(({ name, sha256 }) => ({ name, sha256 })),
  })
  const again = (await attested(await called(tool, { a: [1, 2], ü: '漢' }))).skill
  expect([again.fuel_used, again.memory_bytes]).toEqual([skill.fuel_used, 32 * 65_536])
  expect(skill.fuel_used).toBeGreaterThan(0)
})

test('nobody makes another executor of it: a statement that says so does not verify', async () => {
  const { bundle } = await attested(await called(await enabled({})))
  const keys = granted(await agent.client('keys', {}))
  const { plan } = bundle.call
  if (plan?.tier !== 'A') throw new Error('the plan is not one of tier A')
  const other = {
    ...bundle,
    call: { ...bundle.call, plan: { ...plan, executor: { ...plan.executor, digest: 'a'.repeat(64) } } },
  }
  expect(
    verifyBundle(other, keys)
      .checks.filter(({ ok }) => !ok)
      .map(({ name }) => name),
  ).toContain('it ran in the sandbox that the plan names, or at the edge if it is a skill')
})

describe('a skill that never ends, or wants too much', () => {
  test.each<[string, Parts, string]>([
    [
      'W01 an endless loop in a run ends when its fuel does',
      { run: [...FOREVER, w.UNREACHABLE] },
      'fuel_exhausted',
    ],
    [
      'W02 an endless loop in a start function ends when its fuel does',
      { others: [{ body: FOREVER }], start: 2 },
      'fuel_exhausted',
    ],
    [
      'W01 an endless loop where the host asks for memory ends when its fuel does',
      { realloc: { ...w.REALLOC_SHAPE, body: [...FOREVER, w.UNREACHABLE] } },
      'fuel_exhausted',
    ],
    [
      'W01 fills of memory without end are paid by their size',
      {
        run: [
          ...w.loop([...w.i32(0), ...w.i32(0), ...w.i32(2_000_000), ...w.bulk(11, 0), ...w.br(0)]),
          w.UNREACHABLE,
        ],
      },
      'fuel_exhausted',
    ],
    [
      'W05 a recursion without end is a trap',
      { run: [...w.get(0), ...w.get(0), ...w.get(0), ...w.get(0), ...w.call(0)] },
      'trap',
    ],
    [
      'W12 calls of the host without end are paid by their size',
      {
        imports: [LOG],
        run: [
          ...w.loop([...w.i32(0), ...w.i32(10), ...w.i32(0), ...w.i32(100_000), ...w.call(0), ...w.br(0)]),
          w.UNREACHABLE,
        ],
      },
      'fuel_exhausted',
    ],
    [
      'W03 memory beyond its limit is not given, and a skill that goes on as if it were traps',
      {
        run: [
          ...w.i32(1_000),
          ...w.op(0x40, 0),
          w.DROP,
          ...w.i32(1_000_000_000),
          ...w.load(),
          w.DROP,
          ...answer(w.get(2), w.get(3)),
        ],
      },
      'trap',
    ],
    ['W07 a result that lies beyond memory is a trap', { run: answer(w.i32(-1), w.i32(100)) }, 'trap'],
    ['W07 a result longer than memory is a trap', { run: answer(w.i32(0), w.i32(-1)) }, 'trap'],
    [
      'W07 a result that is neither ok nor error is a trap',
      { run: [...w.i32(16), ...w.i32(7), ...w.store(), ...w.i32(16)] },
      'trap',
    ],
    [
      'W07 memory that is asked for and lies elsewhere is a trap',
      { realloc: { ...w.REALLOC_SHAPE, body: w.i32(-16) } },
      'trap',
    ],
  ])('W01 W02 W03 W05 W07 W12: %s', async (_, parts, kind) => {
    const call = await called(await enabled(parts), { text: 'x'.repeat(100) })
    expect([await outcomeOf(call), call.state]).toMatchObject([{ kind }, 'failed'])
  })

  test('W08 text that is no Unicode comes out as text, and never as a crash', async () => {
    const broken = [0x22, 0xff, 0xed, 0xa0, 0x80, 0x22]
    const call = await called(
      await enabled({
        run: answer(w.i32(1_024), w.i32(broken.length)),
        data: [[0, ...w.i32(1_024), 0x0b, broken.length, ...broken]],
      }),
    )
    expect(call).toMatchObject({
      state: 'succeeded',
      result: { encoding: 'utf-8', output: '"\uFFFD\uFFFD\uFFFD\uFFFD"' },
    })
  })

  test('an output beyond the limit is not kept', async () => {
    const long = await enabled({ run: answer(w.i32(0), w.i32(100_000)) })
    expect(await outcomeOf(await called(long))).toEqual({ kind: 'output_cap' })
  })
})

describe('what a skill says', () => {
  test('an error of its own is told to whoever called', async () => {
    const call = await called(await enabled(says('no such word', 'error')))
    expect([call.result?.error, call.state]).toEqual([
      { code: 'skill_error', detail: 'no such word' },
      'failed',
    ])
  })

  test('what is not JSON, or not of the schema, is no result', async () => {
    expect((await called(await enabled(says('not JSON')))).result?.error?.code).toBe('invalid_output')
    const tools = [
      {
        name: 'run',
        description: 'counts',
        input_schema: { type: 'object' },
        output_schema: { type: 'object', required: ['n'] },
      },
    ]
    const fitting = await called(await enabled(says('{"n":1}'), { tools }))
    expect([fitting.state, fitting.result?.output]).toEqual(['succeeded', '{"n":1}'])
    expect((await called(await enabled(says('{}'), { tools }))).result?.error?.code).toBe('invalid_output')
  })

  test('G06 a result that is too much for its schema is no result, and holds nobody up', async () => {
    const items = { enum: Array.from({ length: 7_000 }, (_, index) => `a${index}`) }
    const output_schema = { type: 'object', properties: { a: { items } } }
    const tools = [{ name: 'run', description: 'bursts', input_schema: { type: 'object' }, output_schema }]
    const call = await called(
      await enabled(says(JSON.stringify({ a: Array.from({ length: 30_000 }, () => 0) })), { tools }),
    )
    expect(call).toMatchObject({
      state: 'failed',
      result: { error: { code: 'invalid_output', detail: expect.stringContaining('too much') } },
    })
    expect((await called(await enabled({}))).state).toBe('succeeded')
  })

  test('what it logs is kept with the call', async () => {
    const { data } = text('warnmind the gap')
    const run = [
      ...w.i32(1_024),
      ...w.i32(4),
      ...w.i32(1_028),
      ...w.i32(12),
      ...w.call(0),
      ...answer(w.get(2), w.get(3)),
    ]
    const call = await called(await enabled({ imports: [LOG], run, data }))
    expect([call.result?.stderr, (await attested(call)).skill.host_calls]).toEqual([
      'warn: mind the gap\n',
      { 'log.write': 1 },
    ])
  })

  test('its clock stands still, and random bytes differ', async () => {
    const hex = (at: number): w.Code => answer(w.i32(at), w.i32(2))
    const same = [
      ...w.call(0),
      ...w.call(0),
      ...w.op(0x51),
      ...w.when([...hex(1_024)], [...hex(1_026)], w.I32),
    ]
    expect(
      (
        await called(await enabled({ imports: [CLOCK], run: same, data: text('1 0 ').data }))
      ).result?.output.trim(),
    ).toBe('1')
    const drawn = [...w.i32(8), ...w.i32(32), ...w.call(0), ...answer(w.get(2), w.get(3))]
    expect(
      (await attested(await called(await enabled({ imports: [RANDOM], run: drawn })))).skill.host_calls,
    ).toEqual({ 'random.bytes': 1 })
  })

  test('W13 nothing of a call is there for the next: each has an instance of its own', async () => {
    // It counts in its memory, and says how often it was called: once, each time.
    const digit: w.Code = [
      ...w.i32(2_048),
      ...w.i32(2_048),
      ...w.load(0x2d),
      ...w.i32(1),
      ...w.op(0x6a),
      ...w.store(0x3a),
      ...w.i32(2_049),
      ...w.i32(0x20),
      ...w.store(0x3a),
    ]
    const shown: w.Code = [
      ...w.i32(2_050),
      ...w.i32(2_048),
      ...w.load(0x2d),
      ...w.i32(48),
      ...w.op(0x6a),
      ...w.store(0x3a),
    ]
    const tool = await enabled({ run: [...digit, ...shown, ...answer(w.i32(2_050), w.i32(1))] })
    expect([(await called(tool)).result?.output, (await called(tool)).result?.output]).toEqual(['1', '1'])
  })
})

describe('what it may', () => {
  test('policies speak of skills: by action, by skill and by tier', async () => {
    const tool = await enabled({})
    const skill = tool.slice(0, -4)
    const rules = {
      action: `@id("none") forbid (principal, action in Action::"skill.execute", resource);`,
      skill: `@id("none") forbid (principal, action, resource in Skill::"${skill}");`,
      name: `@id("none") forbid (principal, action in Action::"tool.execute", resource) when { context has skill_id && context.skill_id == "${skill}" };`,
      tier: `@id("none") forbid (principal, action in Action::"tool.execute", resource) when { context.plan.tier == "A" };`,
      fuel: `@id("none") forbid (principal, action in Action::"tool.execute", resource) when { context.plan has fuel && context.plan.fuel > 1000 };`,
    }
    for (const [name, none] of Object.entries(rules))
      await desk.withPolicies({ none }, async () =>
        expect([name, (await called(tool)).decision.policies]).toEqual([name, ['none']]),
      )
    expect((await called(tool)).state).toBe('succeeded')
  })

  test('a sensitive tool of a skill runs after a yes, and its card says which code', async () => {
    const tools = [
      { name: 'run', description: 'says it again', input_schema: { type: 'object' }, sensitive: true },
    ]
    const tool = await enabled({}, { tools })
    const asked = await desk.asked(agent.client, tool, { text: 'hello' })
    const { prompt } = granted(await desk.root('readApproval', { params: { id: asked.approval.id } }))
    expect([prompt.command, prompt.plan]).toEqual([
      '',
      expect.stringMatching(
        /^in an isolate of the edge \(tier A\), `run` of the skill `skill-\d+` 1\.0\.0 \(sha256 /,
      ),
    ])
    granted(
      await desk.root('answerApproval', { params: { id: asked.approval.id }, body: { decision: 'approve' } }),
    )
    const done = granted(
      await agent.client('readCall', { params: { run: asked.run, call: asked.id }, wait: 20 }),
    )
    expect(done).toMatchObject({ state: 'succeeded', result: { output: '{"text":"hello"}' } })
  })

  test('its card says no less risk than its publisher does, and no less than what it is given comes to', async () => {
    const asking = async (risk: 'low' | 'high') => {
      const tools = [
        {
          name: 'run',
          description: 'says it again',
          input_schema: { type: 'object' },
          sensitive: true,
          risk,
        },
      ]
      const { approval } = await desk.asked(agent.client, await enabled({}, { tools }))
      return granted(await desk.root('readApproval', { params: { id: approval.id } })).prompt.risk
    }
    expect([await asking('high'), await asking('low')]).toEqual(['high', 'medium'])
  })

  test('a skill that is disabled runs no more, at once, whatever was approved; and can be again, but for one that was revoked', async () => {
    const tools = [
      { name: 'run', description: 'says it again', input_schema: { type: 'object' }, sensitive: true },
    ]
    const tool = await enabled({}, { tools })
    const version = { id: tool.slice(0, -4), version: '1.0.0' }
    const asked = await desk.asked(agent.client, tool)
    granted(await desk.root('disableSkill', { params: version, body: { reason: 'a test' } }))
    expect((await called(tool)).decision).toMatchObject({ effect: 'deny', policies: ['skill.state'] })
    granted(
      await desk.root('answerApproval', { params: { id: asked.approval.id }, body: { decision: 'approve' } }),
    )
    expect(
      granted(await agent.client('readCall', { params: { run: asked.run, call: asked.id } })).state,
    ).toBe('denied')
    granted(await desk.root('enableSkill', { params: version, body: {} }))
    expect((await desk.asked(agent.client, tool)).state).toBe('awaiting_approval')
    granted(await desk.root('revokeSkill', { params: version, body: { reason: 'never again' } }))
    expect((await called(tool)).state).toBe('denied')
    expect(refusal(await desk.root('enableSkill', { params: version, body: {} }))).toBe('409 conflict')
    const { changes, state } = granted(await desk.root('readSkill', { params: version }))
    expect([state, changes.map(({ to, by, reason }) => [to, by, reason])]).toEqual([
      'revoked',
      [
        ['revoked', 'root', 'never again'],
        ['enabled', 'root', ''],
        ['disabled', 'root', 'a test'],
        ['enabled', 'root', ''],
      ],
    ])
  })

  test('the next version takes the place of the one before, and gives it back', async () => {
    const id = desk.name()
    const tool = await enabled(says('1'), {}, id)
    await enabled(says('2'), { version: '1.1.0' }, id)
    expect((await called(tool)).result?.output).toBe('2')
    granted(await desk.root('enableSkill', { params: { id, version: '1.0.0' }, body: { reason: 'back' } }))
    expect((await called(tool)).result?.output).toBe('1')
    expect(
      granted(await desk.root('listSkills', { query: { id } })).items.map(({ version, state }) => [
        version,
        state,
      ]),
    ).toEqual([
      ['1.0.0', 'enabled'],
      ['1.1.0', 'disabled'],
    ])
  })
})

test('a run’s budget bounds the time of a skill too', async () => {
  const body = { tool: await enabled({}), args: {}, run: { budget: { execution_timeout_ms: 700 } } }
  expect(granted(await agent.client('proposeCallInNewRun', { body, wait: 20 })).plan?.limits.timeout_ms).toBe(
    700,
  )
})
