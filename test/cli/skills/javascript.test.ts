// Promise: what is written in JavaScript runs as a skill: built to the same bytes each time, importing what it was granted and nothing of a
// system, with the world's functions as its modules; and what is wrong in it is told with its place.

import { beforeAll, describe, expect, test } from 'vitest'
import { fromJavaScript } from '../../../cli/skills/compile-javascript.ts'
import { readComponent } from '../../../edge/skills/component/bounds.ts'
import { meter } from '../../../edge/skills/metering/meter.ts'
import { sha256 } from '../../../shared/bytes/json.ts'
import { LIMITS, MAX_SKILL_LIMITS } from '../../../shared/limits.ts'
import { SkillCapability } from '../../../shared/plan/plan.ts'
import type { Call } from '../../../shared/wire/calls.ts'
import { Desk, granted } from '../../support/fixtures.ts'
import { javaScriptSkill } from '../../support/skills/javascript-skill.ts'
import { Publisher } from '../../support/skills/skill.ts'
import { sharedStack } from '../../support/stack/stack.ts'

const desk = new Desk('javascript', sharedStack())
const acme = new Publisher('javascript-acme')
let agent: Awaited<ReturnType<Desk['agent']>>
let maker: Awaited<ReturnType<Desk['operator']>>

beforeAll(async () => {
  maker = await desk.operator(['admin'])
  granted(await desk.root('putPublisher', { params: { name: acme.name }, body: { keys: [acme.signer.x] } }))
  agent = await desk.agent({ tools: ['*'], budget: { max_denied_per_run: 100 } })
})

/** A tool whose code is `source`, enabled. */
async function tool(
  source: string,
  capabilities: readonly ('log' | 'clock' | 'random')[] = [],
): Promise<string> {
  const id = desk.name()
  const said = Object.fromEntries(capabilities.map((name) => [name, true as const]))
  const code = await javaScriptSkill(source, capabilities)
  granted(
    await maker.client('publishSkill', { body: acme.pack(acme.manifest(id, { capabilities: said }), code) }),
  )
  granted(await desk.root('enableSkill', { params: { id, version: '1.0.0' }, body: {} }))
  return `${id}.run`
}
const called = async (name: string, args: Record<string, unknown> = {}): Promise<Call> =>
  granted(await agent.client('proposeCallInNewRun', { body: { tool: name, args }, wait: 20 }))
const outputOf = async (name: string, args: Record<string, unknown> = {}): Promise<unknown> => {
  const { result } = await called(name, args)
  if (result?.ok !== true) throw new Error(JSON.stringify(result))
  return JSON.parse(result.output)
}

const HELLO = `export const run = (tool, input) => JSON.stringify({ tool, greeting: 'Hello, ' + JSON.parse(input).name + '!' })`

describe('what is built', () => {
  test('is a component of the world that can be paid for, far below what a skill may be', async () => {
    const code = await javaScriptSkill(HELLO, SkillCapability.options)
    const read = readComponent(code)
    if (!read.ok) throw new Error(read.error.detail)
    expect([...read.value.capabilities].sort()).toEqual([...SkillCapability.options].sort())
    const room = { pages: MAX_SKILL_LIMITS.memory_bytes / 65_536, elements: MAX_SKILL_LIMITS.table_elements }
    for (const module of read.value.modules) expect(meter(module, room).ok).toBe(true)
    expect(code.byteLength).toBeLessThan(LIMITS.skill_component_bytes / 4)
  })

  test('is the same, byte for byte, from the same source; and imports nothing that was not granted', async () => {
    const sources = [HELLO, HELLO, HELLO.replace('Hello', 'Hallo')]
    const digests: string[] = []
    for (const source of sources) {
      const code = await fromJavaScript(
        'skill.js',
        { named: (_, name) => name, placeOf: () => 'skill.js', source: () => source },
        ['log'],
      )
      digests.push(code.ok ? sha256(code.value) : code.error)
    }
    expect(digests[1]).toBe(digests[0])
    expect(digests[2]).not.toBe(digests[0])
    expect(readComponent(await javaScriptSkill(HELLO))).toMatchObject({
      ok: true,
      value: { capabilities: [] },
    })
  })
})

describe('what runs', () => {
  test('gets its tool and input, and gives its result', async () => {
    const name = await tool(HELLO)
    expect(await outputOf(name, { name: 'Ünal 😀' })).toEqual({ tool: 'run', greeting: 'Hello, Ünal 😀!' })
  })

  test('may be asynchronous, and each call begins as the first did', async () => {
    const name = await tool(`let calls = 0
      export async function run(tool, input) { await null; calls += 1; return JSON.stringify({ calls }) }`)
    expect([await outputOf(name), await outputOf(name)]).toEqual([{ calls: 1 }, { calls: 1 }])
  })

  test('logs, tells the time and draws numbers by what it is granted', async () => {
    const name = await tool(
      `import { write } from 'countersign:skill/log'
       import { now } from 'countersign:skill/clock'
       import { bytes } from 'countersign:skill/random'
       export function run() {
         write('warn', 'líne'); console.log('two', { a: 1 })
         return JSON.stringify({ same: Number(now()) === Date.now() && new Date().getTime() === Date.now(), year: new Date().getFullYear(), bytes: bytes(8).length, random: Math.random() })
       }`,
      ['log', 'clock', 'random'],
    )
    const call = await called(name)
    expect(call.result).toMatchObject({ ok: true, stderr: 'warn: líne\ninfo: two {"a":1}\n' })
    const said = JSON.parse(call.result?.output ?? '')
    expect(said).toMatchObject({ same: true, bytes: 8 })
    expect(said.year).toBeGreaterThan(2025)
    expect(await outputOf(name)).not.toMatchObject({ random: said.random })
  })

  test.each([
    ['an error of its author is what they wrote', `throw new Error('no such order')`, 'no such order'],
    ['a thrown text is that text', `throw 'no such order'`, 'no such order'],
    [
      'an error of the engine has its place',
      'null.x',
      `TypeError: cannot read property 'x' of null (skill.js:2:1)`,
    ],
    [
      'a recursion without end has its place too',
      'const f = () => f() + 1; f()',
      /^RangeError: Maximum call stack size exceeded \(skill\.js:2:/,
    ],
    ['what is no text is no result', 'return 7', /`run` is to return a string of JSON/],
    [
      'a promise that nothing settles is no end',
      'return new Promise(() => {})',
      /promise that nothing settles/,
    ],
    [
      'the time is not told without a clock',
      'return String(Date.now())',
      '`clock` is not under [capabilities] in skill.toml',
    ],
    [
      'nothing is drawn without leave',
      'return String(Math.random())',
      '`random` is not under [capabilities] in skill.toml',
    ],
  ])('%s', async (_, body, detail) => {
    const { state, result } = await called(await tool(`export function run() {\n${body}\n}`))
    expect({ state, error: result?.error?.code }).toEqual({ state: 'failed', error: 'skill_error' })
    expect(result?.error?.detail).toMatch(
      typeof detail === 'string' ? new RegExp(RegExp.escape(detail)) : detail,
    )
  })
})

describe('what is wrong in a source is told to its author', () => {
  test.each([
    ['a mistake in the language', 'export const run = (', /^skill\.js:1:\d+: SyntaxError: /],
    ['what is thrown while it is built', '\nnull.x\nexport const run = 1', /^skill\.js:2:\d+: TypeError: /],
    ['no `run`', 'export const ran = 1', 'TypeError: it does not export the function `run`'],
    [
      'an interface that is not granted',
      `import { get } from 'countersign:skill/kv'\nexport const run = get`,
      'skill.toml has no `kv`',
    ],
    [
      'one that there is not',
      `import { get } from 'countersign:skill/disk'\nexport const run = get`,
      'there is no `countersign:skill/disk`',
    ],
    ['a module that is not there', `import x from './x.js'\nexport const run = x`, 'imports `./x.js`'],
    [
      'the world before there is a call',
      `console.log('x')\nexport const run = 1`,
      'can only be used in `run`',
    ],
    [
      'waiting for what never comes',
      'await new Promise(() => {})\nexport const run = 1',
      'waits for something that never happens',
    ],
  ])('%s', async (_, source, told) => {
    const granted = source.includes('console') ? (['log'] as const) : []
    await expect(javaScriptSkill(source, granted)).rejects.toThrow(told)
  })
})
