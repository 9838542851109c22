// Promise: the author of a skill learns what is wrong and where, in every language with a template.
// A package is the same bytes wherever it is built and says what it is made of, and a key that
// others could read signs nothing.

import { spawnSync } from 'node:child_process'
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { newKey } from '../../../cli/skills/publisher-key.ts'
import { ROOT } from '../../../infra/state.ts'
import { SkillCapability } from '../../../shared/plan/plan.ts'
import { SkillPackage, SkillPayload } from '../../../shared/wire/skills.ts'
import type { CliResult } from '../../support/countersign.ts'
import { countersign } from '../../support/countersign.ts'
import { javaScriptSkill } from '../../support/skills/javascript-skill.ts'
import { generatedOf } from '../../support/skills/skill.ts'

const TEMPLATES = join(ROOT, 'cli/skills/templates')
const folder = mkdtempSync(join(tmpdir(), 'countersign-authoring-'))
afterAll(() => rmSync(folder, { recursive: true }))
const env = { XDG_CONFIG_HOME: join(folder, 'config') }
const run = (...args: readonly string[]): Promise<CliResult> => countersign(args, { cwd: folder, env })
const keyFile = join(folder, 'config/countersign/publishers/acme.json')

function write(path: string, text: string): void {
  mkdirSync(dirname(join(folder, path)), { recursive: true })
  writeFileSync(join(folder, path), text)
}
const payloadIn = (path: string): SkillPayload => {
  const packed = SkillPackage.parse(JSON.parse(readFileSync(join(folder, path), 'utf8')))
  return SkillPayload.parse(JSON.parse(Buffer.from(packed.payload, 'base64').toString()))
}
async function built(name: string): Promise<SkillPayload> {
  expect(await run('skill', 'build', name)).toMatchObject({ code: 0, err: '' })
  return payloadIn(`${name}/dist/${name}-1.0.0.skill.json`)
}

beforeAll(async () => {
  expect(await run('skill', 'keygen', 'acme')).toMatchObject({ code: 0, err: '' })
  expect(await run('skill', 'new', 'hello')).toMatchObject({ code: 0, err: '' })
})

describe('a publisher’s key', () => {
  test('a publisher’s public key never begins with a dash, so that no command line takes it for a flag', () => {
    for (let i = 0; i < 1_000; i++) expect(newKey().x).not.toMatch(/^-/) // one in 64 would be
  })

  test('a publisher’s key is in a file that only its owner can read, is never printed and never overwritten', async () => {
    expect(statSync(keyFile).mode & 0o777).toBe(0o600)
    const { key } = JSON.parse(readFileSync(keyFile, 'utf8'))
    const again = await run('skill', 'keygen', 'acme')
    const used = `the key of \`acme\` already exists and can be used: \`${keyFile}\`; if no operator has registered it yet, ask one to run \`countersign skill publishers put acme ${key.x}\``
    expect(again).toMatchObject({ code: 1, err: `countersign: ${used}\n` })
    write('taken.json', 'something else')
    const taken = 'countersign: `taken.json` already exists; choose another file with `--to`\n'
    expect(await run('skill', 'keygen', 'acme', '--to', 'taken.json')).toMatchObject({ code: 1, err: taken })
    const other = await run('skill', 'keygen', 'other', '--json', '--to', 'other.json')
    expect(`${again.out}${again.err}`).not.toContain(key.d)
    expect(other.out).not.toContain(JSON.parse(readFileSync(join(folder, 'other.json'), 'utf8')).key.d)
  })

  test('a publisher’s key that other users can read signs nothing', async () => {
    chmodSync(keyFile, 0o640)
    expect(await run('skill', 'build', 'hello')).toMatchObject({
      code: 1,
      err: expect.stringContaining('chmod 600'),
    })
    chmodSync(keyFile, 0o600)
  })

  test('the error for a missing publisher’s key names the publisher and those whose keys exist', async () => {
    await run('skill', 'new', 'foreign', '--publisher', 'root')
    const expected =
      'skill.toml names the publisher `root`, whose key is not on this machine; name one whose key is here (`acme`), or create the key with `countersign skill keygen root`'
    expect(await run('skill', 'build', 'foreign')).toMatchObject({
      code: 2,
      err: `countersign: ${expected}; see --help\n`,
    })
    const withoutKeys = await countersign(['skill', 'build', 'foreign'], {
      cwd: folder,
      env: { XDG_CONFIG_HOME: join(folder, 'none') },
    })
    expect(withoutKeys).toMatchObject({
      code: 2,
      err: expect.stringMatching(/publishers\/root\.json`; `countersign skill keygen root` creates it/),
    })
  })

  test('a publisher’s key signs only skills of that publisher', async () => {
    await run('skill', 'keygen', 'umbrella', '--to', 'umbrella.json')
    expect(await run('skill', 'build', 'hello', '--signer', 'umbrella.json')).toMatchObject({
      code: 2,
      err: expect.stringContaining('`umbrella`'),
    })
  })
})

describe('skill.toml', () => {
  const TOML = () => readFileSync(join(folder, 'hello/skill.toml'), 'utf8')

  test.each<[string, (toml: string) => string, RegExp]>([
    [
      'an unknown field',
      (toml) => toml.replace('log = true', 'logs = true'),
      /skill\.toml:\d+: capabilities\.logs: is not a known field/,
    ],
    [
      'a field in a nested table',
      (toml) => toml.replace('log = true', 'http = { hosts = ["a.example"], verbs = ["GET"] }'),
      /skill\.toml:\d+: capabilities\.http\.verbs/,
    ],
    [
      'a value of the wrong type',
      (toml) => toml.replace('version = "1.0.0"', 'version = 1'),
      /skill\.toml:4: version/,
    ],
    [
      'a wrong field of a tool',
      (toml) => toml.replace('description = "Greets somebody by name."', 'title = "Greets"'),
      /tools\.0\.(?:title|description)/,
    ],
    [
      'a date',
      (toml) => `${toml}\n[tools.input_schema.properties.day]\ndefault = 2026-11-19\n`,
      /default: write the date as a string/,
    ],
    ['a syntax error', (toml) => toml.replace('[capabilities]', '[capabilities'), /skill\.toml:\d+:\d+/],
  ])('%s in skill.toml is reported with its line', async (_, change, message) => {
    write('broken/skill.toml', change(TOML()))
    write('broken/src/main.js', 'export const run = () => 1')
    const { code, err } = await run('skill', 'build', 'broken')
    expect(code).toBe(1)
    expect(err).toMatch(message)
  })

  test('a skill’s folder needs a skill.toml and code in exactly one language', async () => {
    expect(await run('skill', 'build', 'nowhere')).toMatchObject({
      code: 2,
      err: expect.stringContaining('countersign skill new'),
    })
    write('empty/skill.toml', TOML())
    expect(await run('skill', 'build', 'empty')).toMatchObject({
      code: 2,
      err: expect.stringContaining('src/main.ts'),
    })
    write('empty/src/main.js', '')
    write('empty/src/main.ts', '')
    expect(await run('skill', 'build', 'empty')).toMatchObject({
      code: 2,
      err: expect.stringContaining('has both'),
    })
  })
})

describe('build results', () => {
  test('a skill’s package is the same, byte for byte, wherever it is built', async () => {
    const once = await built('hello')
    mkdirSync(join(folder, 'elsewhere/deeper'), { recursive: true })
    cpSync(join(folder, 'hello'), join(folder, 'elsewhere/deeper/copy'), { recursive: true })
    rmSync(join(folder, 'elsewhere/deeper/copy/dist'), { recursive: true })
    expect(await run('skill', 'build', 'elsewhere/deeper/copy')).toMatchObject({ code: 0 })
    const [first, second] = ['hello', 'elsewhere/deeper/copy'].map((path) =>
      readFileSync(join(folder, path, 'dist/hello-1.0.0.skill.json'), 'utf8'),
    )
    expect(second).toBe(first)
    expect(JSON.stringify(once)).not.toContain(folder)
  })

  test('a skill’s package lists its sources and npm packages in bill of materials and provenance', async () => {
    cpSync(join(folder, 'hello'), join(folder, 'packed'), { recursive: true })
    write(
      'packed/node_modules/@acme/shout/package.json',
      '{"name":"@acme/shout","version":"2.1.0","license":"MIT","type":"module","exports":{".":{"import":"./lib/shout.js"}}}',
    )
    write(
      'packed/node_modules/@acme/shout/lib/shout.js',
      "import { mark } from './mark.js'\nexport const shout = (text) => text.toUpperCase() + mark",
    )
    write('packed/node_modules/@acme/shout/lib/mark.js', "export const mark = '!'")
    write('packed/src/words.json', '{"hello":"Hello"}')
    write(
      'packed/src/say.ts',
      "import { shout } from '@acme/shout'\nimport words from './words.json' with { type: 'json' }\nexport const say = (name: string): string => words.hello + ', ' + shout(name)",
    )
    write(
      'packed/src/main.ts',
      "import { say } from './say.ts'\nexport const run = (_tool: string, input: string): string => JSON.stringify({ greeting: say(JSON.parse(input).name) })",
    )
    expect(await run('skill', 'build', 'packed')).toMatchObject({ code: 0, err: '' })
    const { sbom, provenance } = payloadIn('packed/dist/hello-1.0.0.skill.json')
    expect(sbom).toMatchObject({
      components: [
        { name: 'quickjs-wasi', licenses: [{ expression: 'MIT' }] },
        { name: '@acme/shout', version: '2.1.0', purl: 'pkg:npm/%40acme/shout@2.1.0' },
      ],
    })
    const materials = JSON.stringify(provenance)
    for (const uri of [
      'file:skill.toml',
      'file:src/main.ts',
      'file:src/say.ts',
      'file:src/words.json',
      'pkg:npm/%40acme/shout@2.1.0',
    ])
      expect(materials).toContain(`"${uri}"`)
  })

  test.each([
    [
      'an import of a missing file',
      "import './gone.ts'",
      /^countersign: src\/main\.ts:1:1: `src\/main\.ts` imports `\.\/gone\.ts`, but there is no such file/,
    ],
    [
      'an import from outside the folder',
      "import '../../hello/src/main.ts'",
      /^countersign: src\/main\.ts:1:1: .*which is outside the skill’s folder/,
    ],
    ['an import of a Node module', "import 'node:fs'", /^countersign: src\/main\.ts:1:1: .*`node:fs`/],
    [
      'an import of a package that is not installed',
      "import 'left-pad'",
      /^countersign: src\/main\.ts:1:1: .*`left-pad`, which is not installed/,
    ],
    [
      'an import of a missing package on a later line',
      "\n  import {\n    pad,\n  } from 'left-pad'",
      /^countersign: src\/main\.ts:2:3: .*`left-pad`, which is not installed/,
    ],
    [
      'a dynamic import of a missing package',
      "await import('left-pad')",
      /^countersign: src\/main\.ts:1:7: .*`left-pad`, which is not installed/,
    ],
    ['an import of a CommonJS package', "import 'old'", /CommonJS/],
    ['an import that a package does not export', "import 'neat/inside'", /does not export/],
    [
      'an import of an interface that is not granted',
      "import 'countersign:skill/kv'",
      /^countersign: src\/main\.ts:1:1: .*needs `kv` under \[capabilities\]/,
    ],
    ['an enum, which is not erasable', 'enum A { B }', /^countersign: src\/main\.ts:1:1: .*enum/],
    ['a syntax error', 'const = 1', /^countersign: src\/main\.ts:1:7/],
  ])('the build refuses %s and names the place', async (_, line, message) => {
    write('odd/node_modules/old/package.json', '{"name":"old","version":"1.0.0","main":"index.js"}')
    write('odd/node_modules/old/index.js', 'module.exports = 1')
    write(
      'odd/node_modules/neat/package.json',
      '{"name":"neat","version":"1.0.0","type":"module","exports":"./neat.js"}',
    )
    write('odd/node_modules/neat/neat.js', 'export const neat = 1')
    write('odd/skill.toml', readFileSync(join(folder, 'hello/skill.toml'), 'utf8'))
    write('odd/src/main.ts', `${line}\nexport const run = () => 'x'`)
    const { code, err } = await run('skill', 'build', 'odd')
    expect({ code, err }).toEqual({ code: 1, err: expect.stringMatching(message) })
  })
})

describe('a link out of the folder', () => {
  const assembly = join(TEMPLATES, 'assemblyscript/assembly')

  test.each<[string, string, string, string]>([
    ['in place of an AssemblyScript source', assembly, 'assembly/tools.ts', join(assembly, 'tools.ts')],
    ['to a folder', assembly, 'notes', '/etc'],
    ['to a missing file', assembly, 'notes', '/nowhere'],
    ['in place of the main JavaScript source', '', 'src/main.js', '../../hello/src/main.ts'],
    ['in place of the source folder', '', 'src', '../hello/src'],
    ['in place of the component', '', 'component.wasm', '/etc/hostname'],
  ])('a symlink %s is refused by the build', async (_, code, path, target) => {
    const linked = join(folder, 'linked')
    rmSync(linked, { recursive: true, force: true })
    write('linked/skill.toml', readFileSync(join(folder, 'hello/skill.toml'), 'utf8'))
    if (code !== '') cpSync(code, join(linked, 'assembly'), { recursive: true })
    mkdirSync(dirname(join(linked, path)), { recursive: true })
    rmSync(join(linked, path), { force: true })
    symlinkSync(target, join(linked, path))
    expect(await run('skill', 'build', 'linked')).toMatchObject({
      code: 1,
      err: `countersign: \`linked/${path}\` is a symlink or not a regular file; copy the file into the skill’s folder\n`,
    })
    expect(existsSync(join(linked, 'dist/hello-1.0.0.skill.json'))).toBe(false)
  })

  test('a symlink among AssemblyScript sources is reported before the compiler runs, which takes seconds', async () => {
    write('early/skill.toml', readFileSync(join(folder, 'hello/skill.toml'), 'utf8'))
    write('early/assembly/index.ts', 'this does not compile')
    symlinkSync('/etc', join(folder, 'early/notes'))
    expect((await run('skill', 'build', 'early')).err).toMatch(/^countersign: `early\/notes` is a symlink /)
  })
})

test('the build explains a file in place of its dist folder, and an invalid package.json', async () => {
  cpSync(join(folder, 'hello'), join(folder, 'blocked'), { recursive: true })
  rmSync(join(folder, 'blocked/dist'), { recursive: true, force: true })
  write('blocked/dist', 'a file')
  const blocked = {
    code: 1,
    err: 'countersign: `blocked/dist` is not a folder; remove it, because the build writes there\n',
  }
  expect(await run('skill', 'build', 'blocked')).toMatchObject(blocked)
  rmSync(join(folder, 'blocked/dist'))
  write('blocked/node_modules/torn/package.json', '{')
  write('blocked/src/main.ts', "import 'torn'\nexport const run = () => 'x'")
  const { code, err } = await run('skill', 'build', 'blocked')
  expect({ code, err }).toEqual({
    code: 1,
    err: expect.stringMatching(/^countersign: `.*torn\/package\.json` is not a valid package\.json/m),
  })
})

describe('a template', () => {
  const rust = spawnSync('rustc', ['--print', 'target-libdir', '--target', 'wasm32-unknown-unknown'], {
    encoding: 'utf8',
  })
  const hasRust = rust.status === 0 && existsSync(rust.stdout.trim())

  test('the JavaScript template and the AssemblyScript template build unchanged', async () => {
    for (const [template, part] of [
      ['js', 'quickjs-wasi'],
      ['assemblyscript', 'assemblyscript'],
    ] as const) {
      expect(await run('skill', 'new', `new-${template}`, '--template', template)).toMatchObject({
        code: 0,
        err: '',
      })
      expect((await built(`new-${template}`)).sbom).toMatchObject({ components: [{ name: part }] })
    }
  })

  test('the Rust template builds if Rust is installed; otherwise the error says how to install it', async () => {
    expect(await run('skill', 'new', 'new-rust', '--template', 'rust')).toMatchObject({ code: 0, err: '' })
    const without = await countersign(['skill', 'build', 'new-rust'], {
      cwd: folder,
      env: { ...env, PATH: '/nowhere' },
    })
    expect(without).toMatchObject({
      code: 1,
      err: expect.stringMatching(
        /rustup target add wasm32-unknown-unknown.*apt install cargo libstd-rust-dev-wasm32/,
      ),
    })
    const PATH = process.env['PATH'] ?? ''
    const HOME = process.env['HOME'] ?? ''
    const here = await countersign(['skill', 'build', 'new-rust'], {
      cwd: folder,
      env: { ...env, PATH, HOME },
    })
    expect(here).toMatchObject(
      hasRust ? { code: 0, err: '' } : { code: 1, err: expect.stringContaining('rustup target add') },
    )
  })

  test('the TypeScript template passes its type check, and its types find a wrong argument', () => {
    const checked = (name: string) =>
      spawnSync(process.execPath, [join(ROOT, 'node_modules/typescript/bin/tsc'), '-p', join(folder, name)], {
        encoding: 'utf8',
      })
    expect(checked('hello')).toMatchObject({ status: 0, stdout: '' })
    cpSync(join(folder, 'hello'), join(folder, 'untyped'), { recursive: true })
    write(
      'untyped/src/main.ts',
      "import { write } from 'countersign:skill/log'\nexport const run = (): string => write('info', 7)",
    )
    expect(checked('untyped').stdout).toContain('src/main.ts')
  })

  test('`skill new` overwrites no folder and refuses invalid names and templates', async () => {
    expect(await run('skill', 'new', 'hello')).toMatchObject({
      code: 1,
      err: expect.stringContaining('already exists'),
    })
    expect(await run('skill', 'new', 'Hello')).toMatchObject({ code: 2 })
    expect(await run('skill', 'new', '../hello')).toMatchObject({ code: 2 })
    expect(await run('skill', 'new', 'x', '--template', 'cobol')).toMatchObject({
      code: 2,
      err: expect.stringContaining('assemblyscript'),
    })
  })
})

/** The functions that a declaration contains, in one normal form. */
function functionsIn(text: string): string[] {
  const functions = [...text.matchAll(/(?:export )?function (\w+)\(([^)]*)\): ([^;\n]+)/g)]
  return functions
    .map(
      ([, name, parameters = '', result = '']) => `${name}(${parameters.replaceAll('?:', ':')}): ${result}`,
    )
    .sort()
}

test('the TypeScript declarations for authors equal those that jco generates from the world', async () => {
  const types = readFileSync(join(ROOT, 'cli/skills/templates/countersign-skill.d.ts'), 'utf8')
  const declared = await generatedOf(
    await javaScriptSkill(`export const run = () => ''`, SkillCapability.options),
  )
  for (const capability of SkillCapability.options) {
    const ours = types.split(`declare module 'countersign:skill/${capability}' {`)[1]?.split('\n}')[0] ?? ''
    const theirs = declared.get(`interfaces/countersign-skill-${capability}.d.ts`) ?? ''
    expect(functionsIn(theirs).length).toBeGreaterThan(0)
    expect(functionsIn(ours)).toEqual(functionsIn(theirs))
  }
})
