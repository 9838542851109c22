// Promise: JavaScript runs as a skill. It builds to the same bytes each time, imports only the
// granted capabilities and no system interface, uses the world's functions as modules, and errors
// name their place.

import { describe, expect, test } from 'vitest'
import { compileJavaScript } from '../../../cli/skills/compile-javascript.ts'
import { readComponent } from '../../../edge/skills/component/bounds.ts'
import { meter } from '../../../edge/skills/metering/meter.ts'
import { sha256 } from '../../../shared/bytes/json.ts'
import { LIMITS, MAX_SKILL_LIMITS } from '../../../shared/limits.ts'
import { SkillCapability } from '../../../shared/plan/plan.ts'
import type { Call } from '../../../shared/wire/calls.ts'
import { Fixtures, unwrap } from '../../support/fixtures.ts'
import { javaScriptSkill } from '../../support/skills/javascript-skill.ts'
import { Publisher } from '../../support/skills/skill.ts'
import { sharedStack } from '../../support/stack/stack.ts'

const fixtures = new Fixtures('javascript', sharedStack())
const acme = await Publisher.listed('javascript-acme', fixtures.root)
const maker = await fixtures.operator(['admin'])
const agent = await fixtures.agent({ tools: ['*'], budget: { max_denied_per_run: 100 } })

/** Publishes and enables a skill with this source; returns the name of its tool. */
async function tool(
  source: string,
  capabilities: readonly ('log' | 'clock' | 'random')[] = [],
): Promise<string> {
  const id = fixtures.name()
  const grantedCapabilities = Object.fromEntries(capabilities.map((name) => [name, true as const]))
  const code = await javaScriptSkill(source, capabilities)
  const manifest = acme.manifest(id, { capabilities: grantedCapabilities })
  return acme.enable({ maker: maker.client, root: fixtures.root }, manifest, code)
}
const called = async (name: string, args: Record<string, unknown> = {}): Promise<Call> =>
  unwrap(await agent.client('proposeCallInNewRun', { body: { tool: name, args }, wait: 20 }))
const outputOf = async (name: string, args: Record<string, unknown> = {}): Promise<unknown> => {
  const { result } = await called(name, args)
  if (result?.ok !== true) throw new Error(JSON.stringify(result))
  return JSON.parse(result.output)
}

const HELLO = `export const run = (tool, input) => JSON.stringify({ tool, greeting: 'Hello, ' + JSON.parse(input).name + '!' })`

describe('build results', () => {
  test('a JavaScript skill is a component of the world that can be metered, and under a quarter of the size limit', async () => {
    const code = await javaScriptSkill(HELLO, SkillCapability.options)
    const read = readComponent(code)
    if (!read.ok) throw new Error(read.error.detail)
    expect([...read.value.capabilities].sort()).toEqual([...SkillCapability.options].sort())
    const room = { pages: MAX_SKILL_LIMITS.memory_bytes / 65_536, elements: MAX_SKILL_LIMITS.table_elements }
    for (const module of read.value.modules) expect(meter(module, room).ok).toBe(true)
    expect(code.byteLength).toBeLessThan(LIMITS.skill_component_bytes / 4)
  })

  test('the same JavaScript source builds to the same bytes, and the component imports only granted capabilities', async () => {
    const sources = [HELLO, HELLO, HELLO.replace('Hello', 'Hallo')]
    const digests: string[] = []
    for (const source of sources) {
      const code = await compileJavaScript(
        'skill.js',
        { resolve: (_, name) => name, placeOf: () => 'skill.js', source: () => source },
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

describe('calls of a JavaScript skill', () => {
  test('a JavaScript skill receives tool and input and returns its result', async () => {
    const name = await tool(HELLO)
    expect(await outputOf(name, { name: 'Ünal 😀' })).toEqual({ tool: 'run', greeting: 'Hello, Ünal 😀!' })
  })

  test('a JavaScript skill may be asynchronous, and each call starts from the same state', async () => {
    const name = await tool(`let calls = 0
      export async function run(tool, input) { await null; calls += 1; return JSON.stringify({ calls }) }`)
    expect([await outputOf(name), await outputOf(name)]).toEqual([{ calls: 1 }, { calls: 1 }])
  })

  test('console, Date and Math.random of a JavaScript skill use the granted log, clock and random', async () => {
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
    const output = JSON.parse(call.result?.output ?? '')
    expect(output).toMatchObject({ same: true, bytes: 8 })
    expect(output.year).toBeGreaterThan(2025)
    expect(await outputOf(name)).not.toMatchObject({ random: output.random })
  })

  test.each([
    [
      'an error that the author throws is reported with their message',
      `throw new Error('no such order')`,
      'no such order',
    ],
    ['a thrown string is reported as that string', `throw 'no such order'`, 'no such order'],
    [
      'an error of the engine is reported with its place',
      'null.x',
      `TypeError: cannot read property 'x' of null (skill.js:2:1)`,
    ],
    [
      'an endless recursion is reported with its place',
      'const f = () => f() + 1; f()',
      /^RangeError: Maximum call stack size exceeded \(skill\.js:2:/,
    ],
    ['a result that is not a string is an error', 'return 7', /`run` must return a string of JSON/],
    [
      'a promise that never settles is an error',
      'return new Promise(() => {})',
      /promise that never settles/,
    ],
    [
      'Date fails without the capability clock',
      'return String(Date.now())',
      '`clock` is not under [capabilities] in skill.toml',
    ],
    [
      'Math.random fails without the capability random',
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

describe('build errors', () => {
  test.each([
    ['a syntax error', 'export const run = (', /^skill\.js:1:\d+: SyntaxError: /],
    ['an exception at the top level', '\nnull.x\nexport const run = 1', /^skill\.js:2:\d+: TypeError: /],
    [
      'a missing `run`',
      'export const ran = 1',
      'TypeError: the skill’s main module does not export a function `run`',
    ],
    [
      'an import of an interface that is not granted',
      `import { get } from 'countersign:skill/kv'\nexport const run = get`,
      '`countersign:skill/kv` needs `kv` under [capabilities] in skill.toml',
    ],
    [
      'an import of an unknown interface',
      `import { get } from 'countersign:skill/disk'\nexport const run = get`,
      'there is no `countersign:skill/disk`',
    ],
    ['an import of a missing module', `import x from './x.js'\nexport const run = x`, 'imports `./x.js`'],
    [
      'a call of the world at the top level',
      `console.log('x')\nexport const run = 1`,
      'can only be used inside `run`',
    ],
    [
      'a top-level await that never settles',
      'await new Promise(() => {})\nexport const run = 1',
      'awaits a promise that never settles',
    ],
  ])('the build of a JavaScript skill reports %s', async (_, source, message) => {
    const granted = source.includes('console') ? (['log'] as const) : []
    await expect(javaScriptSkill(source, granted)).rejects.toThrow(message)
  })
})
