// Promise: a skill is published, enabled and called over HTTP. It runs in its own isolate, on fuel,
// and leaves an attestation that anybody can verify. It gets nothing beyond its grants, and delays
// nobody.

import { describe, expect, test } from 'vitest'
import { SIGNED_TEXT_CHARS } from '../../../../shared/bytes/signable-text.ts'
import { verifyBundle } from '../../../../shared/evidence/bundle.ts'
import { LIMITS } from '../../../../shared/limits.ts'
import type { Call } from '../../../../shared/wire/calls.ts'
import type { SkillManifest } from '../../../../shared/wire/skills.ts'
import { Fixtures, refusalOf, unwrap } from '../../../support/fixtures.ts'
import {
  answer,
  CLOCK,
  component,
  LOG,
  type Parts,
  Publisher,
  RANDOM,
  returnText,
  text,
} from '../../../support/skills/skill.ts'
import * as w from '../../../support/skills/wasm.ts'
import { sharedStack } from '../../../support/stack/stack.ts'

const fixtures = new Fixtures('skill', sharedStack())
const acme = await Publisher.listed('skill-acme', fixtures.root)
const maker = await fixtures.operator(['admin'])
const agent = await fixtures.agent({ tools: ['*'], budget: { max_denied_per_run: 100 } })

const enabled = async (parts: Parts, change: Partial<SkillManifest> = {}, id = fixtures.name()) =>
  acme.enable({ maker: maker.client, root: fixtures.root }, acme.manifest(id, change), await component(parts))
const called = async (tool: string, args: Record<string, unknown> = {}): Promise<Call> =>
  unwrap(await agent.client('proposeCallInNewRun', { body: { tool, args }, wait: 20 }))

async function attested(call: Call) {
  const bundle = unwrap(await agent.client('readAttestation', { params: { run: call.run, call: call.id } }))
  const verdict = verifyBundle(bundle, unwrap(await agent.client('keys', {})))
  expect(verdict.checks.filter(({ ok }) => !ok)).toEqual([])
  const execution = verdict.statement?.predicate.execution
  if (execution?.skill === undefined) throw new Error(`no skill is attested: ${JSON.stringify(execution)}`)
  return { bundle, execution, skill: execution.skill, outcome: execution.outcome }
}
const outcomeOf = async (call: Call) => (await attested(call)).outcome

const FOREVER = w.loop(w.br(0))

test('a skill call runs in an isolate, and its attestation names the code that ran and the fuel it used', async () => {
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
  const { component: code, modules } = unwrap(
    await fixtures.root('readSkill', { params: { id: tool.slice(0, -4), version: '1.0.0' } }),
  )
  expect(skill).toMatchObject({
    component_sha256: code.sha256,
    modules: modules.map(({ name, sha256 }) => ({ name, sha256 })),
  })
  const again = (await attested(await called(tool, { a: [1, 2], ü: '漢' }))).skill
  expect([again.fuel_used, again.memory_bytes]).toEqual([skill.fuel_used, 32 * 65_536])
  expect(skill.fuel_used).toBeGreaterThan(0)
})

test('a skill’s statement that names another executor does not verify', async () => {
  const { bundle } = await attested(await called(await enabled({})))
  const keys = unwrap(await agent.client('keys', {}))
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
  ).toContain('it ran where the plan says: in its sandbox, in an isolate of the edge, or at the upstream')
})

describe('a skill that never ends or asks for too much', () => {
  test.each<[string, Parts, string]>([
    [
      'W01 an endless loop in `run` ends when the fuel is used up',
      { run: [...FOREVER, w.UNREACHABLE] },
      'fuel_exhausted',
    ],
    [
      'W02 an endless loop in a start function ends when the fuel is used up',
      { others: [{ body: FOREVER }], start: 2 },
      'fuel_exhausted',
    ],
    [
      'W01 an endless loop in `cabi_realloc` ends when the fuel is used up',
      { realloc: { ...w.REALLOC_SHAPE, body: [...FOREVER, w.UNREACHABLE] } },
      'fuel_exhausted',
    ],
    [
      'W01 endless memory fills are charged by their size',
      {
        run: [
          ...w.loop([...w.i32(0), ...w.i32(0), ...w.i32(2_000_000), ...w.bulk(11, 0), ...w.br(0)]),
          w.UNREACHABLE,
        ],
      },
      'fuel_exhausted',
    ],
    [
      'W05 an endless recursion traps',
      { run: [...w.get(0), ...w.get(0), ...w.get(0), ...w.get(0), ...w.call(0)] },
      'trap',
    ],
    [
      'W12 endless host calls are charged by their size',
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
      'W03 memory beyond the limit is not granted, and a skill that uses it anyway traps',
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
      'W07 a skill result that is neither ok nor error traps',
      { run: [...w.i32(16), ...w.i32(7), ...w.store(), ...w.i32(16)] },
      'trap',
    ],
    [
      'W07 an address outside memory from `cabi_realloc` traps',
      { realloc: { ...w.REALLOC_SHAPE, body: w.i32(-16) } },
      'trap',
    ],
  ])('W01 W02 W03 W05 W07 W12: %s', async (_, parts, kind) => {
    const call = await called(await enabled(parts), { text: 'x'.repeat(100) })
    expect([await outcomeOf(call), call.state]).toMatchObject([{ kind }, 'failed'])
  })

  test('W08 a skill’s output that is not valid Unicode is turned into text, without a crash', async () => {
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

  test('a skill’s output beyond its limit is not stored', async () => {
    const long = await enabled({ run: answer(w.i32(0), w.i32(100_000)) })
    expect(await outcomeOf(await called(long))).toEqual({ kind: 'output_cap' })
  })
})

describe('results and logs of skills', () => {
  test('a skill’s own error is reported to the caller', async () => {
    const call = await called(await enabled(returnText('no such word', 'error')))
    expect([call.result?.error, call.state]).toEqual([
      { code: 'skill_error', detail: 'no such word' },
      'failed',
    ])
  })

  test('a skill’s output that is not JSON, or does not fit its schema, fails the call', async () => {
    expect((await called(await enabled(returnText('not JSON')))).result?.error?.code).toBe('invalid_output')
    const tools = [
      {
        name: 'run',
        description: 'counts',
        input_schema: { type: 'object' },
        output_schema: { type: 'object', required: ['n'] },
      },
    ]
    const fitting = await called(await enabled(returnText('{"n":1}'), { tools }))
    expect([fitting.state, fitting.result?.output]).toEqual(['succeeded', '{"n":1}'])
    expect((await called(await enabled(returnText('{}'), { tools }))).result?.error?.code).toBe(
      'invalid_output',
    )
  })

  test('G06 a skill’s output that is too expensive to validate fails the call, and delays nobody', async () => {
    const items = { enum: Array.from({ length: 7_000 }, (_, index) => `a${index}`) }
    const output_schema = { type: 'object', properties: { a: { items } } }
    const tools = [{ name: 'run', description: 'bursts', input_schema: { type: 'object' }, output_schema }]
    const call = await called(
      await enabled(returnText(JSON.stringify({ a: Array.from({ length: 30_000 }, () => 0) })), { tools }),
    )
    expect(call).toMatchObject({
      state: 'failed',
      result: {
        error: { code: 'invalid_output', detail: expect.stringContaining('is too large to be checked') },
      },
    })
    expect((await called(await enabled({}))).state).toBe('succeeded')
  })

  test('a skill’s log is stored with the call', async () => {
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

  test('V02 a secret at the cut end of a skill’s log or error is masked, because more of both is read (`skill_log_spare_chars`, `skill_detail_chars`)', async () => {
    const [name, value] = [fixtures.name(), 'CANARY0-of-a-secret-at-the-cut-end-0123456789']
    const [logs, fails] = [fixtures.name(), fixtures.name()]
    const params = { name }
    const body = { value, tools: [`${logs}_run`, `${fails}_run`] }
    unwrap(await fixtures.root('putSecret', { params, body }))
    const capabilities = { log: true as const, secrets: [name] }
    /**
     * A text in which the secret begins ten characters before this place, with more text after it.
     */
    const around = (cut: number) => `${'x'.repeat(cut - 10)}${value}${'y'.repeat(50_000)}`
    const logged = around(LIMITS.skill_log_chars - 'warn: '.length)
    const write = [...w.i32(1_024), ...w.i32(4), ...w.i32(1_028), ...w.i32(logged.length), ...w.call(0)]
    const run = [...write, ...answer(w.get(2), w.get(3))]
    await enabled({ imports: [LOG], run, ...text(`warn${logged}`) }, { capabilities }, logs)
    await enabled(returnText(around(SIGNED_TEXT_CHARS.detail), 'error'), { capabilities }, fails)
    const approved = async (skill: string) => {
      const { run, id, approval } = await fixtures.proposeForApproval(agent.client, `${skill}_run`)
      unwrap(await fixtures.approve(approval.id))
      return unwrap(await agent.client('readCall', { params: { run, call: id }, wait: 20 })).result
    }
    const log = (await approved(logs))?.stderr ?? ''
    const { code, detail = '' } = (await approved(fails))?.error ?? {}
    unwrap(await fixtures.root('deleteSecret', { params }))
    expect([log.length, code]).toEqual([LIMITS.skill_log_chars, 'skill_error'])
    expect([log.slice(0, 10), detail.slice(0, 4)]).toEqual(['warn: xxxx', 'xxxx'])
    expect(`${log} ${detail}`).not.toContain(value.slice(0, 5))
  })

  test('a skill’s clock stands still during a call, and its random bytes differ between calls', async () => {
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

  test('W13 each skill call gets a fresh instance, without memory of earlier calls', async () => {
    // The skill counts its calls in memory, and returns 1 each time.
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

describe('policy and skills', () => {
  test('policies can name skills by action, by skill and by tier', async () => {
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
      await fixtures.withPolicies({ none }, async () =>
        expect([name, (await called(tool)).decision.policies]).toEqual([name, ['none']]),
      )
    expect((await called(tool)).state).toBe('succeeded')
  })

  test('a sensitive tool of a skill runs after an approval, and the card names its code', async () => {
    const tools = [
      { name: 'run', description: 'says it again', input_schema: { type: 'object' }, sensitive: true },
    ]
    const tool = await enabled({}, { tools })
    const asked = await fixtures.proposeForApproval(agent.client, tool, { text: 'hello' })
    const { prompt } = unwrap(await fixtures.root('readApproval', { params: { id: asked.approval.id } }))
    expect([prompt.command, prompt.plan]).toEqual([
      '',
      expect.stringMatching(
        /^in an isolate of the edge \(tier A\), `run` of the skill `skill-\d+` 1\.0\.0 \(sha256 /,
      ),
    ])
    unwrap(await fixtures.approve(asked.approval.id))
    const done = unwrap(
      await agent.client('readCall', { params: { run: asked.run, call: asked.id }, wait: 20 }),
    )
    expect(done).toMatchObject({ state: 'succeeded', result: { output: '{"text":"hello"}' } })
  })

  test('a skill’s card shows at least the risk that its publisher declares and that its capabilities imply', async () => {
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
      const { approval } = await fixtures.proposeForApproval(agent.client, await enabled({}, { tools }))
      return unwrap(await fixtures.root('readApproval', { params: { id: approval.id } })).prompt.risk
    }
    expect([await asking('high'), await asking('low')]).toEqual(['high', 'medium'])
  })

  test('a disabled skill stops running at once, even approved calls, and can be enabled again unless it was revoked', async () => {
    const tools = [
      { name: 'run', description: 'says it again', input_schema: { type: 'object' }, sensitive: true },
    ]
    const tool = await enabled({}, { tools })
    const version = { id: tool.slice(0, -4), version: '1.0.0' }
    const asked = await fixtures.proposeForApproval(agent.client, tool)
    unwrap(await fixtures.root('disableSkill', { params: version, body: { reason: 'a test' } }))
    expect((await called(tool)).decision).toMatchObject({ effect: 'deny', policies: ['skill.state'] })
    unwrap(await fixtures.approve(asked.approval.id))
    expect(unwrap(await agent.client('readCall', { params: { run: asked.run, call: asked.id } })).state).toBe(
      'denied',
    )
    unwrap(await fixtures.root('enableSkill', { params: version, body: {} }))
    expect((await fixtures.proposeForApproval(agent.client, tool)).state).toBe('awaiting_approval')
    unwrap(await fixtures.root('revokeSkill', { params: version, body: { reason: 'never again' } }))
    expect((await called(tool)).state).toBe('denied')
    expect(refusalOf(await fixtures.root('enableSkill', { params: version, body: {} }))).toBe('409 conflict')
    const { changes, state } = unwrap(await fixtures.root('readSkill', { params: version }))
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

  test('enabling a version of a skill replaces the previous one, and disabling it restores that one', async () => {
    const id = fixtures.name()
    const tool = await enabled(returnText('1'), {}, id)
    await enabled(returnText('2'), { version: '1.1.0' }, id)
    expect((await called(tool)).result?.output).toBe('2')
    unwrap(await fixtures.root('enableSkill', { params: { id, version: '1.0.0' }, body: { reason: 'back' } }))
    expect((await called(tool)).result?.output).toBe('1')
    expect(
      unwrap(await fixtures.root('listSkills', { query: { id } })).items.map(({ version, state }) => [
        version,
        state,
      ]),
    ).toEqual([
      ['1.0.0', 'enabled'],
      ['1.1.0', 'disabled'],
    ])
  })
})

test('a run’s time budget limits a skill call too', async () => {
  const body = { tool: await enabled({}), args: {}, run: { budget: { execution_timeout_ms: 700 } } }
  expect(unwrap(await agent.client('proposeCallInNewRun', { body, wait: 20 })).plan?.limits.timeout_ms).toBe(
    700,
  )
})
