// Tests our own lint rules: biome.json and the plugins in infra/check are applied to a small
// made-up tree. It has one file for each forbidden line, and files with similar lines that are
// allowed.

import { spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { ROOT } from '../../infra/state.ts'

let root: string
beforeAll(() => {
  root = mkdtempSync(join(tmpdir(), 'lint-'))
  symlinkSync(join(ROOT, 'node_modules'), join(root, 'node_modules'))
  for (const file of ['biome.json', 'package.json']) cpSync(join(ROOT, file), join(root, file))
  for (const file of ['product', 'signatures', 'tests', 'transactions'])
    cpSync(join(ROOT, `infra/check/${file}.grit`), join(root, `infra/check/${file}.grit`))
})
afterAll(() => rmSync(root, { recursive: true }))

type Files = Readonly<Record<string, string>>
const PLUGINS = ['plugin']

/** The files in which biome reports one of these rules, in alphabetical order. */
function reported(rules: readonly string[], files: Files): string[] {
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(root, path)), { recursive: true })
    writeFileSync(join(root, path), text)
  }
  const { stdout, stderr } = spawnSync(
    join(ROOT, 'node_modules/.bin/biome'),
    ['lint', '--reporter=json', '--max-diagnostics=none', '.'],
    { cwd: root, encoding: 'utf8' },
  )
  for (const path of Object.keys(files)) rmSync(join(root, path))
  const { diagnostics } = JSON.parse(stdout) as {
    diagnostics: { category: string; location: { path: string } }[]
  }
  if (diagnostics === undefined) throw new Error(stderr)
  const hits = diagnostics.filter(({ category }) =>
    rules.some((rule) => category === rule || category.endsWith(`/${rule}`)),
  )
  return [...new Set(hits.map(({ location }) => location.path))].sort()
}

/** Writes each line into a separate file in this folder. */
const filesIn = (folder: string, lines: readonly string[], extension = '.ts'): Files =>
  Object.fromEntries(lines.map((line, n) => [`${folder}/case-${n}${extension}`, `${line}\n`]))

test('T02 only one file may import signature functions', () => {
  const lines = [
    `import { createHash, verify } from 'node:crypto'\nvoid [createHash, verify]`,
    `import { verify as holds } from 'node:crypto'\nvoid holds`,
    `import { verify } from 'crypto'\nvoid verify`,
    `import { createVerify } from 'node:crypto'\nvoid createVerify`,
    `import { createPublicKey } from 'node:crypto'\nvoid createPublicKey`,
    `import * as all from 'node:crypto'\nvoid all`,
    `import all from 'node:crypto'\nvoid all`,
    `export const all = () => import('node:crypto')`,
    `export const all = require('node:crypto')`,
    `export { verify } from 'node:crypto'`,
    `export * from 'node:crypto'`,
    'export const all = () => crypto.subtle.verify',
    `export const all = () => crypto['subtle']`,
    'const { subtle } = globalThis.crypto\nvoid subtle',
  ]
  const lawful = {
    'edge/hash.ts': `import { createHash, type KeyObject, sign } from 'node:crypto'\nexport type K = KeyObject\nvoid [createHash, sign]\n`,
    'shared/evidence/ed25519.ts': lines.slice(0, 4).join('\n'),
    'test/a.test.ts': lines.slice(5, 8).join('\n'),
    'edge/channels/webhook.ts': `import { createPublicKey } from 'node:crypto'\nvoid createPublicKey\n`,
  }
  const rules = [...PLUGINS, 'noRestrictedImports']
  for (const folder of ['edge/run', 'infra']) {
    const unlawful = filesIn(folder, lines)
    expect(reported(rules, { ...unlawful, ...lawful })).toEqual(Object.keys(unlawful).sort())
  }
  const webhook = { 'edge/channels/webhook.ts': `import { verify } from 'node:crypto'\nvoid verify\n` }
  expect(reported(rules, webhook)).toEqual(Object.keys(webhook))
})

test('L5 only the context of a run may open or extend a RunTransaction', () => {
  const lines = [
    'export const tx = new RunTransaction(store, signer, row)',
    'export class Mine extends RunTransaction {}',
  ]
  const lawful = {
    'edge/run/context.ts': lines.join('\n'),
    'edge/run/commands/answer.ts': 'export const apply = (tx: RunTransaction) => tx.apply()\n',
  }
  for (const folder of ['edge/run/commands', 'test/edge/run']) {
    const unlawful = filesIn(folder, lines)
    expect(reported(PLUGINS, { ...unlawful, ...lawful })).toEqual(Object.keys(unlawful).sort())
  }
})

test('only the configuration file of each side may read the environment', () => {
  const lines = [
    'export const a = process.env.HOME',
    `export const a = process['env']`,
    'export const a = globalThis.process.env',
    'export const a = process.env',
    'const { env } = process\nvoid env',
    `import { env } from 'node:process'\nvoid env`,
  ]
  const lawful = {
    'worker/config.ts': lines[0] ?? '',
    'cli/shell/config.ts': lines[1] ?? '',
    'infra/a.ts': lines[2] ?? '',
    'edge/b.ts': 'export const a = (context: { env: string }) => context.env\n',
  }
  const unlawful = filesIn('worker/link', lines)
  expect(reported([...PLUGINS, 'noProcessEnv', 'noRestrictedImports'], { ...unlawful, ...lawful })).toEqual(
    Object.keys(unlawful).sort(),
  )
})

test('an import that the import rules can’t see is refused in the product', () => {
  const lines = [
    'export const b = (x: string) => import(x)',
    // biome-ignore lint/suspicious/noTemplateCurlyInString: it is the source under test
    'export const b = (x: string) => import(`./${x}.ts`)',
    `export type B = readonly import('../worker/b.ts').B[]`,
    `export const b = process.getBuiltinModule('node:fs')`,
  ]
  const unlawful = filesIn('edge/run', lines)
  const lawful = {
    'edge/run/literal.ts': `export const b = () => import('./b.ts')\n`,
    'test/a.ts': `${lines[0]}\n`,
  }
  expect(reported(PLUGINS, { ...unlawful, ...lawful })).toEqual(Object.keys(unlawful).sort())
})

test('`.only`, `.skip` and `.todo` are refused in tests', () => {
  const lines = [
    `test.only('a', () => {})`,
    `it.skip('a', run)`,
    `describe.skip('a', run)`,
    `test.todo('a')`,
    `test.skipIf(process.getuid?.() !== 0)('a', run)`,
    `test.runIf(here)('a', run)`,
    `test.concurrent.only('a', run)`,
    `test.fails('a', run)`,
    `xit('a', run)`,
    `test('a', { skip: true }, run)`,
    `test('a', run, { fails: true })`,
    `test.each(rows)('%s', { todo: true }, run)`,
    `test('a', (context) => context.skip())`,
    `test('a', ({ skip }) => skip.skip())`,
  ]
  const unlawful = filesIn('test/edge', lines, '.test.ts')
  const lawful = {
    'test/plain.test.ts': `test('only skip todo', run)\ntest.each(rows)('%s', run)\ntest('a', () => launch({ fails: 1 }, { only: 2 }))\n`,
    'test/fits.test.ts': 'misfits.push(unfit(exit))\n',
  }
  expect(reported(PLUGINS, { ...unlawful, ...lawful })).toEqual(Object.keys(unlawful).sort())
})

test('files that import each other at run time are refused; imports of types and diamonds are accepted', () => {
  const rule = ['noImportCycles']
  const a = "import { b } from './b.ts'\nexport const a = () => b\n"
  const two = { 'edge/a.ts': a, 'edge/b.ts': "import { a } from './a.ts'\nexport const b = () => a\n" }
  expect(reported(rule, two)).toEqual(['edge/a.ts', 'edge/b.ts'])
  const three = {
    'edge/a.ts': a,
    'edge/b.ts': "export * from './c.ts'\n",
    'edge/c.ts': "import './a.ts'\nexport const b = 1\n",
  }
  expect(reported(rule, three)).toEqual(['edge/a.ts', 'edge/b.ts', 'edge/c.ts'])
  expect(
    reported(rule, {
      'edge/a.ts': a,
      'edge/b.ts': "import type { a } from './a.ts'\nexport type B = typeof a\n",
    }),
  ).toEqual([])
  const diamond = {
    'edge/a.ts': "import './b.ts'\nimport './c.ts'\n",
    'edge/b.ts': "import './d.ts'\n",
    'edge/c.ts': "import './d.ts'\n",
    'edge/d.ts': 'export {}\n',
  }
  expect(reported(rule, diamond)).toEqual([])
})
