// The rules of infra/check/rules.ts bite: each is fed a small made-up tree that breaks it, and its nearest lawful neighbour.
// It proves the rules, not this tree; `npm run check` holds this tree against them.

import { describe, expect, test } from 'vitest'
import { breaches } from '../../infra/check/rules.ts'

const ROOT = '/srv/somewhere/countersign'

/** `rule file:line` of each breach, in order of the tree. */
const judged = (files: Record<string, string>, root = ROOT): string[] =>
  breaches(new Map(Object.entries(files)), root).map(({ rule, file, line }) => `${rule} ${file}:${line}`)

type Case = readonly [name: string, files: Record<string, string>, expected: readonly string[]]

const held = (cases: readonly Case[]) => {
  test.each(cases)('%s', (_name, files, expected) => {
    expect(judged(files)).toEqual(expected)
  })
}

const imports = (specifier: string) => `import { a } from '${specifier}'\nvoid a\n`

describe('folders', () => {
  held([
    ['edge may not import worker', { 'edge/a.ts': imports('../worker/b.ts') }, ['boundary edge/a.ts:1']],
    ['worker may not import edge', { 'worker/a.ts': imports('../edge/b.ts') }, ['boundary worker/a.ts:1']],
    [
      'the worker never sees a policy',
      { 'worker/a.ts': imports('../policies/floor.cedar') },
      ['boundary worker/a.ts:1'],
    ],
    [
      'cli imports shared only',
      { 'cli/a.ts': `${imports('../shared/b.ts')}${imports('../edge/b.ts')}` },
      ['boundary cli/a.ts:3'],
    ],
    [
      'shared imports nothing of one side',
      { 'shared/a.ts': imports('../edge/b.ts') },
      ['boundary shared/a.ts:1'],
    ],
    ['nothing imports test', { 'infra/a.ts': imports('../test/support/b.ts') }, ['boundary infra/a.ts:1']],
    [
      'test and infra import everything',
      { 'test/a.ts': imports('../edge/b.ts'), 'infra/a.ts': imports('../worker/b.ts') },
      [],
    ],
    [
      'both sides import shared',
      { 'edge/deep/a.ts': imports('../../shared/b.ts'), 'worker/a.ts': imports('../shared/b.ts') },
      [],
    ],
    [
      'an import may not leave the repository',
      { 'edge/a.ts': imports('../../elsewhere/b.ts') },
      ['boundary edge/a.ts:1'],
    ],
    [
      'a folder nobody knows is refused',
      { 'scripts/a.ts': 'export const a = 1\n' },
      ['folder scripts/a.ts:1'],
    ],
  ])
})

describe('every form of import counts', () => {
  const forms: Record<string, string> = {
    type: `import type { B } from '../worker/b.ts'\nexport const b = (x: B) => x\n`,
    're-export': `export { b } from '../worker/b.ts'\n`,
    'export star': `export * from '../worker/b.ts'\n`,
    'side effect': `import '../worker/b.ts'\n`,
    dynamic: `export const b = () => import('../worker/b.ts')\n`,
    'type query': `export type B = import('../worker/b.ts').B\n`,
    require: `export const b = require('../worker/b.ts')\n`,
    'over lines': `import {\n  b,\n} from '../worker/b.ts'\nvoid b\n`,
  }
  held(
    Object.entries(forms).map(
      ([name, source]): Case => [name, { 'edge/a.ts': source }, ['boundary edge/a.ts:1']],
    ),
  )
  held([
    [
      'text and comments do not',
      { 'edge/a.ts': `// import '../worker/b.ts'\nexport const b = "import '../worker/b.ts'"\n` },
      [],
    ],
    [
      'a computed one is refused',
      { 'edge/a.ts': 'export const b = (x: string) => import(x)\n' },
      ['computed-import edge/a.ts:1'],
    ],
    ['what does not parse is not passed over', { 'edge/a.ts': 'import { from\n' }, ['syntax edge/a.ts:1']],
  ])
})

describe('sole importers', () => {
  const outsiders: readonly (readonly [specifier: string, lawful: string, unlawful: string])[] = [
    ['@cedar-policy/cedar-wasm/web', 'edge/policy/engine.ts', 'edge/http/intake.ts'],
    [
      '../node_modules/@cedar-policy/cedar-wasm/web/cedar_wasm_bg.wasm',
      'edge/policy/engine.ts',
      'edge/http/intake.ts',
    ],
    ['@bytecodealliance/jco-transpile/component', 'edge/skills.ts', 'edge/policy/engine.ts'],
    ['bullmq', 'edge/pool/pool-object.ts', 'edge/run/run-object.ts'],
    ['bullmq', 'test/faults/doorbells.ts', 'worker/calls/call.ts'],
    ['ioredis', 'worker/queue/doorbells.ts', 'worker/link/client.ts'],
    ['execa', 'worker/sandbox/process/start.ts', 'worker/sandbox/plan/argv.ts'],
    ['drizzle-orm/durable-sqlite', 'edge/run/run-object.ts', 'edge/call/lifecycle.ts'],
    ['node:child_process', 'worker/sandbox/launch.ts', 'worker/calls/call.ts'],
    ['child_process', 'infra/start.ts', 'cli/main.ts'],
    ['wrangler', 'infra/build.ts', 'edge/router.ts'],
  ]
  for (const [specifier, lawful, unlawful] of outsiders) {
    held([
      [`${specifier} in ${lawful}`, { [lawful]: imports(specifier) }, []],
      [`${specifier} in ${unlawful}`, { [unlawful]: imports(specifier) }, [`sole-importer ${unlawful}:1`]],
    ])
  }
  held([
    [
      'zod is for everyone',
      { 'edge/a.ts': imports('zod'), 'worker/a.ts': imports('zod'), 'cli/a.ts': imports('zod') },
      [],
    ],
  ])
})

describe('D3 T02 signatures are checked in one file', () => {
  const takes: Record<string, string> = {
    'the library’s verify': `import { createHash, verify } from 'node:crypto'\nvoid [createHash, verify]\n`,
    'verify under another name': `import { verify as holds } from 'crypto'\nvoid holds\n`,
    'a stream that verifies': `import { createVerify } from 'node:crypto'\nvoid createVerify\n`,
    'a public key': `import { createPublicKey } from 'node:crypto'\nvoid createPublicKey\n`,
    'the whole module': `import * as all from 'node:crypto'\nvoid all\n`,
    'its default': `import all from 'node:crypto'\nvoid all\n`,
    'it at run time': `export const all = () => import('node:crypto')\n`,
    'it by require': `export const all = require('node:crypto')\n`,
    'a re-export': `export { verify } from 'node:crypto'\n`,
    'the runtime’s own': 'export const all = () => crypto.subtle.verify\n',
    'the runtime’s own, in parts': 'const { subtle } = globalThis.crypto\nvoid subtle\n',
  }
  for (const [name, source] of Object.entries(takes)) {
    held([
      [name, { 'edge/a.ts': source }, ['signature-check edge/a.ts:1']],
      [`${name}, in its place`, { 'shared/evidence/ed25519.ts': source, 'test/a.ts': source }, []],
    ])
  }
  held([
    [
      'hashes and types are for everyone',
      {
        'edge/a.ts':
          "import { createHash, type KeyObject, sign } from 'node:crypto'\nvoid [createHash, sign]\n",
      },
      [],
    ],
    [
      'a key is made of a secret where webhooks are signed',
      { 'edge/channels/webhook.ts': takes['a public key'] ?? '' },
      [],
    ],
    [
      'and verifies nothing there',
      { 'edge/channels/webhook.ts': takes['the library’s verify'] ?? '' },
      ['signature-check edge/channels/webhook.ts:1'],
    ],
  ])
})

describe('environment', () => {
  const reads = ['process.env.HOME', "process['env']", 'globalThis.process.env', 'process.env']
  held(
    reads.map(
      (read): Case => [
        read,
        { 'worker/link/client.ts': `export const a = ${read}\n` },
        ['environment worker/link/client.ts:1'],
      ],
    ),
  )
  held([
    [
      'taken apart',
      { 'cli/calls/verify.ts': 'const { env } = process\nvoid env\n' },
      ['environment cli/calls/verify.ts:1'],
    ],
    [
      'imported',
      { 'cli/calls/verify.ts': "import { env } from 'node:process'\nvoid env\n" },
      ['environment cli/calls/verify.ts:1'],
    ],
    [
      'in the configuration',
      { 'worker/config.ts': 'export const a = process.env.HOME\n', 'infra/a.ts': 'void process.env\n' },
      [],
    ],
    ['another env', { 'edge/router.ts': 'export const a = (c: { env: string }) => c.env\n' }, []],
  ])
})

describe('every test runs', () => {
  const narrowed = [
    "test.only('a', run)",
    "it.skip('a', run)",
    "describe.skip('a', run)",
    "test.todo('a')",
    "test.skipIf(process.getuid?.() !== 0)('a', run)",
    "test.concurrent.only('a', run)",
    "test.fails('a', run)",
    "xit('a', run)",
    "test('a', { skip: true }, run)",
    "test('a', (context) => context.skip())",
  ]
  held(
    narrowed.map(
      (line): Case => [line, { 'test/a.test.ts': `${line}\n` }, ['every-test-runs test/a.test.ts:1']],
    ),
  )
  held([
    ['a plain one', { 'test/a.test.ts': "test('only skip todo', run)\ntest.each(rows)('%s', run)\n" }, []],
  ])
})

describe('shape', () => {
  const lines = (n: number) => 'export const a = 1\n'.repeat(n)
  held([
    ['441 lines', { 'edge/a.sql.ts': lines(441) }, ['length edge/a.sql.ts:441']],
    ['440 lines', { 'edge/a.ts': lines(440) }, []],
    ['a long document', { 'README.md': lines(441) }, []],
    ['a long shell script', { 'infra/a.sh': lines(441) }, ['length infra/a.sh:441']],
    ['utils', { 'edge/utils.ts': '' }, ['name edge/utils.ts:1']],
    ['helpers in a name', { 'test/approval-helpers.ts': '' }, ['name test/approval-helpers.ts:1']],
    ['a folder called services', { 'edge/services/a.ts': '' }, ['name edge/services/a.ts:1']],
    ['a barrel', { 'edge/api/index.ts': '' }, ['name edge/api/index.ts:1']],
    ['a systemd unit is one', { 'infra/countersign-worker.service': '' }, []],
  ])
})

describe('cycles', () => {
  const a = "import { b } from './b.ts'\nexport const a = () => b\n"
  held([
    [
      'of two',
      { 'edge/a.ts': a, 'edge/b.ts': "import { a } from './a.ts'\nexport const b = () => a\n" },
      ['cycle edge/b.ts:1'],
    ],
    [
      'of three',
      { 'edge/a.ts': a, 'edge/b.ts': "export * from './c.ts'\n", 'edge/c.ts': "import './a.ts'\n" },
      ['cycle edge/c.ts:1'],
    ],
    ['of itself', { 'edge/a.ts': "import './a.ts'\n" }, ['cycle edge/a.ts:1']],
    [
      'of types only',
      { 'edge/a.ts': a, 'edge/b.ts': "import type { a } from './a.ts'\nexport type B = typeof a\n" },
      [],
    ],
    [
      'a diamond is none',
      {
        'edge/a.ts': "import './b.ts'\nimport './c.ts'\n",
        'edge/b.ts': "import './d.ts'\n",
        'edge/c.ts': "import './d.ts'\n",
        'edge/d.ts': '',
      },
      [],
    ],
  ])
})

describe('foreign text', () => {
  // Put together here, so that this file holds none of it.
  const host = ['registry', 'example', 'org'].join('.')
  held([
    ['a package registry', { 'README.md': `see\nhttps://${host}/a\n` }, ['registry-host README.md:2']],
    [
      'an image registry',
      { 'infra/Containerfile': `FROM ${['docker', 'io'].join('.')}/debian:12\n` },
      ['registry-host infra/Containerfile:1'],
    ],
    [
      'a lock file that says where from',
      { 'package-lock.json': `{"resolved": "${'https'}://x/a.tgz"}\n` },
      ['registry-host package-lock.json:1'],
    ],
    ['where this checkout lies', { 'README.md': `cd ${ROOT}\n` }, ['machine-path README.md:1']],
    ['a path inside the sandbox', { 'README.md': 'cd /workspace\n' }, []],
    ['a word', { 'README.md': 'the policy registry. Then\n' }, []],
  ])
})

test('what lies beside a checkout in a folder of its own is foreign too', () => {
  const files = { 'README.md': 'see /builds/notes.md\nnot host/builds/x\n' }
  expect(judged(files, '/builds/countersign')).toEqual(['machine-path README.md:1'])
  expect(judged(files, '/srv/countersign')).toEqual([])
})

test('a breach says what to do instead', () => {
  const [breach] = breaches(new Map([['edge/a.ts', imports('../worker/b.ts')]]), ROOT)
  expect(breach).toEqual({
    file: 'edge/a.ts',
    line: 1,
    rule: 'boundary',
    found: 'edge imports `worker/b.ts`',
    todo: 'move what both sides must agree on to shared/, or send it over the wire',
  })
})
