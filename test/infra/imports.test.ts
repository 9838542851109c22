// Tests the import rules of infra/check/imports.ts and the rooms of infra/check/rooms.ts on a small
// made-up tree: each rule refuses an import, and accepts the most similar one that is allowed. `npm
// run check` applies the same rules to this repository.

import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { reduced } from '../../infra/check/graph.ts'
import { breachesIn, importsOf } from '../../infra/check/imports.ts'
import { misordered, patternOf, ROOMS, roomOf, SIDES } from '../../infra/check/rooms.ts'
import { ROOT } from '../../infra/state.ts'

let root: string
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'imports-'))
  symlinkSync(join(ROOT, 'node_modules'), join(root, 'node_modules'))
})
afterEach(() => rmSync(root, { recursive: true }))

type Files = Readonly<Record<string, string>>

/** The files that break a rule, each once, in alphabetical order. */
async function breakers(files: Files): Promise<string[]> {
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(root, path)), { recursive: true })
    writeFileSync(join(root, path), text)
  }
  return [...new Set(breachesIn(await importsOf(root)).map(({ from }) => from))].sort()
}

const imports = (specifier: string) => `import { a } from '${specifier}'\nvoid a\n`

describe('folders', () => {
  test('an import between top folders is refused unless the table permits it', async () => {
    const unlawful = {
      'edge/main.ts': imports('../worker/host/log.ts'),
      'worker/main.ts': imports('../edge/platform/alarm.ts'),
      'worker/doctor.ts': imports('../policies/floor.cedar'),
      'cli/main.ts': imports('../edge/platform/alarm.ts'),
      'shared/ids.ts': imports('../edge/platform/alarm.ts'),
      'infra/a.ts': imports('../test/support/b.ts'),
      'edge/platform/deadline.ts': imports('../../../elsewhere/b.ts'),
    }
    const lawful = {
      'edge/platform/alarm.ts': imports('../../shared/limits.ts'),
      'worker/host/log.ts': imports('../../shared/limits.ts'),
      'test/support/b.ts': imports('../../edge/platform/alarm.ts'),
      'infra/b.ts': imports('../worker/host/log.ts'),
      'shared/limits.ts': 'export const a = 1\n',
      'policies/floor.cedar': '',
    }
    expect(await breakers({ ...unlawful, ...lawful })).toEqual(Object.keys(unlawful).sort())
  })

  test('every form of an import counts; text and comments do not', async () => {
    const forms: Files = {
      type: `import type { B } from '../../worker/b.ts'\nexport const b = (x: B) => x\n`,
      're-export': `export { b } from '../../worker/b.ts'\n`,
      'export-star': `export * from '../../worker/b.ts'\n`,
      'side-effect': `import '../../worker/b.ts'\n`,
      dynamic: `export const b = () => import('../../worker/b.ts')\n`,
      require: `export const b = require('../../worker/b.ts')\n`,
      'over-lines': `import {\n  b,\n} from '../../worker/b.ts'\nvoid b\n`,
    }
    const files = Object.fromEntries(
      Object.entries(forms).map(([name, text]) => [`edge/platform/${name}.ts`, text]),
    )
    const text = `// import '../../worker/b.ts'\nexport const b = "import '../../worker/b.ts'"\n`
    expect(
      await breakers({ ...files, 'edge/platform/text.ts': text, 'worker/b.ts': 'export const b = 1\n' }),
    ).toEqual(Object.keys(files).sort())
  })

  test('imports in JSX files are found', async () => {
    const page = `import { b } from '../../worker/b.ts'\nexport const Page = () => <p>import {b}</p>\n`
    expect(await breakers({ 'edge/pages/page.tsx': page, 'worker/b.ts': 'export const b = 1\n' })).toEqual([
      'edge/pages/page.tsx',
    ])
  })

  test('a file that does not parse is an error, not a file without imports', async () => {
    await expect(breakers({ 'edge/main.ts': 'import { from\n' })).rejects.toThrow('edge/main.ts')
  })
})

describe('rooms', () => {
  test('a room may import the rooms above it in the table, and no other, for types too', async () => {
    const files = {
      'edge/platform/alarm.ts': `import type { A } from '../run/store.ts'\nexport type B = A\n`,
      'edge/policy/engine.ts': imports('../tools/planner.ts'),
      'edge/tools/planner.ts': imports('../policy/engine.ts'),
      'edge/run/store.ts': imports('../platform/alarm.ts'),
    }
    expect(await breakers(files)).toEqual(['edge/platform/alarm.ts', 'edge/tools/planner.ts'])
  })

  test('the bindings may name the objects as types, and import nothing else of them', async () => {
    const object = { 'edge/run/run-object.ts': 'export class RunObject {}\n' }
    expect(
      await breakers({
        ...object,
        'edge/bindings.ts': `import type { RunObject } from './run/run-object.ts'\nexport type Env = RunObject\n`,
      }),
    ).toEqual([])
    expect(
      await breakers({
        ...object,
        'edge/bindings.ts': `import { RunObject } from './run/run-object.ts'\nvoid RunObject\n`,
      }),
    ).toEqual(['edge/bindings.ts'])
  })

  test('every side has its rooms in an order that allows no cycle', () => {
    for (const side of SIDES) expect(misordered(ROOMS[side]), side).toEqual([])
    expect(misordered({ a: ['b'], b: ['a'] })).toEqual(['a may import b, which does not stand above it'])
    expect(misordered({ a: ['a'] })).toEqual(['a may import a, which does not stand above it'])
  })

  test('a file belongs to the innermost room, and a file outside of all rooms to none', () => {
    const rooms = { sandbox: [], 'sandbox/kernel': [], 'config.ts': [], main: [] }
    const holds = (room: string, file: string) => new RegExp(patternOf('worker', room, rooms)).test(file)
    expect(holds('sandbox', 'worker/sandbox/launch.ts')).toBe(true)
    expect(holds('sandbox', 'worker/sandbox/kernel/seccomp.ts')).toBe(false)
    expect(holds('sandbox/kernel', 'worker/sandbox/kernel/seccomp.ts')).toBe(true)
    expect(holds('main', 'worker/serve.ts')).toBe(true)
    expect(holds('main', 'worker/config.ts')).toBe(false)
    expect(holds('config.ts', 'worker/config.ts')).toBe(true)
    expect(roomOf('edge', 'edge/new-room/a.ts')).toBeUndefined()
  })

  test('the drawing leaves out the arrows that follow from others', () => {
    expect(reduced({ a: [], b: ['a'], c: ['a', 'b'] })).toEqual([
      ['b', 'a'],
      ['c', 'b'],
    ])
  })
})

describe('sole importers', () => {
  const OUTSIDERS: readonly (readonly [specifier: string, lawful: string, unlawful: string])[] = [
    ['@cedar-policy/cedar-wasm/web', 'edge/policy/engine.ts', 'edge/http/intake.ts'],
    [
      '../../node_modules/@cedar-policy/cedar-wasm/web/cedar_wasm_bg.wasm',
      'edge/policy/built-in.ts',
      'edge/http/problem.ts',
    ],
    ['@bytecodealliance/jco-transpile/component', 'edge/skills/transpiler/jco.ts', 'edge/policy/check.ts'],
    ['quickjs-wasi', 'cli/skills/javascript/quickjs.ts', 'cli/skills/build.ts'],
    ['bullmq', 'edge/pool/pool-object.ts', 'edge/run/run-object.ts'],
    ['bullmq', 'test/faults/doorbells.ts', 'worker/calls/call.ts'],
    ['ioredis', 'worker/queue/doorbells.ts', 'worker/link/client.ts'],
    ['execa', 'worker/sandbox/process/start.ts', 'worker/sandbox/plan/argv.ts'],
    ['drizzle-orm/durable-sqlite', 'edge/run/run-object.ts', 'edge/call/lifecycle.ts'],
    ['drizzle-orm', 'edge/run/tables.ts', 'edge/call/usage.ts'],
    ['smol-toml', 'cli/skills/source-folder.ts', 'cli/skills/new.ts'],
    ['node:child_process', 'worker/sandbox/launch.ts', 'worker/calls/spool.ts'],
    ['child_process', 'infra/start.ts', 'cli/main.ts'],
    ['node:cluster', 'test/a.ts', 'worker/main.ts'],
    ['wrangler', 'infra/build.ts', 'edge/router.ts'],
  ]
  test('a package with few importers is refused in every other file', async () => {
    const text = (which: 1 | 2) => {
      const files = new Map<string, string>()
      for (const row of OUTSIDERS) files.set(row[which], `${files.get(row[which]) ?? ''}import '${row[0]}'\n`)
      return Object.fromEntries(files)
    }
    expect(
      await breakers({
        ...text(1),
        ...text(2),
        'edge/workers/a.ts': imports('zod'),
        'cli/calls/a.ts': imports('zod'),
      }),
    ).toEqual(Object.keys(text(2)).sort())
  })
})

test('a breach names both files, the rule, and what to do instead', async () => {
  await breakers({ 'edge/tools/a.ts': imports('../run/b.ts'), 'edge/run/b.ts': 'export const a = 1\n' })
  const [breach] = breachesIn(await importsOf(root))
  expect(breach).toEqual({
    from: 'edge/tools/a.ts',
    to: 'edge/run/b.ts',
    rule: expect.stringMatching(/^edge\/tools may import /),
    instead:
      'move the code to the room that owns it, or to one above both; infra/check/rooms.ts has the order',
  })
})
